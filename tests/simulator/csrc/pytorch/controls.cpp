// The operators that tests and the Python module of the device steer it with, as torch.ops.sim.NAME: no Python
// binding is needed for them. Streams and events are PyTorch's own (torch.Stream, torch.Event), by glue.cpp.
//
// Devices are plain numbers here. Handles of memory are [pid, fd, device, offset, bytes], to be sent to other
// processes; the bytes come back as uint8, for whoever knows the dtype and the shape.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/library.h>

#include "../core.hpp"
#include "../faults.hpp"
#include "../glue.hpp"

namespace {

using at::Tensor;
using Counts = c10::Dict<std::string, int64_t>;

Counts dict_of(const std::map<std::string, int64_t>& counts) {
  Counts dict;
  for (const auto& [name, count] : counts) dict.insert(name, count);
  return dict;
}

int checked(int64_t device) {
  TORCH_CHECK(0 <= device && device < sim::device_count(), "there is no device sim:", device);
  return static_cast<int>(device);
}

void synchronize(int64_t device) {
  sim::count_wait("synchronize", false);
  sim::drain(checked(device));
  sim::check(static_cast<int>(device));
}

std::tuple<int64_t, int64_t> memory_info(int64_t device) {
  const auto number = static_cast<c10::DeviceIndex>(checked(device));
  return c10::getDeviceAllocator(c10::kPrivateUse1)->getMemoryInfo(number);
}

Counts memory_stats(int64_t device) {
  const auto stats = sim::device_blocks(checked(device)).stats();
  return dict_of({{"allocated", stats.allocated},
                  {"allocated_peak", stats.allocated_peak},
                  {"reserved", stats.reserved},
                  {"reserved_peak", stats.reserved_peak},
                  {"allocations", stats.allocations},
                  {"frees", stats.frees}});
}

std::vector<int64_t> export_memory(const Tensor& tensor) {
  TORCH_CHECK(tensor.device().type() == c10::kPrivateUse1 && tensor.is_contiguous(),
              "a contiguous tensor of a device");
  const auto handle = sim::export_memory(tensor.data_ptr(), tensor.nbytes());
  return {handle.pid, handle.fd, handle.device, handle.offset, handle.bytes};
}

Tensor import_memory(const std::vector<int64_t>& handle) {
  TORCH_CHECK(handle.size() == 5, "a handle has five numbers");
  void* address =
      sim::import_memory({handle[0], handle[1], handle[2], handle[3], handle[4]}, static_cast<int>(handle[2]));
  return sim::tensor_at(address, handle[4], static_cast<int>(handle[2]), sim::close_memory);
}

}  // namespace

TORCH_LIBRARY(sim, m) {
  m.def("init() -> ()", [] { at::globalContext().lazyInitDevice(c10::kPrivateUse1); });
  m.def("drain() -> ()", [] { sim::drain_all(); });  // before the process ends

  m.def("set_schedule(str schedule) -> ()", [](const std::string& name) { sim::set_schedule(name); });
  m.def("schedule() -> str", [] { return sim::schedule(); });
  m.def("set_numbers(str name) -> ()", [](const std::string& name) { sim::set_numbers(name); });
  m.def("numbers() -> str", [] { return sim::numbers(); });
  m.def("fail_after(int device, int tasks) -> ()",
        [](int64_t d, int64_t tasks) { sim::fail_after(checked(d), tasks); });
  m.def("clear_errors() -> ()", [] { sim::clear_errors(); });
  m.def("manual_seed(int seed) -> ()", [](int64_t seed) { sim::manual_seed(static_cast<uint64_t>(seed)); });

  m.def("random_state(int device) -> Tensor", sim::random_state);
  m.def("set_random_state(int device, Tensor state) -> ()", sim::set_random_state);

  m.def("device_count() -> int", [] { return static_cast<int64_t>(sim::device_count()); });
  m.def("current_device() -> int", [] { return static_cast<int64_t>(sim::current_device()); });
  m.def("set_device(int device) -> ()", [](int64_t device) {
    sim::refuse_if_taken(checked(device));
    sim::set_device(checked(device), true);
  });
  m.def("has_context(int device) -> bool", [](int64_t device) { return sim::has_context(checked(device)); });
  m.def("launches(int device) -> int", [](int64_t device) { return sim::launches(checked(device)); });
  m.def("issued(int device, int stream) -> int", [](int64_t device, int64_t stream) {
    return static_cast<int64_t>(sim::stream(checked(device), static_cast<int>(stream)).issued());
  });
  m.def("note_tasks(bool on) -> ()", [](bool on) { sim::note_tasks(on); });
  m.def("noted_tasks() -> str[]", [] { return sim::noted_tasks(); });
  m.def("synchronize(int device) -> ()", synchronize);

  m.def("fault() -> (str, str, int)", [] {
    const sim::Fault& fault = sim::fault();
    return std::make_tuple(fault.kind, fault.where, fault.first);
  });

  m.def("device_bytes() -> int", [] { return static_cast<int64_t>(sim::device_bytes()); });
  m.def("memory_info(int device) -> (int, int)", memory_info);
  m.def("memory_stats(int device) -> Dict(str, int)", memory_stats);
  m.def("pinned_bytes() -> int", [] { return static_cast<int64_t>(sim::host_blocks().stats().reserved); });
  m.def("give_pinned_back() -> ()", [] { sim::host_blocks().empty(); });
  m.def("set_limit(int device, int bytes) -> ()", [](int64_t device, int64_t bytes) {
    sim::device_blocks(checked(device)).set_limit(static_cast<size_t>(bytes));
  });
  m.def("reset_peaks(int device) -> ()", [](int64_t device) { sim::device_blocks(checked(device)).reset_peaks(); });
  m.def("empty_cache(int device) -> ()", [](int64_t device) { sim::device_blocks(checked(device)).empty(); });

  m.def("waits(bool of_this_thread=False) -> Dict(str, int)", [](bool own) { return dict_of(sim::waits(own)); });
  m.def("reset_waits() -> ()", [] { sim::reset_waits(); });
  m.def("forbid_waits(bool forbidden) -> ()", [](bool forbidden) { sim::forbid_waits(forbidden); });
  m.def("calls() -> Dict(str, int)", [] { return dict_of(sim::calls()); });  // operators since the last reset
  m.def("reset_calls() -> ()", [] { sim::reset_calls(); });

  m.def("register_host(int address, int bytes) -> int", [](int64_t address, int64_t bytes) {
    return static_cast<int64_t>(sim::register_host(static_cast<uintptr_t>(address), static_cast<size_t>(bytes)));
  });
  m.def("unregister_host(int address) -> int",
        [](int64_t address) { return static_cast<int64_t>(sim::unregister_host(static_cast<uintptr_t>(address))); });
  m.def("registered_bytes() -> int", [] { return sim::registered_bytes(); });
  m.def("unmapped_while_registered() -> int[]", [] { return sim::unmapped_while_registered(); });
  m.def("read_rows(Tensor host_rows, Tensor ids, Tensor? positions, Tensor(a!) out) -> ()", sim::read_rows);

  m.def("export_memory(Tensor tensor) -> int[]", export_memory);
  m.def("import_memory(int[] handle) -> Tensor", import_memory);
}
