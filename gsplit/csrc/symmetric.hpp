// The undirected graph that a partitioner wants, from a directed one in CSC: every edge in both directions, no
// self-loops, no duplicates; with weights, those of both directions added up and edges of weight 0 left out.
//
// Two linear passes. The first turns the graph around: reading the rows in order writes the out-neighbours of every
// vertex in ascending order, one cache miss an edge. The second merges each row with what the first one gave for it;
// only a row that does not ascend is sorted. Beside the result there is one copy of the directed edges.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gsplit {

template <class Out>
struct Symmetric {
  std::vector<int64_t> indptr;  // [N + 1]
  std::vector<Out> indices;     // ascending within each row
  std::vector<Out> weights;     // as long, or empty where no weights were given
};

/// `weights` is [E] or empty: what an edge counts; without, an edge is there or not. Throws std::invalid_argument
/// for weights of another length or sums beyond the range of Out.
template <class Out, class Index>
Symmetric<Out> symmetrize(std::span<const int64_t> indptr, std::span<const Index> indices,
                          std::span<const uint32_t> weights);

}  // namespace gsplit
