// Building and turning adjacency in memory: edge lists to CSC, directed CSC to the symmetric graph that a
// partitioner wants. Counting sort by destination, then a sort and a clean-up within each row, so the time is
// linear but for the short row sorts and the result does not depend on the order of the input.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gsplit {

template <class Index>
struct Csc {
  std::vector<int64_t> indptr;  // [N + 1]
  std::vector<Index> indices;   // [E], ascending within each row, without duplicates
};

/// In-neighbours from edges (source, destination); both directions of each edge when `symmetric`. Self-loops
/// and duplicates are dropped. Throws std::invalid_argument for an id outside [0, n).
template <class Index>
Csc<Index> csc_from_edges(std::span<const Index> sources, std::span<const Index> destinations, int64_t n,
                          bool symmetric);

/// The graph with every edge in both directions, without self-loops and duplicates; int64 as METIS takes it.
template <class Index>
Csc<int64_t> symmetrize(std::span<const int64_t> indptr, std::span<const Index> indices);

}  // namespace gsplit
