// Which pairs of vertices are edges. Lists of in-neighbours are not sorted, so each is looked through
// (find_sources.hpp).
#pragma once

#include <cstdint>
#include <span>

#include "typed_graph.hpp"

namespace gsplit {

/// Throws std::invalid_argument for a vertex that is not in the graph, and for other numbers of sources than of
/// destinations.
template <class Index>
void check_pairs(const GraphView<Index>& graph, std::span<const int64_t> sources,
                 std::span<const int64_t> destinations);

/// out[i]: whether sources[i] -> destinations[i] is an edge. Throws as check_pairs().
template <class Index>
void are_edges(const GraphView<Index>& graph, std::span<const int64_t> sources, std::span<const int64_t> destinations,
               std::span<bool> out);

/// out[g * C + c]: whether sources[g] -> candidates[c] is an edge; sources and candidates may repeat. Every list is
/// looked through once for all sources. Throws std::invalid_argument for a vertex that is not in the graph.
template <class Index>
void edges_from(const GraphView<Index>& graph, std::span<const int64_t> candidates, std::span<const int64_t> sources,
                std::span<bool> out);

}  // namespace gsplit
