// A minimum vertex cover of a bipartite graph, exactly: for what is computed once and used in every epoch, where
// cover.hpp's is too large by a little and has to be found for every mini-batch.
//
// It has as many vertices as a maximum matching has edges (Koenig). The matching grows along shortest alternating
// paths, many at a time (Hopcroft and Karp, SIAM J. Comput. 1973): time is edges x sqrt(vertices) at most, memory
// linear in the vertices. When no path is left, the last search has been everywhere that alternating paths from free
// sources lead to: the cover has the sources where it was not, and the destinations where it was. Where both a source
// and a destination would do, this takes the source.
#pragma once

#include <cstdint>
#include <span>

namespace gsplit {

/// Finds it. The edges of source s lead to `destinations[indptr[s] .. indptr[s + 1]]`; one may be there several
/// times. Sets `takes_source` and `takes_destination`, whose sizes are the numbers of vertices, to 1 for those of the
/// cover. Throws std::invalid_argument for edges outside.
void least_cover(std::span<const int64_t> indptr, std::span<const int32_t> destinations,
                 std::span<uint8_t> takes_source, std::span<uint8_t> takes_destination);

}  // namespace gsplit
