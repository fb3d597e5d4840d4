#include "permute.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "memory.hpp"
#include "random.hpp"

namespace gsplit {
namespace {

void sort_rows(uint64_t key, uint64_t num_rows, uint64_t begin, std::span<int64_t> out) {
  constexpr uint64_t ROW = SORTED_ROWS - 1;  // a row takes the place of the last bits of its hash
  Array<uint64_t> order(num_rows);
  for (uint64_t row = 0; row < num_rows; ++row) order[row] = (fold_word(key, row) & ~ROW) | row;
  const auto first = order.begin() + begin, last = first + out.size();
  std::nth_element(order.begin(), first, order.end());
  std::nth_element(first, last, order.end());
  std::sort(first, last);
  std::transform(first, last, out.begin(), [](uint64_t hash) { return static_cast<int64_t>(hash & ROW); });
}

}  // namespace

void permuted_rows(uint64_t key, uint64_t num_rows, uint64_t begin, std::span<int64_t> out) {
  key = fold_word(0, key);  // rows are folded in by xor, so orders of keys that differ in few bits would be alike
  if (num_rows <= SORTED_ROWS) return sort_rows(key, num_rows, begin, out);
  const int bits = std::bit_width(num_rows - 1), low = (bits + 1) / 2;
  const std::array masks{(uint64_t{1} << (bits - low)) - 1, (uint64_t{1} << low) - 1};
  std::array<uint64_t, 6> rounds;
  for (size_t i = 0; i < rounds.size(); ++i) rounds[i] = fold_word(key, i);
  for (size_t i = 0; i < out.size(); ++i) {
    uint64_t row = begin + i;
    do {
      uint64_t left = row >> low, right = row & masks[1];
      for (size_t round = 0; round < rounds.size(); ++round) {
        left ^= fold_word(rounds[round], right) & masks[round % 2];
        std::swap(left, right);
      }
      row = left << low | right;
    } while (row >= num_rows);
    out[i] = static_cast<int64_t>(row);
  }
}

}  // namespace gsplit
