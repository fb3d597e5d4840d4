// The pair block: who scores which pairs of a mini-batch of links, and which rows of targets travel for that.
//
// A group is a pair (source, destination) with candidates to put in the place of its destination, or the last of them
// in that of its source: some of its own, and some that all groups of a chunk share. It is scored by the owner of its
// source, to whom the rows of the other ends come, each once. So a loss over groups is local, and the block is one
// layer more: its route is that of an exchange of level L. Where a loss looks at one score at a time, groups may be
// taken apart: the owners of the destination and of each candidate score these, and the row of the other end comes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory.hpp"
#include "segment.hpp"

namespace gsplit {

/// The groups of a micro-batch. Ends are numbers of targets, in the order in which those were given to the sampler.
struct PairGroups {
  std::span<const int32_t> sources;       // [G]
  std::span<const int32_t> destinations;  // [G]
  std::span<const int32_t> own;           // [G * K] candidates of each group
  std::span<const int32_t> shared;        // [S * C] candidates of all groups of each chunk
  std::span<const uint8_t> masked;        // [G * (K + C)] candidates that count nothing, own ones first; or empty
  std::span<const int64_t> rows;          // [G] numbers of the pairs
  std::span<const float> own_log_q;       // [G * K] logarithms of how often a candidate is expected; or empty
  std::span<const float> shared_log_q;    // [S * C] likewise
  int64_t chunk = 1;                      // groups of a chunk, in order; the last one may be smaller
  int64_t own_at_source = 0;              // of the K, the last ones: they take the place of the source
  int64_t shared_at_source = 0;           // of the C likewise
  int64_t groups_of_all = 0;              // groups of all micro-batches of the mini-batch
  int64_t negatives_of_all = 0;           // candidates of the same that are not masked
  bool turned = false;                    // candidates take the place of sources, which are called destinations
  bool apart = false;                     // scored at destinations and at candidates, of which none is shared
};

/// What one split scores and sends.
struct PairSplit {
  Array<int32_t> sources;       // [own groups] own target rows; apart: likewise, and destinations are own rows
  Array<int32_t> destinations;  // [own groups] own target rows, then rows received from 0, 1, ...
  Array<int32_t> own;           // [own groups * K] likewise
  Array<int32_t> shared;        // [own chunks * C] likewise; of those that have own groups
  Array<int32_t> chunk_groups;  // [own chunks] own groups of each
  Array<uint8_t> masked;        // [own groups * (K + C)] or empty
  Array<int64_t> rows;          // [own groups]
  Array<float> own_log_q;       // [own groups * K] or empty
  Array<float> shared_log_q;    // [own chunks * C] or empty
  int64_t candidates = 0;       // K; apart: 0
  int64_t of_chunk = 0;         // C
  int64_t own_at_source = 0;    // of the K; apart: of those below
  int64_t shared_at_source = 0;
  int64_t apart = 0;     // how many of the own groups, the last, are candidates with an end of their pair
  int64_t left_out = 0;  // own candidates that are masked, where groups are apart
  int64_t groups_of_all = 0, negatives_of_all = 0;
  bool turned = false;
  Array<int32_t> excluded_rows;  // own target rows: destinations of the edges that the mini-batch must not see
  Array<int64_t> excluded_ids;   // positions of these edges in the graph's indices
  std::vector<Array<int32_t>> send_rows;  // [P] own target rows that each trainer needs
};

/// Splits groups between the owners of their sources, or takes them apart. targets: those that `splits` were sampled
/// for, in the order that the ends of groups count. Throws std::invalid_argument for ends that are none.
std::vector<PairSplit> split_pairs(const std::vector<Split>& splits, std::span<const int64_t> offsets,
                                   std::span<const int64_t> targets, const PairGroups& groups);

}  // namespace gsplit
