// Copies rows of a matrix by index, whatever the element type.
#pragma once

#include <cstdint>
#include <span>

namespace gsplit {

/// out[i] = rows[ids[i]], or, with positions, out[positions[i]] = rows[ids[i]]; other rows of `out` stay as they are.
///
/// `rows` has num_rows rows of row_bytes bytes each, `out` has out_rows: one for each id where `positions` is empty.
/// There are as many positions as ids, all different: threads (`threads` of them share the work) do not wait for each
/// other. Throws std::invalid_argument for an id outside [0, num_rows) or a position outside [0, out_rows), before
/// anything is written.
void gather_rows(const uint8_t* rows, int64_t num_rows, int64_t row_bytes, std::span<const int64_t> ids, uint8_t* out,
                 int64_t out_rows, std::span<const int64_t> positions, int threads);

}  // namespace gsplit
