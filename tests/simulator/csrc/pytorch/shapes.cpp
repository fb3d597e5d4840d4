// Shapes before values: what a call will return, while the values are not there yet.
//
// PyTorch's Meta kernels say it for most operators: the same call with tensors of no memory. Where they announce what
// CUDA's kernel returns and the CPU's does not, the difference stands here, by operator; a task complains when the
// CPU's kernel returns another shape than was announced, so a new difference cannot go unseen.
//
// The CPU's kernels of embedding bags and a few others follow their indices without a look. On poison, or on what was
// overwritten too early, they would read or write anywhere, so indices are checked by the task, before the kernel.
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/result_type.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "call.hpp"

namespace sim {
namespace {

using at::Tensor;
using c10::IValue;

const std::set<std::string> DEPEND_ON_VALUES = {"aten::nonzero", "aten::masked_select"};
constexpr int64_t SUM = 0, MAX = 2;  // modes of embedding_bag

/// A tensor of no memory; single values of the host stay, for they say how types promote.
Tensor meta_of(const Tensor& tensor) {
  if (tensor.is_cpu() && tensor.dim() == 0) return tensor;
  return at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
}

Tensor meta(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::detail::empty_meta(sizes, dtype, std::nullopt, c10::Device(c10::kMeta), std::nullopt, std::nullopt);
}

/// weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx.
void embedding_bag(Shapes& call, bool with_gradient) {
  const Stack& given = call.arguments;
  const Tensor &weight = given[0].toTensor(), &indices = given[1].toTensor(), &offsets = given[2].toTensor();
  const int64_t mode = given[4].toInt(), width = weight.size(1);
  const bool scaled = given[6].isTensor() && given[6].toTensor().defined();
  const int64_t bags = offsets.size(0) - (given[7].toBool() ? 1 : 0);
  const auto of_values = weight.scalar_type();
  const auto of_indices = c10::promoteTypes(indices.scalar_type(), offsets.scalar_type());
  // The CPU sums without a list of bags where a library does it.
  const bool fast_type = of_values == at::kFloat || of_values == at::kHalf || of_values == at::kBFloat16;
  const bool straight = weight.stride(1) == 1 && (!scaled || given[6].toTensor().stride(0) == 1);
  const bool fast = mode == SUM && fast_type && straight && given[8].toInt() < 0;
  // Without a gradient sums have a size for each offset, the last one, which begins no bag, included.
  const int64_t sizes = with_gradient || mode != SUM ? bags : offsets.size(0);
  call.results = {meta({bags, width}, of_values), meta({fast ? 0 : indices.size(0)}, of_indices),
                  meta({sizes}, of_indices),
                  mode == MAX ? meta({bags, width}, of_indices) : meta({sizes}, of_indices)};
}

/// gradient, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, ...
void embedding_bag_backward(Shapes& call) {
  const Tensor& gradient = call.arguments[0].toTensor();
  call.results = {meta({call.arguments[6].toInt(), gradient.size(1)}, gradient.scalar_type())};
}

/// gradient, weight, indices, ...
void weights_backward(Shapes& call) {
  call.results = {meta(call.arguments[2].toTensor().sizes(), call.arguments[0].toTensor().scalar_type())};
}

/// start, end, step, out.
void arange(Shapes& call) {
  const double start = call.arguments[0].toScalar().toDouble(), end = call.arguments[1].toScalar().toDouble(),
               step = call.arguments[2].toScalar().toDouble();
  TORCH_CHECK(step != 0 && (end - start) / step >= 0, "arange from ", start, " to ", end, " by ", step);
  const auto count = static_cast<int64_t>(std::ceil((end - start) / step));
  call.arguments[3] = meta({count}, call.arguments[3].toTensor().scalar_type());
  call.results = {call.arguments[3]};
}

/// condition, self, other.
void where(Shapes& call) {
  const Tensor &condition = call.arguments[0].toTensor(), &self = call.arguments[1].toTensor(),
               &other = call.arguments[2].toTensor();
  const auto sizes = at::infer_size(condition.sizes(), at::infer_size(self.sizes(), other.sizes()));
  call.results = {meta(sizes, at::result_type(self, other))};
}

/// Of the same shape and, where its memory has no gaps, strides.
Tensor like(const Tensor& tensor) {
  const bool dense = tensor.is_non_overlapping_and_dense();
  return dense ? meta_of(tensor) : meta(tensor.sizes(), tensor.scalar_type());
}

void like_first(Shapes& call) { call.results = {like(call.arguments[0].toTensor())}; }

/// Of what a normalisation keeps: that of its weights, which may be wider than that of its rows.
at::ScalarType dtype_of(const IValue& weight, const Tensor& input) {
  return weight.isTensor() && weight.toTensor().defined() ? weight.toTensor().scalar_type() : input.scalar_type();
}

/// input, normalized_shape, weight, bias, eps; returns the result, means and reciprocal deviations of the rows.
void layer_norm(Shapes& call) {
  const Tensor& input = call.arguments[0].toTensor();
  auto sizes = input.sizes().vec();
  std::fill(sizes.end() - static_cast<int64_t>(call.arguments[1].toIntVector().size()), sizes.end(), 1);
  const auto dtype = dtype_of(call.arguments[2], input);
  call.results = {meta(input.sizes(), input.scalar_type()), meta(sizes, dtype), meta(sizes, dtype)};
}

/// input, weight, bias, running_mean, running_var, training, momentum, eps; in evaluation the CPU keeps nothing.
void batch_norm(Shapes& call) {
  const Tensor& input = call.arguments[0].toTensor();
  const int64_t kept = call.arguments[5].toBool() ? input.size(1) : 0;
  const auto dtype = dtype_of(call.arguments[1], input);
  call.results = {like(input), meta({kept}, dtype), meta({kept}, dtype)};
}

/// The gradients that a mask asks for, of rows, weights and biases of a normalisation; the others are undefined.
void gradients(Shapes& call, const Tensor& input, const Tensor& weights, const IValue& mask) {
  const auto asked = mask.toBoolList();
  const auto one = [&](size_t i, const Tensor& of) { return asked[i] ? like(of) : Tensor(); };
  call.results = {one(0, input), one(1, weights), one(2, weights)};
}

/// gradient, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask.
void batch_norm_backward(Shapes& call) {
  const Tensor& input = call.arguments[1].toTensor();
  const Tensor weights = meta({input.size(1)}, dtype_of(call.arguments[2], input));
  gradients(call, input, weights, call.arguments[9]);
}

/// gradient, input, normalized_shape, mean, rstd, weight, bias, output_mask.
void layer_norm_backward(Shapes& call) {
  const Tensor& input = call.arguments[1].toTensor();
  const Tensor weights = meta(call.arguments[2].toIntVector(), dtype_of(call.arguments[5], input));
  gradients(call, input, weights, call.arguments[7]);
}

/// Shapes by operator, of those where the Meta kernel announces something else than the CPU returns, or imports
/// PyTorch's compiler, which takes every process seconds.
const std::map<std::string, void (*)(Shapes&)> OURS = {
    {"aten::_embedding_bag", [](Shapes& call) { embedding_bag(call, true); }},
    {"aten::_embedding_bag_backward", embedding_bag_backward},
    {"aten::_embedding_bag_per_sample_weights_backward", weights_backward},
    {"aten::_embedding_bag_forward_only", [](Shapes& call) { embedding_bag(call, false); }},
    {"aten::arange", arange},
    {"aten::log_sigmoid_forward", [](Shapes& call) { like_first(call), call.results.push_back(call.results[0]); }},
    {"aten::native_batch_norm", batch_norm},
    {"aten::native_batch_norm_backward", batch_norm_backward},
    {"aten::native_layer_norm", layer_norm},
    {"aten::native_layer_norm_backward", layer_norm_backward},
    {"aten::relu", like_first},
    {"aten::where", where},
};

/// Whether all results are arguments that have their shape already.
///
/// An operator in place does not change its argument's. For most operators PyTorch itself makes the result, of the
/// right shape, and then calls the variant with out=; only a user's own out= is of another shape, and then usually
/// empty(0).
bool are_there(const c10::FunctionSchema& schema, const Stack& arguments) {
  if (DEPEND_ON_VALUES.count(schema.name()) > 0) return false;
  bool empty_out = false, empty_input = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool out = schema.arguments()[i].is_out();
    for_each_tensor(arguments[i], [&](const Tensor& tensor) {
      empty_out |= out && tensor.dim() == 1 && tensor.size(0) == 0;
      empty_input |= !out && tensor.numel() == 0;
    });
  }
  const auto returned = arguments_returned(schema);
  return (!empty_out || empty_input) && std::all_of(returned.begin(), returned.end(), [](int i) { return i >= 0; });
}

void check_range(const std::string& name, const Tensor& indices, int64_t size) {
  if (indices.numel() == 0) return;
  const auto lowest = indices.min().item<int64_t>(), highest = indices.max().item<int64_t>();
  TORCH_CHECK_INDEX(lowest >= 0 && highest < size, name, ": index ", lowest < 0 ? lowest : highest,
                    " is outside 0 .. ", size - 1);
}

/// Offsets begin at 0, do not fall, and end within the indices.
void check_offsets(const std::string& name, const Tensor& offsets, int64_t size) {
  if (offsets.numel() == 0) return;
  check_range(name, offsets, size + 1);
  const bool rising = offsets.diff().ge(0).all().item<bool>();
  TORCH_CHECK_INDEX(rising && offsets[0].item<int64_t>() == 0, name, ": offsets fall, or do not begin at 0");
}

}  // namespace

std::optional<Shapes> shapes_of(const c10::OperatorHandle& op, const Stack& arguments) {
  const std::string& name = op.schema().name();
  Shapes shapes;
  if (are_there(op.schema(), arguments)) return shapes;
  for (const IValue& argument : arguments) {
    shapes.arguments.push_back(argument.isDevice() ? IValue(c10::Device(c10::kMeta))
                                                   : with_tensors(argument, meta_of));
  }
  if (const auto ours = OURS.find(name); ours != OURS.end()) {
    ours->second(shapes);
    return shapes;
  }
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return std::nullopt;
  try {
    shapes.results = shapes.arguments;
    const at::AutoDispatchBelowAutograd guard;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &shapes.results);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return shapes;
}

void check_indices(const std::string& name, const Stack& arguments) {
  const auto tensor = [&](size_t i) { return arguments[i].toTensor(); };
  if (name == "aten::_embedding_bag" || name == "aten::_embedding_bag_forward_only") {
    check_range(name, tensor(1), tensor(0).size(0));
    check_offsets(name, tensor(2), tensor(1).size(0));
  } else if (name == "aten::_embedding_bag_dense_backward") {
    check_range(name, tensor(1), arguments[5].toInt());
  } else if (name == "aten::_embedding_bag_backward") {
    check_range(name, tensor(1), arguments[6].toInt());
    check_offsets(name, tensor(2), tensor(1).size(0));
  } else if (name == "aten::_embedding_bag_per_sample_weights_backward") {
    check_range(name, tensor(2), tensor(1).size(0));
    check_offsets(name, tensor(3), tensor(2).size(0));
    check_range(name, tensor(4), tensor(0).size(0));
  } else if (name == "aten::embedding_dense_backward") {
    check_range(name, tensor(1), arguments[2].toInt());
  }
}

void check_csr(const Tensor& rows, const Tensor& columns, int64_t width) {
  check_offsets("sparse CSR", rows, columns.size(0));
  check_range("sparse CSR", columns, width);
}

}  // namespace sim
