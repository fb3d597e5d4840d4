// In-edges that a mini-batch must not draw: those of the pairs that it is asked about (law 7).
//
// An in-edge is a position in the list of its destination. Of d in-edges x are excluded, and draws are made below
// d - x as they are made below d elsewhere: number j is the j-th of those that may be drawn. For that, excluded
// position r, in ascending order, is kept as the number of in-edges before it that may be drawn, which is the
// position less r: j stands behind those of which it is at least that number. So a draw is uniform over what may be
// drawn, and nothing is drawn in vain.
//
// One bit a vertex says whether any of its in-edges is excluded; vertices without draw as ever. The vertices with a
// bit are numbered in ascending order, and those before a word of bits are counted, so the number of a vertex is that
// count and the bits below its own. Each list is looked through once (find_sources.hpp).
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "find_sources.hpp"
#include "memory.hpp"
#include "typed_graph.hpp"

namespace gsplit {

template <class Index>
class Exclusions {
 public:
  explicit Exclusions(GraphView<Index> graph);

  /// Finds all edges source -> destination of the pairs, and forgets those that were found before. Throws
  /// std::invalid_argument for a vertex that there is not, and for other numbers of sources.
  void find(std::span<const int64_t> destinations, std::span<const int64_t> sources);

  /// Edges that were found, of several from one vertex to another each.
  int64_t num_edges() const { return static_cast<int64_t>(before_.size()); }

  /// Whether any in-edge of a vertex was found.
  [[gnu::always_inline]] bool has(int64_t vertex) const { return (bits_[vertex / BITS] >> (vertex % BITS)) & 1; }

  /// Of a vertex that has some: how many in-edges that may be drawn stand before each that is excluded; ascending.
  std::span<const uint32_t> of(int64_t vertex) const {
    const uint64_t below = bits_[vertex / BITS] & ((uint64_t{1} << (vertex % BITS)) - 1);
    const uint32_t number = numbers_[vertex / BITS] + std::popcount(below);
    return std::span(before_).subspan(begins_[number], begins_[number + 1] - begins_[number]);
  }

 private:
  static constexpr int64_t BITS = 64;  // of a word

  struct Pair {
    Index destination;
    Index source;
  };

  void sort_pairs();

  GraphView<Index> graph_;
  SourceFinder<Index> finder_;
  Array<Pair> pairs_;        // by destination
  Array<Pair> other_pairs_;  // scratch
  Array<Index> sources_;     // of these
  Array<Index> asked_;       // destinations of these, distinct
  Array<size_t> firsts_;     // [asked + 1] where the pairs of each begin
  Array<Index> vertices_;    // destinations with a bit, ascending
  Array<uint64_t> bits_;     // [N / 64, rounded up]
  Array<uint32_t> numbers_;  // of the same: the vertices before the first that has a bit in this word, if any has
  Array<uint32_t> begins_;   // [vertices + 1] where what is of each begins in before_
  Array<uint32_t> before_;   // [edges found]
};

}  // namespace gsplit
