// A small vertex cover of a bipartite graph: vertices such that every edge has one of them at an end.
//
// Before a layer, a trainer owns sources of edges into destinations of another. It sends the row of the source, once
// for all of its edges, or the sum of a destination's rows, once for all of them: one or the other of each edge. The
// fewest rows to send are a minimum vertex cover; as many as the edges of a maximum matching (Koenig).
//
// 1. A vertex with a single edge need not be taken where its neighbour is: the neighbour is, and its other edges are
//    covered, which leaves more such vertices. Some minimum cover does the same (Karp and Sipser, FOCS 1981).
// 2. Where none is left, the vertex with the most edges that are not covered is taken, and 1. goes on.
// 3. All sources, or all destinations, where that is fewer.
// 4. A destination that is left with the edge of a single source gives way to that source: its row is not a sum.
//
// Time and memory are linear in edges and vertices. An edge may be there several times. What is taken depends on the
// edges and their order alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "memory.hpp"

namespace gsplit {

class Cover {
 public:
  /// Finds a cover. Edge i leads from source sources[i], below num_sources, to destinations[i], which are numbered
  /// from 0 to num_destinations - 1 and ascend; every source and every destination has an edge.
  void find(std::span<const int32_t> sources, std::span<const int32_t> destinations, size_t num_sources,
            size_t num_destinations);

  bool has_source(size_t source) const { return taken_[source] != 0; }
  bool has_destination(size_t destination) const { return taken_[num_sources_ + destination] != 0; }

  /// Number of vertices in the cover.
  size_t size() const { return size_; }

 private:
  std::span<const int32_t> neighbours(size_t vertex) const {
    return {neighbours_.data() + begins_[vertex], neighbours_.data() + begins_[vertex + 1]};
  }
  void build(std::span<const int32_t> sources, std::span<const int32_t> destinations);
  void take(int32_t vertex);
  void take_neighbours_of_leaves();
  void take_by_degree();
  void take_side(bool sources);
  void give_way();

  size_t num_sources_ = 0, num_vertices_ = 0, size_ = 0;  // the destinations are vertices from num_sources_ on
  Array<int32_t> begins_;                                 // [vertices + 1]
  Array<int32_t> neighbours_;                             // [2 edges]
  Array<int32_t> open_;                                   // [vertices] edges with neither end taken
  Array<uint8_t> taken_;                                  // [vertices]
  Array<int32_t> leaves_;                                 // vertices to look at: they had one open edge
  Array<int32_t> next_;                                   // [vertices] list of those with as many open edges
  Array<int32_t> heads_;                                  // [most open edges + 1]
};

}  // namespace gsplit
