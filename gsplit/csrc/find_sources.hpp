// Looking for some vertices in lists of in-neighbours, which are not sorted.
//
// A few are compared with a block of neighbours at a time; nothing is decided before the end of the block, so
// compilers make vectors of it. Where there are more, a hash of each neighbour picks one bit of a filter that stays
// in the first cache level, and those that pass, the wanted ones and one in 16 others, are searched for: a neighbour
// costs a nanosecond, however many are wanted.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "draw.hpp"
#include "memory.hpp"
#include "random.hpp"

namespace gsplit {

template <class Index>
class SourceFinder {
 public:
  /// sources: ascending and distinct; the memory is looked into until the next call.
  void look_for(std::span<const Index> sources) {
    sources_ = sources;
    if (sources.size() <= FEW) return;
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
  static constexpr size_t FEW = 8;       // up to here comparing with each is cheaper
  static constexpr size_t BLOCK = 32;    // neighbours that are compared before it is asked whether any was equal
  static constexpr size_t CHUNK = 1024;  // neighbours of which those that pass are noted before they are searched for
  static constexpr size_t BITS_EACH = 16;  // of the filter, for each source

  template <class Found>
  void compare(std::span<const Index> list, const Found& found) const {
    for (size_t first = 0; first < list.size(); first += BLOCK) {
      const auto block = list.subspan(first, std::min(BLOCK, list.size() - first));
      int32_t equal = 0;
      for (const Index source : sources_)
        if (block.size() == BLOCK)
          for (size_t i = 0; i < BLOCK; ++i) equal += block[i] == source;
        else
          for (const Index neighbour : block) equal += neighbour == source;
      if (equal == 0) continue;
      for (size_t i = 0; i < block.size(); ++i)
        if (std::find(sources_.begin(), sources_.end(), block[i]) != sources_.end()) found(first + i);
    }
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
