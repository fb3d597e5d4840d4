// Looking for some vertices in lists of in-neighbours, which are not sorted.
//
// A few are compared with a block of neighbours at a time, as vectors. Where there are more, a hash of each neighbour
// picks one bit of a filter that stays in the first cache level, and those that pass, the wanted ones and one in 16
// others, are searched for: a neighbour costs a nanosecond, however many are wanted.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "memory.hpp"
#include "random.hpp"
#include "typed_graph.hpp"

namespace gsplit {

template <class Index>
class SourceFinder {
 public:
  /// sources: in any order, which is changed, and perhaps repeated; the memory is looked into until the next call.
  void look_for(std::span<Index> sources) {
    sources_ = sources;
    if (sources.size() <= FEW) return;
    std::sort(sources.begin(), sources.end());
    const size_t bits = std::bit_ceil(BITS_EACH * sources.size());
    shift_ = 64 - std::countr_zero(bits);
    filter_.assign(bits / 64, 0);
    for (const Index source : sources) filter_[place(source) / 64] |= uint64_t{1} << (place(source) % 64);
  }

  /// Calls found(position) for each position of the list that has one of the sources, in ascending order.
  template <class Found>
  void find(std::span<const Index> list, const Found& found) const {
    sources_.size() <= FEW ? compare(list, found) : sift(list, found);
  }

 private:
  static constexpr size_t FEW = sizeof(Index) == 4 ? 16 : 2;  // up to here comparing with each is cheaper
  static constexpr size_t BLOCK = 32;      // neighbours that are compared before it is asked whether any was equal
  static constexpr size_t CHUNK = 1024;    // neighbours of which those that pass are noted, then searched for
  static constexpr size_t BITS_EACH = 16;  // of the filter, for each source

  template <class Found>
  void compare(std::span<const Index> list, const Found& found) const {
    if (list.size() < BLOCK) {
      for (size_t i = 0; i < list.size(); ++i) {
        bool equal = false;
        for (const Index source : sources_) equal |= list[i] == source;
        if (equal) found(i);
      }
      return;
    }
    for (size_t first = 0; first < list.size(); first += BLOCK) {
      const size_t begin = std::min(first, list.size() - BLOCK);  // the last block begins in the one before
      uint32_t bits = equal_in(list.data() + begin) & (~uint32_t{0} << (first - begin));
      for (; bits != 0; bits &= bits - 1) found(begin + std::countr_zero(bits));
    }
  }

  /// One bit for each neighbour of a block: whether it is one of the sources.
  uint32_t equal_in(const Index* block) const {
#ifdef __SSE2__
    if constexpr (sizeof(Index) == 4) {
      const auto* fours = reinterpret_cast<const __m128i*>(block);
      __m128i equal[BLOCK / 4] = {};
      for (const Index source : sources_) {
        const __m128i wanted = _mm_set1_epi32(source);
        for (size_t i = 0; i < BLOCK / 4; ++i)
          equal[i] = _mm_or_si128(equal[i], _mm_cmpeq_epi32(_mm_loadu_si128(fours + i), wanted));
      }
      const auto bits_of = [](const __m128i* four) {
        return _mm_movemask_epi8(
            _mm_packs_epi16(_mm_packs_epi32(four[0], four[1]), _mm_packs_epi32(four[2], four[3])));
      };
      return static_cast<uint32_t>(bits_of(equal) | bits_of(equal + 4) << 16);
    }
#endif
    uint8_t equal[BLOCK] = {};
    for (const Index source : sources_)
      for (size_t i = 0; i < BLOCK; ++i) equal[i] |= block[i] == source;
    uint32_t bits = 0;
    for (size_t i = 0; i < BLOCK; i += 8) {
      uint64_t bytes;
      std::memcpy(&bytes, equal + i, 8);
      bits |= static_cast<uint32_t>(bytes * 0x0102040810204080ULL >> 56) << i;  // byte i of eight becomes bit i
    }
    return bits;
  }

  template <class Found>
  void sift(std::span<const Index> list, const Found& found) const {
    uint32_t passed[CHUNK + 1];  // one more than passes is written
    for (size_t first = 0; first < list.size(); first += CHUNK) {
      const auto chunk = list.subspan(first, std::min(CHUNK, list.size() - first));
      size_t size = 0;
      for (size_t i = 0; i < chunk.size(); ++i) {
        passed[size] = static_cast<uint32_t>(i);
        size += (filter_[place(chunk[i]) / 64] >> (place(chunk[i]) % 64)) & 1;
      }
      for (const uint32_t i : std::span(passed, size))
        if (std::binary_search(sources_.begin(), sources_.end(), chunk[i])) found(first + i);
    }
  }

  /// The bit of the filter that a vertex picks.
  size_t place(Index vertex) const { return (static_cast<uint64_t>(vertex) * GOLDEN) >> shift_; }

  std::span<const Index> sources_;
  Array<uint64_t> filter_;
  int shift_ = 0;
};

/// Lists of the in-neighbours of vertices, one after the other, with those to come fetched.
template <class Index, class Vertices, class Visit>
void visit_lists(const GraphView<Index>& graph, const Vertices& vertices, const Visit& visit) {
  constexpr size_t AHEAD = 8;
  constexpr int64_t LINE_BYTES = 64, FETCH_BYTES = 512;
  const auto list_of = [&](size_t i) {
    const int64_t begin = graph.indptr[vertices[i]];
    return graph.indices.subspan(begin, graph.indptr[vertices[i] + 1] - begin);
  };
  for (size_t i = 0; i < vertices.size(); ++i) {
    if (i + 2 * AHEAD < vertices.size()) __builtin_prefetch(&graph.indptr[vertices[i + 2 * AHEAD]]);
    if (i + AHEAD < vertices.size()) {
      const auto bytes = std::as_bytes(list_of(i + AHEAD));
      for (int64_t b = 0; b < std::min<int64_t>(bytes.size(), FETCH_BYTES); b += LINE_BYTES)
        __builtin_prefetch(bytes.data() + b);
    }
    visit(i, list_of(i));
  }
}

}  // namespace gsplit
