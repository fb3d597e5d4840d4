// Copies rows of a matrix by index: out[i] = rows[ids[i]], whatever the element type.
#pragma once

#include <cstdint>
#include <span>

namespace gsplit {

/// `rows` has num_rows rows of row_bytes bytes each; `out` has room for ids.size() rows. Splits the work over
/// `threads` threads. Throws std::invalid_argument for an id outside [0, num_rows); then `out` is not to be used.
void gather_rows(const uint8_t* rows, int64_t num_rows, int64_t row_bytes, std::span<const int64_t> ids,
                 uint8_t* out, int threads);

}  // namespace gsplit
