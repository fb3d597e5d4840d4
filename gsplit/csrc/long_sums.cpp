#include "long_sums.hpp"

#include "aggregate_shared.hpp"

namespace gsplit {
namespace {

constexpr int64_t BLOCKS = 16;  // that are summed in one call

void run_sum(const RowTask<float>& task, int64_t begin, int64_t end) { chosen().sum_f32(task, begin, end); }
void run_sum(const RowTask<BFloat16>& task, int64_t begin, int64_t end) { chosen().sum_bf16(task, begin, end); }

/// Sums rows by blocks, one after the other.
template <class T>
class RowsByBlocks {
 public:
  explicit RowsByBlocks(const RowTask<T>& task) : task_(task), sums_(task.width), blocks_(BLOCKS * task.width) {}

  void sum(int64_t row) {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    RowTask<T> part = task_;
    part.degrees = nullptr;
    part.scale = nullptr;
    part.start_rows = 0;
    if constexpr (NARROW<T>) part.wide_out = blocks_.data();
    else part.out = blocks_.data();
    part.out_stride = task_.width;
    int32_t bounds[BLOCKS + 1];
    part.indptr = bounds;
    for (int64_t edge = task_.indptr[row], end = task_.indptr[row + 1]; edge < end;) {
      int64_t count = 0;
      bounds[0] = static_cast<int32_t>(edge);
      while (count < BLOCKS && edge < end) bounds[++count] = static_cast<int32_t>(edge = block_end(edge, end));
      run_sum(part, 0, count);
      chosen().add_f32(blocks_.data(), count, task_.width, sums_.data());
    }
    finish(row);
  }

 private:
  /// What comes after the sum of a row.
  void finish(int64_t row) {
    for (int64_t c = 0; c < task_.width; ++c) blocks_[c] = static_cast<float>(sums_[c]);
    if constexpr (NARROW<T>) finish_narrow(row);
    else finish_one(row);
  }

  /// As that of a row with one edge, whose source is the sum of the blocks.
  void finish_one(int64_t row) {
    const int32_t bounds[] = {0, 1}, index = 0;
    RowTask<T> one = task_;
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

  /// Sources of bfloat16 have no room for the sum of the blocks.
  void finish_narrow(int64_t row) {
    const float divisor = task_.degrees != nullptr && task_.degrees[row] > 0 ? task_.degrees[row] : 1;
    const float scale = (task_.scale == nullptr ? 1 : task_.scale[row]) / divisor;
    const float start_scale = task_.start_scale == nullptr || row >= task_.start_rows ? 1 : task_.start_scale[row];
    for (int64_t c = 0; c < task_.width; ++c) {
      float total = blocks_[c] * scale;
      if (row < task_.start_rows) {
        const int64_t at = row * task_.start_stride + c;
        total += (task_.wide_start == nullptr ? widened(task_.start[at]) : task_.wide_start[at]) * start_scale;
      }
      const int64_t at = row * task_.out_stride + c;
      if (task_.wide_out != nullptr) task_.wide_out[at] = total;
      else task_.out[at] = narrowed(total);
    }
  }

  const RowTask<T>& task_;
  std::vector<double> sums_;   // [width]
  std::vector<float> blocks_;  // [BLOCKS, width]
};

template <class T>
void sum_with_long(const RowTask<T>& task, int64_t begin, int64_t end) {
  static_assert((BLOCK_EDGES & (BLOCK_EDGES - 1)) == 0);
  int32_t bits = 0;  // of all lengths: a length is long where it has a bit that no short one has
  for (int64_t row = begin; row < end; ++row) bits |= task.indptr[row + 1] - task.indptr[row];
  if (!is_long(bits)) return run_sum(task, begin, end);
  RowsByBlocks<T> by_blocks(task);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = row;
    while (row < end && !is_long(task.indptr[row + 1] - task.indptr[row])) ++row;
    if (first < row) run_sum(task, first, row);
    if (row < end) by_blocks.sum(row);
  }
}

}  // namespace

void sum_float_rows(const RowTask<float>& task, int64_t begin, int64_t end) { sum_with_long(task, begin, end); }
void sum_bfloat16_rows(const RowTask<BFloat16>& task, int64_t begin, int64_t end) { sum_with_long(task, begin, end); }

}  // namespace gsplit
