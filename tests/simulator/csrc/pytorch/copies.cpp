// Copies: within a device, between devices, and between a device and the host; and single values that the host asks
// for.
//
// | from       | to         | |
// |---|---|---|
// | a device   | the same   | a task |
// | a device   | another    | a task on the source's stream; both devices' current streams wait for each other |
// | the host   | a device   | pinned and non_blocking: a task that reads the host's memory when it runs |
// |            |            | pageable and non_blocking: staged when it is called; counted, for CUDA may wait |
// |            |            | otherwise: the host waits |
// | a device   | the host   | pinned, contiguous and non_blocking: a task that writes the host's memory when it runs
// | |            |            | otherwise: the host waits |
//
// Rows that change dtype or strides on their way to a device are converted on the host when the copy is called, so
// they come from pageable memory, as with CUDA. A pinned block of the host is recorded for the stream, and is not
// given out again before the task is over, even if it is freed at once.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include "../faults.hpp"
#include "../glue.hpp"

namespace sim {
namespace {

using at::Tensor;

bool is_dense(const Tensor& tensor) { return tensor.is_non_overlapping_and_dense(); }

/// Waits for a stream because of an operator; throws what broke its device.
void wait(std::string_view name, Stream& stream) {
  count_wait(name, true);
  stream.drain();
  check(stream.device);
}

void within_device(const Tensor& from, const Tensor& to) {
  Stream &source = stream_for(from), &target = stream_for(to);
  if (&source != &target) source.wait_for(target.record());
  source.enqueue("copy_", [from = View(from), to = View(to)] { to.on_host().copy_(from.on_host()); });
  if (&source != &target) target.wait_for(source.record());
}

/// A copy between the host and a device, as a task makes it.
void over_link(const Tensor& from, const Tensor& to) {
  take_time_of_link(from.nbytes());
  to.copy_(from);
}

void to_device(const Tensor& from, const Tensor& to, bool non_blocking) {
  Stream& stream = stream_for(to);
  const bool as_it_lies = from.scalar_type() == to.scalar_type() && from.sizes() == to.sizes() && is_dense(from) &&
                          from.strides() == to.strides();
  if (as_it_lies && (!non_blocking || is_pinned(from.const_data_ptr()))) {
    stream.enqueue("copy_", [from = HostView(from), to = View(to)] { over_link(from.tensor(), to.on_host()); });
    host_blocks().record(from.const_data_ptr(), stream);
  } else {
    const Tensor staged = kept(from.to(to.scalar_type()));
    stream.enqueue("copy_", [staged, to = View(to)] { over_link(staged, to.on_host()); });
    if (non_blocking) count_wait("copy from pageable memory", false);
  }
  if (!non_blocking) wait("copy to a device", stream);
}

void to_host(const Tensor& from, const Tensor& to, bool non_blocking) {
  Stream& stream = stream_for(from);
  const bool later = non_blocking && to.is_contiguous() && is_pinned(to.const_data_ptr());
  if (!later) count_wait(non_blocking ? "copy to pageable memory" : "copy to the host", true);
  stream.enqueue("copy_", [from = View(from), to = HostView(to)] { over_link(from.on_host(), to.tensor()); });
  if (later) {
    host_blocks().record(to.const_data_ptr(), stream);
  } else {
    stream.drain();
    check(stream.device);
  }
}

Tensor copy_from(const Tensor& self, const Tensor& to, bool non_blocking) {
  count_call("aten::copy_");
  if (to.numel() == 0) return to;
  if (is_on_device(self) && is_on_device(to)) {
    within_device(self, to);
  } else if (is_on_device(to)) {
    to_device(self, to, non_blocking);
  } else {
    to_host(self, to, non_blocking);
  }
  return to;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& to) {
  to.resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Scalar value(const Tensor& self) {
  count_call("aten::_local_scalar_dense");
  TORCH_CHECK(self.numel() == 1, "a single value is asked for, not ", self.numel());
  wait("_local_scalar_dense", stream_for(self));
  return View(self).on_host().item();
}

}  // namespace

HostView::HostView(const Tensor& tensor)
    : address(tensor.data_ptr()), sizes(tensor.sizes().vec()), strides(tensor.strides().vec()),
      dtype(tensor.scalar_type()) {}

Tensor HostView::tensor() const { return at::from_blob(address, sizes, strides, at::TensorOptions(dtype)); }

Tensor kept(const Tensor& on_cpu) {
  Tensor copy = on_cpu.clone();
  if (on_cpu.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

}  // namespace sim

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", sim::copy_from);
  m.impl("_copy_from_and_resize", sim::copy_from_and_resize);
  m.impl("_local_scalar_dense", sim::value);
}
