// Putting vertices into the order of their ids, by a bit for each where there are many.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "memory.hpp"

namespace gsplit {

/// Calls use(number) with the number of each bit that is set, ascending.
template <class Use>
void each_bit(const Array<uint64_t>& bits, Use use) {
  for (size_t word = 0; word < bits.size(); ++word)
    for (uint64_t left = bits[word]; left != 0; left &= left - 1)
      use(static_cast<int64_t>(64 * word) + std::countr_zero(left));
}

/// Sorts vertices of a part that begins at `begin`. bits: scratch.
inline void sort_ids(std::span<int64_t> vertices, int64_t begin, size_t size, Array<uint64_t>& bits) {
  if (vertices.size() < size / 64) return std::sort(vertices.begin(), vertices.end());
  bits.assign(size / 64 + 1, 0);
  for (const int64_t vertex : vertices) bits[(vertex - begin) >> 6] |= uint64_t{1} << ((vertex - begin) & 63);
  auto next = vertices.begin();
  each_bit(bits, [&](int64_t number) { *next++ = begin + number; });
}

}  // namespace gsplit
