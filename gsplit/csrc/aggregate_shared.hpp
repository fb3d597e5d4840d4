// What aggregate.cpp, attention.cpp and dense.cpp share: checks of what Python gives, threads, the chosen kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "aggregate.hpp"
#include "row_kernels.hpp"

namespace gsplit {

/// The kernels of the instruction set that is in use.
const RowKernels& chosen();

/// One call of activate, or, with gradients set, of activate_backward, where x is what forward gave.
template <class T>
ActivationTask<T> activation_task(Matrix<const T> x, Activation activation, Computed<T> drop, uint64_t seed,
                                  Matrix<T> out);

inline constexpr int64_t MIN_THREAD_VALUES = 1 << 16;  // below this a thread costs more than it saves

inline void require(bool holds, const char* message) {
  if (!holds) throw std::invalid_argument(message);
}

inline bool rows_inside(std::span<const int32_t> values, int64_t end) {
  uint32_t largest = 0;  // a negative one is larger than any
  for (const int32_t value : values) largest = std::max(largest, static_cast<uint32_t>(value));
  return values.empty() || largest < end;
}

/// Looks at every id: one outside the table would read other memory.
inline void check_ids(const PickedRows& x) {
  if (!x.ids) return;
  for (const int64_t id : *x.ids)
    if (id < 0 || id >= x.table.rows)
      throw std::invalid_argument("row " + std::to_string(id) + " is outside 0 .. " +
                                  std::to_string(x.table.rows - 1));
}

/// Looks at every edge: an index outside would read other memory.
inline void check_edges(const RowEdges& edges, int64_t sources, int64_t weights) {
  require(!edges.indptr.empty() && edges.indptr.front() == 0, "indptr must begin with 0");
  require(edges.indptr.back() == static_cast<int64_t>(edges.indices.size()), "indptr must end with the edges");
  require(std::is_sorted(edges.indptr.begin(), edges.indptr.end()), "indptr must not fall");
  require(rows_inside(edges.indices, sources), "an edge has a source that is no row");
  require(edges.order.empty() || edges.order.size() == edges.indices.size(), "there must be an order for each edge");
  require(weights < 0 || rows_inside(edges.order, weights), "an edge has a weight that does not exist");
}

/// Runs work(worker, begin, end) on as many rows each.
template <class Work>
void shared_out(int64_t rows, int64_t width, int threads, Work work) {
  const int64_t workers = std::clamp<int64_t>(threads, 1, 1 + rows * width / MIN_THREAD_VALUES);
  std::vector<std::jthread> pool;
  for (int64_t w = 1; w < workers; ++w) pool.emplace_back(work, w, rows * w / workers, rows * (w + 1) / workers);
  work(int64_t{0}, int64_t{0}, rows / workers);
}

/// Where ranges of rows begin and end, with about as many edges each: one for each thread that is worth its start.
inline std::vector<int64_t> equal_ranges(const RowEdges& edges, int64_t width, int threads) {
  const auto rows = static_cast<int64_t>(edges.indptr.size()) - 1;
  const auto total = static_cast<int64_t>(edges.indices.size()) + rows;
  const int64_t workers = std::clamp<int64_t>(threads, 1, 1 + total * width / MIN_THREAD_VALUES);
  std::vector<int64_t> bounds(workers + 1, rows);
  bounds[0] = 0;
  for (int64_t w = 1, row = 0; w < workers; ++w) {
    while (row < rows && edges.indptr[row] + row < total * w / workers) ++row;
    bounds[w] = row;
  }
  return bounds;
}

/// Runs work(worker, begin, end) on every range, the first in this thread.
template <class Work>
void side_by_side(const std::vector<int64_t>& bounds, const Work& work) {
  std::vector<std::jthread> pool;
  for (size_t w = 1; w + 1 < bounds.size(); ++w) pool.emplace_back([&, w] { work(w, bounds[w], bounds[w + 1]); });
  work(size_t{0}, bounds[0], bounds[1]);
}

}  // namespace gsplit
