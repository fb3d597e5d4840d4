#include "aggregate.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "aggregate_shared.hpp"
#include "long_sums.hpp"

namespace gsplit {
namespace {

template <class T>
void check_sources(const Sources<T>& sources) {
  require(sources.received.rows == 0 || sources.received.width == sources.own.width, "rows differ in width");
}

template <class T>
RowTask<T> task_of(const RowEdges& edges, const Sources<T>& sources) {
  RowTask<T> task{};
  task.indptr = edges.indptr.data();
  task.indices = edges.indices.data();
  task.order = edges.order.empty() ? nullptr : edges.order.data();
  task.own = sources.own.data;
  task.received = sources.received.data;
  task.num_own = sources.own.rows;
  task.num_edges = static_cast<int64_t>(edges.indices.size());
  task.source_bytes = sources.rows() * sources.own.width * static_cast<int64_t>(sizeof(T));
  task.own_stride = sources.own.stride;
  task.received_stride = sources.received.stride;
  task.width = sources.own.width;
  task.heads = 1;
  return task;
}

/// Kernels by name, the widest first.
std::vector<std::pair<const char*, const RowKernels*>> available() {
  std::vector<std::pair<const char*, const RowKernels*>> found;
#ifdef GSPLIT_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw"))
    found.emplace_back("avx512", &isa_avx512::kernels);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.emplace_back("avx2", &isa_avx2::kernels);
#endif
  found.emplace_back("basic", &isa_basic::kernels);
  return found;
}

const RowKernels*& choice() {
  static const RowKernels* kernels = available().front().second;
  return kernels;
}

void run_sum(const RowTask<float>& task, int64_t begin, int64_t end) { sum_float_rows(task, begin, end); }
void run_sum(const RowTask<double>& task, int64_t begin, int64_t end) { chosen().sum_f64(task, begin, end); }
void run_sum(const RowTask<BFloat16>& task, int64_t begin, int64_t end) { sum_bfloat16_rows(task, begin, end); }
void run_dot(const RowTask<float>& task, int64_t begin, int64_t end) { chosen().dot_f32(task, begin, end); }
void run_dot(const RowTask<double>& task, int64_t begin, int64_t end) { chosen().dot_f64(task, begin, end); }
void run_dot(const RowTask<BFloat16>& task, int64_t begin, int64_t end) { chosen().dot_bf16(task, begin, end); }

}  // namespace

const RowKernels& chosen() { return *choice(); }

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const auto& [name, kernels] : available()) names.emplace_back(name);
  return names;
}

void use_instruction_set(const std::string& name) {
  for (const auto& [known, kernels] : available()) {
    if (name == known) {
      choice() = kernels;
      return;
    }
  }
  throw std::invalid_argument("this machine does not run " + name);
}

template <class T, class Start, class Out>
void sum_rows(const RowEdges& edges, const Sources<T>& sources, const Scaling<T>& scaling, Matrix<const Start> start,
              Matrix<Out> out, int threads) {
  check_edges(edges, sources.rows(), scaling.weight.data == nullptr ? -1 : scaling.weight.rows);
  check_sources(sources);
  const auto rows = static_cast<int64_t>(edges.indptr.size()) - 1;
  require(out.rows == rows && out.width == sources.own.width, "out does not have the shape of the sums");
  require(start.data == nullptr || (start.rows <= rows && start.width == out.width), "start is not shaped as out");
  require(scaling.factor.empty() || static_cast<int64_t>(scaling.factor.size()) == sources.rows(),
          "there must be a factor for each source");
  if (out.width == 0) return;
  auto task = task_of(edges, sources);
  task.factor = scaling.factor.empty() ? nullptr : scaling.factor.data();
  if (scaling.weight.data != nullptr) {
    require(scaling.weight.width > 0 && out.width % scaling.weight.width == 0, "the heads do not divide the width");
    require(edges.indices.empty() || !edges.order.empty() ||
                scaling.weight.rows == static_cast<int64_t>(edges.indices.size()),
            "there must be a weight for each edge");
    task.weight = scaling.weight.data;
    task.weight_stride = scaling.weight.stride;
    task.heads = scaling.weight.width;
  }
  require(scaling.degrees.empty() || static_cast<int64_t>(scaling.degrees.size()) == rows,
          "there must be a degree for each row");
  task.degrees = scaling.degrees.empty() ? nullptr : scaling.degrees.data();
  require(scaling.scale.empty() || static_cast<int64_t>(scaling.scale.size()) == rows,
          "there must be a scale for each row");
  task.scale = scaling.scale.empty() ? nullptr : scaling.scale.data();
  if constexpr (sizeof(Start) == sizeof(T)) task.start = start.data;
  else task.wide_start = start.data;
  task.start_rows = start.data == nullptr ? 0 : start.rows;
  task.start_stride = start.stride;
  require(scaling.start_scale.empty() || static_cast<int64_t>(scaling.start_scale.size()) == task.start_rows,
          "there must be a scale for each row of the start");
  task.start_scale = scaling.start_scale.empty() ? nullptr : scaling.start_scale.data();
  if constexpr (sizeof(Out) == sizeof(T)) task.out = out.data;
  else task.wide_out = out.data;
  task.out_stride = out.stride;
  side_by_side(equal_ranges(edges, out.width, threads),
               [&](size_t, int64_t begin, int64_t end) { run_sum(task, begin, end); });
}

template <class T>
void dot_rows(const RowEdges& edges, const Sources<T>& sources, Matrix<const T> left, Matrix<Computed<T>> out,
              int threads) {
  check_edges(edges, sources.rows(), -1);
  check_sources(sources);
  require(left.rows + 1 == static_cast<int64_t>(edges.indptr.size()) && left.width == sources.own.width,
          "left does not have a row for each row");
  require(out.rows == static_cast<int64_t>(edges.indices.size()), "there must be a row of out for each edge");
  require(out.width > 0 && left.width % out.width == 0, "the heads do not divide the width");
  auto task = task_of(edges, sources);
  task.heads = out.width;
  task.start = left.data;
  task.start_stride = left.stride;
  task.wide_out = out.data;
  task.out_stride = out.stride;
  side_by_side(equal_ranges(edges, left.width, threads),
               [&](size_t, int64_t begin, int64_t end) { run_dot(task, begin, end); });
}

template <class T>
void add_rows(Matrix<T> out, std::span<const int32_t> rows, Matrix<const T> values) {
  require(static_cast<int64_t>(rows.size()) == values.rows && out.width == values.width,
          "there must be a row for each");
  require(rows_inside(rows, out.rows), "a row is outside out");
  constexpr int64_t AHEAD = 8;
  for (int64_t i = 0; i < values.rows; ++i) {
    if (i + AHEAD < values.rows) {
      const auto* ahead = reinterpret_cast<const char*>(out.row(rows[i + AHEAD]));
      for (int64_t b = 0; b < std::min<int64_t>(out.width * sizeof(T), 512); b += 64)
        __builtin_prefetch(ahead + b, 1);
    }
    T* to = out.row(rows[i]);
    const T* from = values.row(i);
    if constexpr (NARROW<T>) chosen().add_row_bf16(to, from, out.width);
    else
      for (int64_t c = 0; c < out.width; ++c) to[c] += from[c];
  }
}

void transpose_edges(const RowEdges& edges, std::span<int32_t> out_indptr, std::span<int32_t> out_rows,
                     std::span<int32_t> out_order, int threads) {
  require(!out_indptr.empty(), "out_indptr must have a number more than there are sources");
  check_edges(edges, static_cast<int64_t>(out_indptr.size()) - 1, -1);
  require(out_rows.size() == edges.indices.size(), "there must be a row for each edge");
  require(out_order.empty() || out_order.size() == edges.indices.size(), "there must be an order for each edge");
  const size_t sources = out_indptr.size() - 1;
  const std::vector<int64_t> bounds = equal_ranges(edges, 1, threads);
  const size_t workers = bounds.size() - 1;
  // How many edges each worker has of each source; then where the next of them goes, behind those of workers before.
  std::vector<std::vector<int32_t>> next(workers);
  side_by_side(bounds, [&](size_t worker, int64_t begin, int64_t end) {
    next[worker].assign(sources, 0);
    for (int64_t e = edges.indptr[begin]; e < edges.indptr[end]; ++e) ++next[worker][edges.indices[e]];
  });
  int32_t total = 0;
  for (size_t source = 0; source < sources; ++source) {
    out_indptr[source] = total;
    for (auto& of_worker : next) total += std::exchange(of_worker[source], total);
  }
  out_indptr[sources] = total;
  side_by_side(bounds, [&](size_t worker, int64_t begin, int64_t end) {
    int32_t* to = next[worker].data();
    for (int64_t row = begin; row < end; ++row) {
      for (int32_t e = edges.indptr[row]; e < edges.indptr[row + 1]; ++e) {
        const int32_t at = to[edges.indices[e]]++;
        out_rows[at] = static_cast<int32_t>(row);
        if (!out_order.empty()) out_order[at] = e;
      }
    }
  });
}

int64_t split_edges(const RowEdges& edges, int64_t num_own, const SplitEdges& own, const SplitEdges& received) {
  check_edges(edges, INT32_MAX, -1);
  const size_t rows = edges.indptr.size() - 1, all = edges.indices.size();
  for (const auto& part : {own, received}) {
    require(part.indptr.size() == rows + 1 && part.indices.size() == all, "a part has room for all rows and edges");
    require(part.order.empty() || part.order.size() == all, "there must be an order for each edge");
  }
  require(own.order.empty() == received.order.empty(), "both parts have an order, or none has");
  // Each edge is written to both, and the end of one of them moves: which one is not to be predicted.
  int32_t from_own = 0, from_others = 0;
  const auto first_other = static_cast<int32_t>(num_own);
  for (size_t row = 0; row < rows; ++row) {
    own.indptr[row] = from_own;
    received.indptr[row] = from_others;
    for (int32_t e = edges.indptr[row]; e < edges.indptr[row + 1]; ++e) {
      const int32_t source = edges.indices[e];
      own.indices[from_own] = source;
      received.indices[from_others] = source - first_other;
      if (!own.order.empty()) own.order[from_own] = received.order[from_others] = e;
      const bool is_own = source < first_other;
      from_own += is_own;
      from_others += !is_own;
    }
  }
  own.indptr[rows] = from_own;
  received.indptr[rows] = from_others;
  return from_own;
}

#define GSPLIT_INSTANTIATE_SUM(T, Start, Out)                                                                        \
  template void sum_rows<T>(const RowEdges&, const Sources<T>&, const Scaling<T>&, Matrix<const Start>, Matrix<Out>, \
                            int);
GSPLIT_INSTANTIATE_SUM(float, float, float)
GSPLIT_INSTANTIATE_SUM(double, double, double)
GSPLIT_INSTANTIATE_SUM(BFloat16, BFloat16, BFloat16)
GSPLIT_INSTANTIATE_SUM(BFloat16, BFloat16, float)
GSPLIT_INSTANTIATE_SUM(BFloat16, float, BFloat16)
GSPLIT_INSTANTIATE_SUM(BFloat16, float, float)

template void add_rows<float>(Matrix<float>, std::span<const int32_t>, Matrix<const float>);
template void add_rows<BFloat16>(Matrix<BFloat16>, std::span<const int32_t>, Matrix<const BFloat16>);
template void add_rows<double>(Matrix<double>, std::span<const int32_t>, Matrix<const double>);

#define GSPLIT_INSTANTIATE_DOT(T) \
  template void dot_rows<T>(const RowEdges&, const Sources<T>&, Matrix<const T>, Matrix<Computed<T>>, int);
GSPLIT_INSTANTIATE_DOT(float)
GSPLIT_INSTANTIATE_DOT(double)
GSPLIT_INSTANTIATE_DOT(BFloat16)

}  // namespace gsplit
