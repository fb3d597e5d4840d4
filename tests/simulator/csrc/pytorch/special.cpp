// Operators that need more than the fallback: dropout, rows read where they lie, and products by sparse patterns.
//
// Dropout. PyTorch calls native_dropout for devices like this one, which has no generator among its arguments, and
// other operators for the CPU. The task here does what those do, so that numbers are the CPU's.
//
// Sparse CSR tensors have a dispatch key of their own; there is what GSplit's attention asks for: the parts of one,
// and sampled products.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_sparse_csr_tensor_unsafe.h>
#include <ATen/ops/col_indices_native.h>
#include <ATen/ops/crow_indices_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/sparse_sampled_addmm.h>
#include <ATen/ops/values_native.h>
#include <torch/library.h>

#include "call.hpp"

namespace sim {
namespace {

using at::Tensor;

/// Dropout as the CPU does it: what is kept is divided by the share that is.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  count_call("aten::native_dropout");
  TORCH_CHECK(train.value_or(true) && 0 < p && p < 1, "dropout that drops nothing, or everything");
  const int device = input.device().index();
  const Tensor output = at::empty_like(input), mask = at::empty_like(input, input.options().dtype(at::kBool));
  stream_for(input).enqueue("native_dropout", [p, draws = generator(device), input = View(input),
                                               output = View(output), mask = View(mask)] {
    const Tensor noise = at::empty_like(input.on_host()).bernoulli_(1 - p, draws).div_(1 - p);
    output.on_host().copy_(input.on_host().mul(noise));
    mask.on_host().copy_(noise.ne(0));
  });
  return {output, mask};
}

Tensor native_dropout_backward(const Tensor& gradient, const Tensor& mask, double scale) {
  count_call("aten::native_dropout_backward");
  const Tensor output = at::empty_like(gradient);
  stream_for(gradient).enqueue("native_dropout_backward",
                               [scale, gradient = View(gradient), mask = View(mask), output = View(output)] {
                                 const Tensor noise = mask.on_host().to(gradient.dtype).div_(1 / scale);
                                 output.on_host().copy_(gradient.on_host().mul(noise));
                               });
  return output;
}

/// What a task keeps of a CSR tensor.
struct Pattern {
  View crow, col, values;
  std::vector<int64_t> sizes;

  explicit Pattern(const Tensor& csr)
      : crow(csr.crow_indices()), col(csr.col_indices()), values(csr.values()), sizes(csr.sizes().vec()) {}
  Tensor on_host() const {
    const Tensor rows = crow.on_host(), columns = col.on_host();
    check_csr(rows, columns, sizes[1]);
    return at::_sparse_csr_tensor_unsafe(rows, columns, values.on_host(), sizes,
                                         at::TensorOptions(values.dtype).layout(at::kSparseCsr));
  }
};

Tensor sampled_addmm(const Tensor& self, const Tensor& left, const Tensor& right, const at::Scalar& beta,
                     const at::Scalar& alpha) {
  count_call("aten::sparse_sampled_addmm");
  const Tensor values = at::empty_like(self.values());
  stream_for(values).enqueue("sparse_sampled_addmm", [beta, alpha, self = Pattern(self), left = View(left),
                                                      right = View(right), out = View(values)] {
    const at::AutoDispatchBelowAutograd guard;
    Tensor a = left.on_host(), b = right.on_host();
    if (other_numbers()) a = a.flip(1), b = b.flip(0);
    const Tensor product = at::sparse_sampled_addmm(self.on_host(), a, b, beta, alpha);
    out.on_host().copy_(product.values());
  });
  return at::_sparse_csr_tensor_unsafe(self.crow_indices(), self.col_indices(), values, self.sizes(),
                                       values.options().layout(at::kSparseCsr));
}

}  // namespace

void read_rows(const Tensor& host_rows, const Tensor& ids, const std::optional<Tensor>& positions,
               const Tensor& out) {
  count_call("sim::read_rows");
  TORCH_CHECK(host_rows.is_contiguous() && is_on_device(ids) && is_on_device(out),
              "rows are read at ids and to rows of a device");
  const bool device_memory = is_on_device(host_rows);
  TORCH_CHECK(device_memory || is_registered(host_rows.const_data_ptr(), host_rows.nbytes()),
              "the rows are not registered");
  if (ids.numel() == 0 || host_rows.size(1) == 0) return;
  std::optional<View> places;
  if (positions) places.emplace(*positions);
  const auto read_rows = [ids = View(ids), places, out = View(out)](const Tensor& rows) {
    const Tensor read = rows.index_select(0, ids.on_host()).to(out.dtype);
    if (places) {
      out.on_host().index_copy_(0, places->on_host(), read);
    } else {
      out.on_host().slice(0, 0, read.size(0)).copy_(read);
    }
  };
  if (device_memory) {
    stream_for(out).enqueue("read_rows", [read_rows, rows = View(host_rows)] { read_rows(rows.on_host()); });
  } else {
    stream_for(out).enqueue("read_rows", [read_rows, rows = HostView(host_rows)] { read_rows(rows.tensor()); });
  }
}

}  // namespace sim

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_dropout", sim::native_dropout);
  m.impl("native_dropout_backward", sim::native_dropout_backward);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("empty.memory_format", at::native::empty_sparse_compressed);
  m.impl("crow_indices", at::native::crow_indices_sparse_csr);
  m.impl("col_indices", at::native::col_indices_sparse_csr);
  m.impl("values", at::native::values_sparse_csr);
  m.impl("sparse_sampled_addmm", sim::sampled_addmm);
}
