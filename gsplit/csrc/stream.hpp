// One pass of a streaming partitioner: vertices come by in the order of their ids, each with its in-neighbours, and
// each goes to the group where most of them are.
//
// Groups are parts, or clusters of limited weight that parts are made of later. As parts, this is the greedy of
// Stanton and Kliot (KDD 2012) with limits in place of a penalty, restreamed as by Nishimura and Ugander (KDD 2013):
// in the second pass a vertex sees where all others are. As clusters, with each vertex its own at first, it is label
// propagation under a size limit (Meyerhenke, Sanders, Schulz, SEA 2014).
//
// For vertex v, gain(q) is the weight of the edges from group q to v: a self-loop has none. A group has room where
// neither its weight nor its target weight would go above a limit with v in it.
//
//   1. Of the groups with room and a gain, and v's own group if it has room, the one of the largest gain is chosen.
//   On
//      a tie it is the own one, and else the hash of (seed, v, group) decides: ids must not, as label
//      propagation would then drift towards small ones.
//   2. Where there is none and `everywhere` is set, the emptiest of all groups is chosen: those with room come first,
//      then those that only have too many targets, then the others; in each class the least loaded (in the
//      second class by targets), then the first.
//   3. A vertex of an overfull group leaves it for a chosen group of less gain only if
//      gain(own) / strain <= gain(chosen), rounded down: with a strain that grows from pass to pass those leave first
//      that lose least. And it leaves for the emptiest only if that is better by the order of 2.
//   4. Who has no group and finds none stays without: -1.
//
// Invariants: load[q] is the weight of the vertices in q, before and after. A limit that holds is never broken, but
// by a vertex that had no group and finds no room (2), which goes to the least loaded. So with `everywhere` no part
// that was within the limit gets more than the mean and one vertex.
#pragma once

#include <cstdint>
#include <span>

namespace gsplit {

/// The graph as it lies on disk: N vertices, E edges. Empty spans mean that every weight is 1, no vertex is a
/// target, every vertex is movable.
template <class Index>
struct StreamGraph {
  std::span<const int64_t> indptr;         // [N + 1]
  std::span<const Index> indices;          // [E] in-neighbours
  std::span<const uint32_t> edge_weight;   // [E]; an edge of weight 0 is ignored
  std::span<const int64_t> vertex_weight;  // [N] at least 0
  std::span<const int32_t> target_weight;  // [N] at least 0: the second constraint; 0 each when empty
  std::span<const uint8_t> movable;        // [N] 0: stays where it is
};

/// What a pass changes. G groups.
struct StreamGroups {
  std::span<int32_t> group;        // [N] in 0 .. G - 1, or -1: none yet
  std::span<int64_t> load;         // [G]
  std::span<int64_t> target_load;  // [G]; unused without target weights
  std::span<int64_t> gain;         // [G] scratch: all 0 between calls
};

struct StreamRule {
  int64_t limit;
  int64_t target_limit;
  bool everywhere;  // a vertex may go where it has no neighbour
  int64_t strain;   // at least 1
  uint64_t seed;
};

/// Places the vertices begin .. end - 1; returns how many changed their group. Throws std::invalid_argument for a
/// range outside the graph, spans that do not fit together, or ids and groups out of range among those it meets.
template <class Index>
int64_t stream_range(const StreamGraph<Index>& graph, const StreamGroups& groups, const StreamRule& rule,
                     int64_t begin, int64_t end);

}  // namespace gsplit
