// Sampling a mini-batch and splitting it, in one pass.
//
// Input: the in-neighbours of a graph (CSC) in layout order, so that part p owns the ids
// offsets[p] .. offsets[p+1]. Output: one Split per part; together they are the unsplit mini-batch.
//
// Hop h draws up to fan-out[h] in-neighbours, without replacement, of *every* vertex of level L-h+1 (also of
// those already drawn at an earlier hop, as in the blocks of DGL). A drawn vertex joins the split of its owner;
// when the destination belongs to another split, its owner also lists the row among those to send. Every row is
// numbered by first appearance in the order (hop, split of the destination, destination row, draw).
//
// Which neighbours are drawn depends on (seed, epoch, batch, micro, hop, global id) alone: law 1. Floyd's
// algorithm (Bentley and Floyd, CACM 1987) makes k draws for k distinct positions: for j = d-k .. d-1 draw t in
// [0, j]; take t, or j if t was taken before. A vertex with at most k neighbours takes them all, in their order.
//
// Where the time goes: cache misses on indptr, on indices and on the row map. So destinations are handled in
// chunks, in three sweeps (draw positions, read neighbours, look up rows), each of which prefetches for the
// next; and one 16-byte map entry answers both questions that an edge asks: the row of the neighbour at its
// owner, and its place in the list of rows that the owner sends to this split. Entries are stamped, so the map
// is never cleared between mini-batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "segment.hpp"

namespace gsplit {

/// Views of arrays that outlive the sampler.
template <class Index>
struct GraphView {
  std::span<const int64_t> indptr;      // [N + 1]
  std::span<const Index> indices;       // [E]
  std::span<const int64_t> global_ids;  // [N], or empty where layout ids are the global ones
};

/// What the draws depend on, beside hop and vertex.
struct DrawKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t batch = 0;
  uint64_t micro = 0;  // which micro-batch, under data parallelism
};

template <class Index>
class Sampler {
 public:
  /// offsets: [P + 1], ascending from 0 to N. Throws std::invalid_argument.
  Sampler(GraphView<Index> graph, std::vector<int64_t> offsets);

  /// fan_outs[h-1] is the number of neighbours at hop h, -1 for all. Targets are distinct layout ids. Returns
  /// false, with no mini-batch, as soon as more than max_edges edges were drawn. Throws std::invalid_argument
  /// for a target that is out of range or given twice.
  bool sample(std::span<const int64_t> targets, std::span<const int64_t> fan_outs, const DrawKey& key,
              bool edge_ids, int64_t max_edges);

  /// The last mini-batch sampled.
  const std::vector<Split>& splits() const { return splits_; }

 private:
  struct MapEntry {
    uint32_t row_stamp;  // equals batch_stamp_: row is valid
    int32_t row;         // row in the owner's vertex list
    uint32_t ref_stamp;  // equals ref_stamp_: place is valid
    int32_t place;       // place among the rows that the owner sends to the split at work
  };
  struct RemoteEdge {
    int64_t edge;
    int owner;
  };

  void start(size_t layers);
  void add_targets(std::span<const int64_t> targets);
  bool sample_hop(int hop, int64_t fan_out, const DrawKey& key, bool edge_ids, int64_t max_edges);
  int64_t draw_positions(int64_t vertex, int64_t fan_out, uint64_t hop_key);
  void add_edges(int part, size_t level);
  void resolve_remote_rows(size_t level);
  int owner(int64_t vertex) const;
  int32_t row_at_owner(MapEntry& entry, int64_t vertex, int owner);

  GraphView<Index> graph_;
  std::vector<int64_t> offsets_;
  std::vector<MapEntry> map_;  // [N]
  uint32_t batch_stamp_ = 0;
  uint32_t ref_stamp_ = 0;
  int64_t num_edges_ = 0;

  std::vector<Split> splits_;
  std::vector<std::vector<RemoteEdge>> remote_edges_;  // [P], of the hop at work
  std::vector<int64_t> positions_;                     // of the chunk at work
  std::vector<Index> neighbours_;
  std::vector<uint64_t> seen_;  // scratch of draw_positions
};

}  // namespace gsplit
