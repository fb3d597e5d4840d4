// Drawing neighbours: the half of sampling that needs no memory of what was drawn before.
//
// Which neighbours are drawn depends on (seed, epoch, batch, micro, hop, relation, global id) alone (law 1), so any
// run of destinations can be drawn by any thread, at any time. A vertex with at most fan-out neighbours takes them
// all, in their order; otherwise Floyd's algorithm chooses (random.hpp).
//
// Time goes to misses of the caches and, more so, of the page tables: a fetch that misses those holds up the
// processor until the page is found, and then only what lies within its window of instructions goes on. So
// fetches are made in bursts of destinations, with little between them, and drawing goes on in between: while
// one burst is drawn, the neighbours of the next are on their way, and the indptr of the one after. (A fetch
// between every two draws was a third slower than bursts, docs/development/log.md.) Vertices with too many
// neighbours to fetch are drawn early, so that what was drawn can be fetched.
//
// Of a vertex with excluded in-edges (exclude.hpp), the others are drawn from in the same way, at once. Hops without
// such vertices have code of their own: a branch for each destination took 2 % of sampling.
#pragma once

#include <cstdint>
#include <span>

#include "memory.hpp"
#include "random.hpp"
#include "typed_graph.hpp"

namespace gsplit {

/// A run of destinations of one split, by one relation: rows first_row .. last_row of its destination type.
struct Run {
  size_t part = 0;
  size_t relation = 0;
  int64_t first_row = 0;
  int64_t last_row = 0;
};

/// What was drawn for a run.
template <class Index>
struct Drawn {
  Run run;
  Array<int32_t> counts;     // [rows] neighbours of each destination
  Array<Index> neighbours;   // [edges]
  Array<int64_t> positions;  // [edges] where they stand in the relation's indices, if asked for; otherwise empty
};

template <class Index>
class Exclusions;

template <class Index>
class Drawer {
 public:
  explicit Drawer(const TypedGraph<Index>& graph) : typed_(&graph) {}

  /// Draws for destinations[run.first_row .. run.last_row). hop_prefix is the key of the hop, folded
  /// once; exclusions are null where there are none.
  void draw(const Run& run, std::span<const int64_t> destinations, int64_t fan_out, uint64_t hop_prefix,
            const Exclusions<Index>* exclusions, bool positions, Drawn<Index>& drawn);

 private:
  static constexpr int64_t BURST = 32;  // destinations whose memory is fetched together
  static constexpr int64_t RING = 2 * BURST;

  struct Destination {
    const Index* neighbours = nullptr;
    uint64_t state = 0;  // of the draws
    int64_t degree = 0;
    int32_t count = 0;      // how many are drawn
    bool chosen = false;    // the draws are made
    Array<uint32_t> draws;  // [count + 1 or more] which neighbours; the last is scratch
  };

  template <bool EXCLUDES>
  void draw_rows(const Run& run, std::span<const int64_t> destinations, int64_t fan_out, uint64_t hop_prefix,
                 const Exclusions<Index>* exclusions, bool positions, Drawn<Index>& drawn);
  template <bool EXCLUDES>
  void look_up(int64_t vertex, int64_t fan_out, uint64_t hop_prefix, const Exclusions<Index>* exclusions,
               Destination& destination);
  void choose(Destination& destination);
  [[gnu::noinline]] void choose_around(std::span<const uint32_t> before, int64_t fan_out, Destination& destination);
  void read(Destination& destination, bool positions, int64_t at, Drawn<Index>& drawn);

  [[noreturn]] void refuse_degree(int64_t vertex) const;

  const TypedGraph<Index>* typed_;
  size_t relation_ = 0;     // of the run at work
  GraphView<Index> graph_;  // of the same
  Chooser chooser_;
  Destination ring_[RING];  // those looked up and not read yet, by row modulo RING
};

}  // namespace gsplit
