// What one pass over the edges tells of a graph: weak components, self-loops, repeated edges, and whether every edge
// has its reverse. The rows may come in ranges, so that a caller can say how far it is.
//
// Components are a forest in one array: component[v] is v or a smaller vertex of the same component, so that a root
// is the smallest vertex of its tree and the result depends on no order. A search halves the path it walks (Tarjan
// and van Leeuwen, "Worst-case analysis of set union algorithms", JACM 1984).
//
// Whether every edge has its reverse is told by a sum over all edges u -> v: of r(u) r(v) (r(u) - r(v)), modulo 2^64,
// where r is a random number for each vertex. An edge and its reverse cancel, so it is 0 where the edges and their
// reverses are the same multiset; else some term is left, and the sum is 0 with a chance of about 2^-60.
#pragma once

#include <cstdint>
#include <span>

namespace gsplit {

struct WalkedEdges {
  int64_t self_loops = 0;
  int64_t repeated = 0;  // edges that stand in their row already
  uint64_t one_way = 0;  // the sum above; those of all ranges are added up
};

/// Walks the rows `begin .. end`. `component` [N] holds 0 .. N-1 before the first range; `last` [N] holds -1 then and
/// belongs to the walk. Throws std::invalid_argument for a row or an id outside.
template <class Index>
WalkedEdges walk_edges(std::span<const int64_t> indptr, std::span<const Index> indices, int64_t begin, int64_t end,
                       std::span<Index> component, std::span<Index> last);

}  // namespace gsplit
