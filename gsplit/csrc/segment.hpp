// One split of one mini-batch, and how it lies in memory (docs/formats.md, "Segment").
//
// A Split grows while the mini-batch is sampled. A segment is the same thing at rest: a header of int64 words
// and then the arrays, each on a 16-byte boundary, in one piece of memory that holds no pointer. A trainer
// copies it to its device in one go and slices views from it; the header says where, so no size has to be
// asked from the device.
#pragma once

#include <cstdint>
#include <vector>

#include "memory.hpp"

namespace gsplit {

/// What one split holds of the vertices of a type.
struct CellSplit {
  Array<int64_t> vertices;           // layout ids, targets first
  std::vector<int64_t> level_sizes;  // [L + 1]: level l is vertices[0 .. level_sizes[l])
};

/// The block of one relation in one layer: edges from own and received rows of its source type to own rows of its
/// destination type.
struct BlockSplit {
  Array<int32_t> indptr;    // [destinations + 1]; [1] where nothing was asked for
  Array<int32_t> indices;   // [edges] source rows: own rows, then rows received from 0, 1, ...
  int64_t own_edges = 0;    // edges from own rows
  Array<int64_t> edge_ids;  // [edges] positions in the relation's indices, or empty

  // Where fewer partial sums than rows are sent (partial_sums.hpp):
  int64_t drawn_edges = 0;    // in-edges drawn for the destinations
  Array<int32_t> in_degrees;  // [destinations] of which for each; empty: as indptr says
  Array<int32_t> moved_rows;  // [in-edges that others sum] destinations; empty without edge ids
  Array<int64_t> moved_ids;   // [in-edges that others sum] edge ids

  void clear() {
    for (auto* values : {&indptr, &indices, &in_degrees, &moved_rows}) values->clear();
    for (auto* values : {&edge_ids, &moved_ids}) values->clear();
    own_edges = drawn_edges = 0;
  }
};

/// The rows of a type that others need of one split in one layer. A row is sent once, however many relations of the
/// receiver need it.
struct SendSplit {
  std::vector<Array<int32_t>> rows;  // [P][rows that trainer q needs], own level-(l-1) rows

  // Where fewer partial sums than rows are sent (partial_sums.hpp):
  std::vector<Array<int32_t>> ends;  // [P][rows sent] where the own rows end that each sums; empty: each is one
  std::vector<Array<int64_t>> ids;   // [P][rows summed] edge ids, -1 of rows sent as they are; or empty
  int64_t summed_edges = 0;          // rows that sums are made of, over all receivers

  void clear(size_t parts) {
    rows.resize(parts);
    ends.resize(parts);
    ids.resize(parts);
    for (auto& of_receiver : rows) of_receiver.clear();
    for (auto& of_receiver : ends) of_receiver.clear();
    for (auto& of_receiver : ids) of_receiver.clear();
    summed_edges = 0;
  }

  /// Rows that a receiver gets.
  size_t number(size_t receiver) const {
    return ends[receiver].empty() ? rows[receiver].size() : ends[receiver].size();
  }
};

/// What one split holds of one layer.
struct LayerSplit {
  std::vector<BlockSplit> blocks;  // [R]
  std::vector<SendSplit> sends;    // [T]
  Array<float> scales;             // [own sources, then rows received] what an edge counts; or empty; with one type
};

struct Split {
  std::vector<CellSplit> cells;    // [T]
  std::vector<LayerSplit> layers;  // [L + 1], entry 0 unused
  size_t shared_layer = 0;         // layers below it have the same block as it has; 0: each has its own
};

/// The words of a segment's header that belong to the whole mini-batch.
struct MiniBatchId {
  int64_t epoch = 0;
  int64_t batch = 0;
  int64_t num_targets = 0;  // over all splits, and over all micro-batches where there are several
  int64_t micro = 0;        // which micro-batch this is of
  int64_t target_type = 0;  // the type of all targets
};

inline constexpr int64_t SEGMENT_MAGIC = 0x474553544c505347;  // "GSPLTSEG", little-endian
inline constexpr int64_t SEGMENT_VERSION = 3;                 // of one type and one relation
inline constexpr int64_t TYPED_SEGMENT_VERSION = 4;           // with the words of types and relations
inline constexpr int64_t SEGMENT_HAS_EDGE_IDS = 1;
inline constexpr int64_t SEGMENT_HAS_SCALES = 2;
inline constexpr int64_t SEGMENT_SURE_LOOPS = 4;
inline constexpr int64_t SEGMENT_DRAWN_TARGETS = 8;
inline constexpr int64_t SEGMENT_HAS_PAIRS = 16;
inline constexpr int64_t HEADER_FIXED_WORDS = 12;
inline constexpr int64_t SUMS_WORDS = 9;

/// What segments carry that not all rules or models want.
struct SegmentContents {
  bool edge_ids = false;
  bool scales = false;
  bool sure_loops = false;     // an edge from a vertex to itself counts 1, whatever the scale
  bool drawn_targets = false;  // a target was drawn with the chance that its scale has, so its loss counts the scale
};

/// The types of a relation, by number.
struct Ends {
  size_t source = 0;
  size_t destination = 0;
};

struct PairSplit;

/// A mini-batch as segments are written of it.
struct SplitMiniBatch {
  const std::vector<Split>& splits;     // [P]
  const std::vector<Ends>& relations;   // [R]
  const std::vector<PairSplit>& pairs;  // [P], or empty where the mini-batch has none
  SegmentContents contents;
  MiniBatchId id;
};

/// Bytes that write_segment() will fill for split `rank`.
int64_t segment_bytes(const SplitMiniBatch& batch, int rank);

/// Writes split `rank` to `out`, which has segment_bytes() bytes and starts on an 8-byte boundary.
void write_segment(const SplitMiniBatch& batch, int rank, uint8_t* out);

}  // namespace gsplit
