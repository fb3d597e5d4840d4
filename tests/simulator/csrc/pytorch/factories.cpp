// Operators that make tensors of a device, and views of them: they move no data, so they run when they are called.
//
// Memory belongs to the current stream of the device that it is asked for on. What PyTorch has for the CPU without
// touching data (as_strided, view, unfold, reshape) is taken from there. A storage that grows copies its bytes by a
// task, and the old memory goes back to its stream behind that task.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstring>

#include "../glue.hpp"

namespace sim {
namespace {

using at::IntArrayRef;
using at::Tensor;
using std::optional;

constexpr c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

c10::Device place_of(const optional<c10::Device>& device, const optional<bool>& pinned) {
  TORCH_CHECK(!pinned.value_or(false), "only memory of the CPU can be pinned");
  c10::Device place = device.value_or(c10::Device(c10::kPrivateUse1));
  if (!place.has_index()) place.set_index(static_cast<c10::DeviceIndex>(current_device()));
  return place;
}

Tensor empty(IntArrayRef sizes, optional<at::ScalarType> dtype, optional<at::Layout>, optional<c10::Device> device,
             optional<bool> pinned, optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(place_of(device, pinned));
  make_context(current_device());
  return at::detail::empty_generic(sizes, c10::GetAllocator(c10::kPrivateUse1), KEYS, c10::dtype_or_default(dtype),
                                   format);
}

Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, optional<at::ScalarType> dtype, optional<at::Layout>,
                     optional<c10::Device> device, optional<bool> pinned) {
  const c10::DeviceGuard guard(place_of(device, pinned));
  make_context(current_device());
  return at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(c10::kPrivateUse1), KEYS,
                                           c10::dtype_or_default(dtype));
}

/// Makes a storage so long; what was in it is copied.
void grow(c10::StorageImpl* storage, size_t bytes) {
  if (bytes <= storage->nbytes()) return;
  TORCH_CHECK(storage->resizable(), "the storage cannot be resized");
  const c10::DeviceGuard guard(storage->device());
  c10::DataPtr memory = c10::GetAllocator(c10::kPrivateUse1)->allocate(bytes);
  if (storage->nbytes() > 0) {
    current_stream(storage->device().index())
        .enqueue("resize_", [to = working(memory.get()), from = working(storage->data()), bytes = storage->nbytes()] {
          std::memcpy(to, from, bytes);
        });
  }
  storage->set_data_ptr_noswap(std::move(memory));
  storage->set_nbytes(bytes);
}

void set_shape(const Tensor& tensor, IntArrayRef sizes, optional<IntArrayRef> strides) {
  auto* impl = tensor.unsafeGetTensorImpl();
  if (strides) {
    impl->set_sizes_and_strides(sizes, *strides);
  } else {
    impl->set_sizes_contiguous(sizes);
  }
  if (tensor.numel() == 0) return;
  const size_t bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize(),
                                                        static_cast<size_t>(tensor.storage_offset()));
  grow(tensor.storage().unsafeGetStorageImpl(), bytes);
}

const Tensor& resize_(const Tensor& self, IntArrayRef sizes, optional<at::MemoryFormat> format) {
  if (self.sizes() != sizes) set_shape(self, sizes, std::nullopt);
  if (format) self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return self;
}

Tensor& set_storage(Tensor& self, at::Storage source, int64_t offset, IntArrayRef sizes, IntArrayRef strides) {
  TORCH_CHECK(source.device() == self.device(), "the storage is on ", source.device(), ", not on ", self.device());
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  set_shape(self, sizes, strides.data() == nullptr ? std::nullopt : optional(strides));
  return self;
}

Tensor& set_whole_storage(Tensor& self, at::Storage source) {
  const auto count = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage(self, std::move(source), 0, {count}, {});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

Tensor& set_nothing(Tensor& self) {
  at::Storage nothing(c10::Storage::use_byte_size_t(), 0, c10::GetAllocator(c10::kPrivateUse1), true);
  nothing.set_data_ptr_noswap(c10::DataPtr(nullptr, self.device()));
  return set_storage(self, std::move(nothing), 0, {0}, {});
}

void record_stream(Tensor& self, c10::Stream stream) {
  void* const address = self.storage().mutable_data();
  if (address != nullptr) device_blocks(self.device().index()).record(address, stream_of(stream));
}

}  // namespace

at::Tensor empty_on(int device, IntArrayRef sizes, at::ScalarType dtype, optional<IntArrayRef> strides) {
  const c10::Device place(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(device));
  if (!strides) return empty(sizes, dtype, std::nullopt, place, std::nullopt, std::nullopt);
  return empty_strided(sizes, *strides, dtype, std::nullopt, place, std::nullopt);
}

}  // namespace sim

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", sim::empty);
  m.impl("empty_strided", sim::empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("resize_", sim::resize_);
  m.impl("set_.source_Storage_storage_offset", sim::set_storage);
  m.impl("set_.source_Storage", sim::set_whole_storage);
  m.impl("set_.source_Tensor", sim::set_tensor);
  m.impl("set_", sim::set_nothing);
  m.impl("record_stream", sim::record_stream);
}
