// The pool of a hop: all in-neighbours of its destinations, each with a mass, of which a race draws some.
//
// Layer-wise importance sampling (LADIES: Zou et al., NeurIPS 2019; in bulk: Tripathy, Yelick, Buluc, MLSys 2024)
// draws the sources of a layer from the sources that its destinations have, in proportion to the squares of the
// aggregation's matrix, and keeps every edge from a source that was drawn. The products of that matrix with the
// indicator of the destinations, which the literature writes it with, are the specification and a test; here the
// in-edges are read once, in order, and each finds its candidate in a map.
//
// What takes time is the map: an access at random for each edge. So neighbours are gathered into a buffer first, and
// their entries fetched ahead, across rows. Each edge's candidate is noted, so that keeping the edges of those who
// won reads neither the graph nor the map again. The destinations of a hop are among those of the next, which add to
// what was there: over a mini-batch, every in-edge is looked up once, however many layers it has.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "draw.hpp"
#include "memory.hpp"
#include "race.hpp"
#include "selection.hpp"

namespace gsplit {

/// What a candidate's mass is the sum of, over the in-edges of destinations i: p_iv = w_iv / (weight of i's
/// in-edges).
enum class Importance {
  squares,  // p_iv^2, as LADIES proves it
  counts,   // the number of edges, squared afterwards, as the bulk paper's text has it (its section 2.2.2)
  norms,    // p_iv^2, of which the square root is taken afterwards: the norm of v's column
};

/// Throws std::invalid_argument for another name.
Importance importance_named(const std::string& name);

template <class Index>
class Pool : public Selection<Index> {
 public:
  /// Forgets the mini-batch before. parts: of destinations.
  virtual void start(size_t parts) = 0;

  /// Adds the in-neighbours of the destinations of a part: of those behind the ones that it has had so far. Throws
  /// std::invalid_argument for too many.
  virtual void add(size_t part, std::span<const int64_t> destinations) = 0;

  /// All of a hop have been added: masses are what they should be, and the candidates can race.
  virtual void end() = 0;

  Candidates& candidates() { return candidates_; }

 protected:
  Candidates candidates_;
};

/// edge_weight: [E], at least 0, or empty. memory: bytes that a map of all vertices may take; negative for no bound.
template <class Index>
std::unique_ptr<Pool<Index>> make_pool(GraphView<Index> graph, std::span<const float> edge_weight,
                                       Importance importance, int64_t memory);

}  // namespace gsplit
