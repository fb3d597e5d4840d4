// Numbers other than the CPU's (GSPLIT_SIM_NUMBERS=cuda): sums of floats in other orders.
//
// The CPU's kernels still compute. A task turns round what they are given, where only the order of a sum changes by
// it:
//
//   reversed   products along what is summed, reductions along the dimensions that go, bags one by one: another order
//              than the CPU's, and the same one at each call
//   shuffled   what CUDA adds by atomic operations: another order at each call, drawn from the seed of the schedule
//
// What sums and keeps its shape (softmax, normalisations, cumsum) is left in the CPU's order. So are indices that are
// broadcast.
#include <ATen/ops/flip.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <numeric>

#include "call.hpp"

namespace sim {
namespace {

using at::Tensor;

bool is_other(const std::string& name) {
  if (name != "cpu" && name != "cuda") throw std::invalid_argument("numbers '" + name + "' are none of cpu, cuda");
  return name == "cuda";
}

std::atomic<bool>& other() {
  static auto* const other = [] {
    const char* given = std::getenv("GSPLIT_SIM_NUMBERS");
    return new std::atomic<bool>(given != nullptr && is_other(given));
  }();
  return *other;
}

void replace(Stack& call, size_t i, const std::function<Tensor(const Tensor&)>& change) {
  if (call[i].isTensor() && call[i].toTensor().defined()) call[i] = change(call[i].toTensor());
}

/// Two factors from argument `first` on, along what is summed.
template <size_t first>
void product(const c10::FunctionSchema&, Stack& call) {
  replace(call, first, [](const Tensor& x) { return x.flip(-1); });
  replace(call, first + 1, [](const Tensor& x) { return x.flip(x.dim() > 1 ? -2 : -1); });
}

/// The first argument, along the dimensions that are summed: those that are named, or all.
void reduction(const c10::FunctionSchema& schema, Stack& call) {
  const Tensor x = call[0].toTensor();
  std::vector<int64_t> along;
  if (const auto at = schema.argumentIndexWithName("dim"); at && !call[static_cast<size_t>(*at)].isNone()) {
    const auto& dim = call[static_cast<size_t>(*at)];
    along = dim.isInt() ? std::vector<int64_t>{dim.toInt()} : dim.toIntVector();
  }
  if (along.empty()) {
    along.resize(static_cast<size_t>(x.dim()));
    std::iota(along.begin(), along.end(), 0);
  }
  if (x.dim() > 0) call[0] = x.flip(along);
}

/// Losses and their targets, where they are summed.
void loss(const c10::FunctionSchema& schema, Stack& call) {
  const auto reduced = static_cast<size_t>(*schema.argumentIndexWithName("reduction"));
  if (call[reduced].toInt() == 0 || call[0].toTensor().dim() == 0) return;
  for (size_t i : {0, 1}) replace(call, i, [](const Tensor& x) { return x.flip(0); });
}

/// weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, ...
void bags(const c10::FunctionSchema&, Stack& call) {
  constexpr int64_t MAX = 2;
  const Tensor indices = call[1].toTensor(), offsets = call[2].toTensor().to(at::kLong);
  if (indices.dim() != 1 || call[4].toInt() == MAX) return;
  Tensor order = at::arange(indices.numel());
  auto* const places = order.data_ptr<int64_t>();
  const auto* const begin = offsets.data_ptr<int64_t>();
  const int64_t count = offsets.numel();
  for (int64_t bag = 0; bag < count; ++bag)
    std::reverse(places + begin[bag], places + (bag + 1 < count ? begin[bag + 1] : indices.numel()));
  for (size_t i : {1, 6}) replace(call, i, [&](const Tensor& x) { return x.index_select(0, order); });
}

Tensor shuffled(int64_t count) {
  Tensor order = at::arange(count);
  std::shuffle(order.data_ptr<int64_t>(), order.data_ptr<int64_t>() + count, draws_of_schedule());
  return order;
}

/// self, dim, index, source, ...: along the dimension.
void along_dim(const c10::FunctionSchema&, Stack& call) {
  const int64_t dim = call[1].toInt();
  const Tensor index = call[2].toTensor();
  if (index.dim() == 0 || !call[3].isTensor() || call[3].toTensor().dim() == 0) return;
  const Tensor order = shuffled(index.size(index.dim() == 1 ? 0 : dim));
  call[2] = index.index_select(index.dim() == 1 ? 0 : dim, order);
  call[3] = call[3].toTensor().index_select(dim, order);
}

/// self, indices, values, accumulate, ...: by one list of rows.
void put(const c10::FunctionSchema&, Stack& call) {
  const auto indices = call[1].toOptionalTensorVector();
  const Tensor values = call[2].toTensor();
  const bool rows =
      indices.size() == 1 && indices[0] && indices[0]->dim() == 1 && indices[0]->scalar_type() != at::kBool;
  if (!call[3].toBool() || !rows || values.dim() == 0 || values.size(0) != indices[0]->size(0)) return;
  const Tensor order = shuffled(values.size(0));
  call[1] = c10::List<std::optional<Tensor>>({indices[0]->index_select(0, order)});
  call[2] = values.index_select(0, order);
}

/// index, weights, ...: weights are added by atomic operations, counts are whole numbers.
void counts(const c10::FunctionSchema&, Stack& call) {
  if (!call[1].isTensor() || !call[1].toTensor().defined()) return;
  const Tensor order = shuffled(call[0].toTensor().size(0));
  for (size_t i : {0, 1}) replace(call, i, [&](const Tensor& x) { return x.index_select(0, order); });
}

/// By operator, of all overloads.
const std::map<std::string, void (*)(const c10::FunctionSchema&, Stack&)> REORDERED = {
    {"aten::_embedding_bag", bags},
    {"aten::_embedding_bag_forward_only", bags},
    {"aten::_index_put_impl_", put},
    {"aten::addmm", product<1>},
    {"aten::addmm_", product<1>},
    {"aten::addmv", product<1>},
    {"aten::addmv_", product<1>},
    {"aten::baddbmm", product<1>},
    {"aten::baddbmm_", product<1>},
    {"aten::bincount", counts},
    {"aten::bmm", product<0>},
    {"aten::dot", product<0>},
    {"aten::index_add", along_dim},
    {"aten::index_add_", along_dim},
    {"aten::index_put", put},
    {"aten::index_put_", put},
    {"aten::index_reduce", along_dim},
    {"aten::index_reduce_", along_dim},
    {"aten::linalg_vector_norm", reduction},
    {"aten::mean", reduction},
    {"aten::mm", product<0>},
    {"aten::mse_loss", loss},
    {"aten::mv", product<0>},
    {"aten::nansum", reduction},
    {"aten::nll_loss_forward", loss},
    {"aten::norm", reduction},
    {"aten::scatter_add", along_dim},
    {"aten::scatter_add_", along_dim},
    {"aten::scatter_reduce", along_dim},
    {"aten::scatter_reduce_", along_dim},
    {"aten::std", reduction},
    {"aten::sum", reduction},
    {"aten::var", reduction},
};

}  // namespace

void set_numbers(const std::string& name) { other() = is_other(name); }

std::string numbers() { return other_numbers() ? "cuda" : "cpu"; }

bool other_numbers() { return other(); }

void reorder(const c10::FunctionSchema& schema, Stack& arguments) {
  if (const auto found = REORDERED.find(schema.name()); found != REORDERED.end()) found->second(schema, arguments);
}

}  // namespace sim
