// The interfaces that PyTorch asks of a device: a guard (devices, streams, events), hooks, and allocators of memory
// on devices and of pinned memory. All of it calls core.hpp; what the host waits for by request is counted here.
//
// Contexts are those of CUDA: allocating makes one, and so does going to another device by setDevice or
// exchangeDevice; going back unchecked, as guards do, makes none. A stream's number in PyTorch is its number on the
// device.
#include "../glue.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstring>
#include <memory>

#include "../faults.hpp"

extern "C" void omp_set_num_threads(int threads);  // of the OpenMP that PyTorch brings
extern "C" int MKL_Set_Num_Threads_Local(int threads);

namespace sim {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::kPrivateUse1;

int index_of(const Device& device) { return device.has_index() ? device.index() : current_device(); }

Device device_of_number(int number) { return {kPrivateUse1, static_cast<DeviceIndex>(number)}; }

const Event& event_at(void* event) { return *static_cast<Event*>(event); }

/// One thread a stream, or each stream would open a team of its own.
void begin_stream_thread() {
  at::get_num_threads();  // PyTorch sets a thread's number once, at its first question
  omp_set_num_threads(1);
  MKL_Set_Num_Threads_Local(1);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kPrivateUse1; }
  DeviceIndex deviceCount() const noexcept override { return static_cast<DeviceIndex>(device_count()); }
  Device getDevice() const override { return device_of_number(current_device()); }
  void setDevice(Device device) const override { set_device(checked(device), true); }
  void uncheckedSetDevice(Device device) const noexcept override { set_device(index_of(device), false); }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    setDevice(device);
    return before;
  }

  c10::Stream getStream(Device device) const override { return stream_of(current_stream(index_of(device))); }
  c10::Stream getDefaultStream(Device device) const override { return stream_of(stream(index_of(device), 0)); }
  c10::Stream getStreamFromGlobalPool(Device device, bool) const override { return getNewStream(device, 0); }
  c10::Stream getNewStream(Device device, int) const override { return stream_of(next_stream(index_of(device))); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return stream_of(exchange_stream(stream_of(stream)));
  }
  void* getStreamNativeHandle(c10::Stream stream) const override { return &stream_of(stream); }
  bool queryStream(const c10::Stream& stream) const override { return stream_of(stream).record().query(); }
  void synchronizeStream(const c10::Stream& stream) const override {
    count_wait("Stream.synchronize", false);
    stream_of(stream).drain();
    check(stream.device_index());
  }
  void synchronizeDevice(DeviceIndex device) const override {
    count_wait("synchronize", false);
    drain(device);
    check(device);
  }

  void record(void** event, const c10::Stream& stream, DeviceIndex, c10::EventFlag flag) const override {
    if (*event == nullptr) *event = new Event;
    *static_cast<Event*>(*event) = stream_of(stream).record(flag == c10::EventFlag::BACKEND_DEFAULT);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) stream_of(stream).wait_for(event_at(event));
  }
  bool queryEvent(void* event) const override { return event == nullptr || event_at(event).query(); }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    count_wait("Event.synchronize", false);
    event_at(event).wait();
    check(event_at(event).stream->device);
  }
  void destroyEvent(void* event, DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  double elapsedTime(void* first, void* second, DeviceIndex) const override {
    TORCH_CHECK(first != nullptr && second != nullptr, "both events must be recorded before their times are read");
    const Event &begin = event_at(first), &end = event_at(second);
    TORCH_CHECK(begin.milliseconds && end.milliseconds, "both events must be made with enable_timing=True");
    TORCH_CHECK(begin.query() && end.query(), "both events must be over before their times are read: synchronize");
    return *end.milliseconds - *begin.milliseconds;
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (data.get() != nullptr) device_blocks(data.device().index()).record(data.get(), stream_of(stream));
  }

  static int checked(const Device& device) {
    const int number = index_of(device);
    TORCH_CHECK(0 <= number && number < device_count(), "there is no device sim:", number);
    return number;
  }
};

struct DeviceMemory final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    const int device = current_device();
    if (bytes == 0) return {nullptr, device_of_number(device)};
    void* address = nullptr;
    refuse_if_taken(device);
    try {
      refuse_if_full("allocator");
      address = device_blocks(device).allocate(bytes, current_stream(device));
    } catch (const OutOfMemory& error) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    }
    return {address, address, &release, device_of_number(device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    current_stream(device_of(to)).enqueue("copy_data", [to = working(to), from = working(from), bytes] {
      std::memcpy(to, from, bytes);
    });
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {
    for (int device = 0; device < device_count(); ++device) {
      if (!has_context(device)) continue;
      count_wait("empty_cache", false);
      device_blocks(device).empty();
    }
  }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    Guard().recordDataPtrOnStream(data, stream);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override {
    const MemoryStats now = device_blocks(device).stats();
    c10::CachingDeviceAllocator::DeviceStats stats;
    constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    stats.allocated_bytes[all].current = stats.active_bytes[all].current = now.allocated;
    stats.allocated_bytes[all].peak = stats.active_bytes[all].peak = now.allocated_peak;
    stats.reserved_bytes[all].current = now.reserved;
    stats.reserved_bytes[all].peak = now.reserved_peak;
    stats.allocation[all].allocated = now.allocations;
    stats.allocation[all].freed = now.frees;
    stats.allocation[all].current = now.allocations - now.frees;
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex) override {}
  void resetPeakStats(DeviceIndex device) override { device_blocks(device).reset_peaks(); }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override {
    refuse_if_taken(device);
    make_context(device);  // asking takes one, as CUDA's does
    auto& blocks = device_blocks(device);
    const auto limit = blocks.limit(), reserved = static_cast<size_t>(blocks.stats().reserved);
    return {limit > reserved ? limit - reserved : 0, device_bytes()};
  }

  static void release(void* address) { device_blocks(device_of(address)).free(address); }
};

struct PinnedMemory final : at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    refuse_if_full("pinned");
    void* address = bytes == 0 ? nullptr : host_blocks().allocate(bytes);
    return {address, address, address == nullptr ? &c10::detail::deleteNothing : &release, Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  bool record_event(void* address, void*, c10::Stream stream) override {
    return host_blocks().record(address, stream_of(stream));
  }
  void empty_cache() override { host_blocks().empty(); }
  at::HostStats get_stats() override {
    const MemoryStats now = host_blocks().stats();
    at::HostStats stats;
    stats.allocated_bytes.current = now.reserved;
    stats.allocated_bytes.peak = now.reserved_peak;
    return stats;
  }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  static void release(void* address) { host_blocks().free(address); }
};

DeviceMemory device_memory;
PinnedMemory pinned_memory;

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  void init() const override {}
  bool hasPrimaryContext(DeviceIndex device) const override { return has_context(device); }
  DeviceIndex deviceCount() const override { return static_cast<DeviceIndex>(device_count()); }
  DeviceIndex getCurrentDevice() const override { return static_cast<DeviceIndex>(current_device()); }
  void setCurrentDevice(DeviceIndex device) const override { set_device(device, true); }
  DeviceIndex exchangeDevice(DeviceIndex device) const override { return exchange(device, true); }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override { return exchange(device, false); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory; }
  bool isPinnedPtr(const void* address) const override { return is_pinned(address); }
  Device getDeviceFromPtr(void* address) const override {
    const int device = device_of(address);
    TORCH_CHECK(device >= 0, "an address of no simulated device");
    return device_of_number(device);
  }
  const at::Generator& getDefaultGenerator(DeviceIndex device) const override {
    thread_local at::Generator now;
    now = generator(device < 0 ? current_device() : device);
    return now;
  }
  at::Generator getNewGenerator(DeviceIndex) const override { return new_generator(); }

  static DeviceIndex exchange(DeviceIndex device, bool context) {
    const auto before = static_cast<DeviceIndex>(current_device());
    if (device >= 0) set_device(device, context);
    return before;
  }
};

[[maybe_unused]] const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  set_thread_initializer(&begin_stream_thread);
  return true;
}();

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);
REGISTER_ALLOCATOR(kPrivateUse1, &device_memory);

View::View(const at::Tensor& tensor)
    : address(tensor.numel() == 0 ? nullptr : tensor.const_data_ptr()), sizes(tensor.sizes().vec()),
      strides(tensor.strides().vec()), dtype(tensor.scalar_type()),
      wrapped_number(tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
  TORCH_CHECK(!tensor.is_conj() && !tensor.is_neg(), "the simulated device has no lazy conjugates");
}

at::Tensor View::on_host() const {
  at::Tensor tensor = address == nullptr ? at::empty(sizes, at::TensorOptions(dtype))
                                         : at::from_blob(working(address), sizes, strides, at::TensorOptions(dtype));
  if (wrapped_number) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

Stream& stream_of(const c10::Stream& stream) {
  return sim::stream(stream.device_index(), static_cast<int>(stream.id()));
}

c10::Stream stream_of(const Stream& stream) {
  return c10::Stream(c10::Stream::UNSAFE, device_of_number(stream.device), static_cast<c10::StreamId>(stream.id));
}

Stream& stream_for(const at::Tensor& tensor) { return current_stream(tensor.device().index()); }

at::Tensor tensor_at(void* address, int64_t bytes, int device, void (*release)(void*)) {
  const auto options = at::TensorOptions(at::kByte).device(device_of_number(device));
  return at::from_blob(address, {bytes}, release, options, device_of_number(device));
}

}  // namespace sim

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &sim::pinned_memory);
