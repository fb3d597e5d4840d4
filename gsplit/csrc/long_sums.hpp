// Sums over long lists of edges, in float32 and in double: how every kernel of the core takes them.
//
// One number of float32 to which all others are added is off by 5e-7 of its value after 32 equal ones, by 1e-6 after
// 64, by 1e-3 after 100,000 and by 2 % after 3 million. So a list of 2 * BLOCK_EDGES edges or more is summed by
// blocks, each in the type of the rows, and the blocks are added in double. A list that is shorter is one block, and
// costs nothing more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "row_kernels.hpp"

namespace gsplit {

inline constexpr int64_t BLOCK_EDGES = 32;

/// Whether so many edges are summed by blocks.
inline bool is_long(int64_t edges) { return edges >= 2 * BLOCK_EDGES; }

/// Where the block that begins at an edge ends; the last one of a list takes what would be too little for another.
inline int64_t block_end(int64_t edge, int64_t end) { return is_long(end - edge) ? edge + BLOCK_EDGES : end; }

/// sum_rows of rows begin .. end, those with long lists by blocks: the kernels sum blocks as they sum rows.
void sum_float_rows(const RowTask<float>& task, int64_t begin, int64_t end);
void sum_bfloat16_rows(const RowTask<BFloat16>& task, int64_t begin, int64_t end);

/// Sums over edges of one row, a number for each head.
template <class T>
class HeadSums {
 public:
  explicit HeadSums(int64_t heads) : sums_(heads), wide_(heads) {}

  /// add_to(edge, sums) of all edges begin .. end, in order: it adds an edge's numbers to those of all heads.
  template <class Add>
  void add(int64_t begin, int64_t end, Add add_to) {
    if (is_long(end - begin)) return add_by_blocks(begin, end, add_to);
    for (int64_t edge = begin; edge < end; ++edge) add_to(edge, sums_.data());
  }

  T& operator[](int64_t head) { return sums_[head]; }

 private:
  template <class Add>
  void add_by_blocks(int64_t begin, int64_t end, Add add_to) {
    std::fill(wide_.begin(), wide_.end(), 0);
    for (int64_t edge = begin; edge < end;) {
      for (const int64_t to = block_end(edge, end); edge < to; ++edge) add_to(edge, sums_.data());
      for (size_t h = 0; h < sums_.size(); ++h) {
        wide_[h] += static_cast<double>(sums_[h]);
        sums_[h] = 0;
      }
    }
    for (size_t h = 0; h < sums_.size(); ++h) sums_[h] = static_cast<T>(wide_[h]);
  }

  std::vector<T> sums_;
  std::vector<double> wide_;
};

}  // namespace gsplit
