// An epoch's shuffle of all vertices, cut into runs: which vertices are in which run, in two passes over the ids.
//
// A shuffle sorts vertices by a hash of their global ids. What a run is wanted for does not depend on its order, so
// nothing is sorted: a histogram of the upper bits says in which bucket each cut falls, only those buckets are
// searched for the hash that it falls at, and then each vertex is written to its run. Hashes of distinct ids are
// distinct, so runs are the same whatever the partition (law 1).
#pragma once

#include <cstdint>
#include <span>

namespace gsplit {

/// Writes the layout ids [N] of run 0, then of run 1, ... to order: run r are the vertices whose hashes are number
/// bounds[r] .. bounds[r+1] in ascending order; within a run ids ascend. global_ids: [N]. bounds: ascending from 0 to
/// N. Throws std::invalid_argument for other bounds, for an order of another size, and for equal ids at a bound.
void shuffle_into_runs(std::span<const int64_t> global_ids, uint64_t key, std::span<const int64_t> bounds,
                       std::span<int64_t> order);

}  // namespace gsplit
