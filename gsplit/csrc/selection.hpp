// What decides, edge by edge, whether an in-edge is kept, where that depends on its source alone.
//
// Neighbour sampling draws for each destination (draw.hpp). All other rules draw a set of sources for a whole hop, or
// for a whole mini-batch, and keep every edge from a source in the set: a Pool (LADIES), or a set that was known
// before the graph was looked at (FastGCN, subgraphs), an Inside.
#pragma once

#include <cstdint>
#include <span>

#include "draw.hpp"

namespace gsplit {

template <class Index>
class Selection {
 public:
  virtual ~Selection() = default;

  /// The in-edges of the destinations in `run` whose sources were selected, in their order.
  virtual void keep(const Run& run, std::span<const int64_t> destinations, bool positions, Drawn<Index>& kept) = 0;

  /// What an edge from a vertex counts: 1 over the chance that it was selected; 0 where it was not.
  virtual float scale(int64_t vertex) const = 0;
};

}  // namespace gsplit
