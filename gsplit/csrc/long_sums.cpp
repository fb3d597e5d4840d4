#include "long_sums.hpp"

#include "aggregate_shared.hpp"

namespace gsplit {
namespace {

constexpr int64_t BLOCKS = 16;  // that are summed in one call

/// Sums rows by blocks, one after the other.
class RowsByBlocks {
 public:
  explicit RowsByBlocks(const RowTask<float>& task) : task_(task), sums_(task.width), blocks_(BLOCKS * task.width) {}

  void sum(int64_t row) {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    RowTask<float> part = task_;
    part.degrees = nullptr;
    part.scale = nullptr;
    part.start_rows = 0;
    part.out = blocks_.data();
    part.out_stride = task_.width;
    int32_t bounds[BLOCKS + 1];
    part.indptr = bounds;
    for (int64_t edge = task_.indptr[row], end = task_.indptr[row + 1]; edge < end;) {
      int64_t count = 0;
      bounds[0] = static_cast<int32_t>(edge);
      while (count < BLOCKS && edge < end) bounds[++count] = static_cast<int32_t>(edge = block_end(edge, end));
      chosen().sum_f32(part, 0, count);
      chosen().add_f32(blocks_.data(), count, task_.width, sums_.data());
    }
    finish(row);
  }

 private:
  /// What comes after the sum of a row: that of a row with one edge, whose source is the sum of the blocks.
  void finish(int64_t row) {
    for (int64_t c = 0; c < task_.width; ++c) blocks_[c] = static_cast<float>(sums_[c]);
    const int32_t bounds[] = {0, 1}, index = 0;
    RowTask<float> one = task_;
    one.indptr = bounds;
    one.indices = &index;
    one.num_edges = 1;
    one.own = blocks_.data();
    one.num_own = 1;
    one.factor = nullptr;
    one.weight = nullptr;
    one.heads = 1;
    if (one.degrees != nullptr) one.degrees += row;
    if (one.scale != nullptr) one.scale += row;
    one.start_rows = row < task_.start_rows ? 1 : 0;
    if (one.start_rows > 0) one.start += row * one.start_stride;
    if (one.start_scale != nullptr) one.start_scale += row;
    one.out += row * one.out_stride;
    chosen().sum_f32(one, 0, 1);
  }

  const RowTask<float>& task_;
  std::vector<double> sums_;   // [width]
  std::vector<float> blocks_;  // [BLOCKS, width]
};

}  // namespace

void sum_float_rows(const RowTask<float>& task, int64_t begin, int64_t end) {
  static_assert((BLOCK_EDGES & (BLOCK_EDGES - 1)) == 0);
  int32_t bits = 0;  // of all lengths: a length is long where it has a bit that no short one has
  for (int64_t row = begin; row < end; ++row) bits |= task.indptr[row + 1] - task.indptr[row];
  if (!is_long(bits)) return chosen().sum_f32(task, begin, end);
  RowsByBlocks by_blocks(task);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = row;
    while (row < end && !is_long(task.indptr[row + 1] - task.indptr[row])) ++row;
    if (first < row) chosen().sum_f32(task, first, row);
    if (row < end) by_blocks.sum(row);
  }
}

}  // namespace gsplit
