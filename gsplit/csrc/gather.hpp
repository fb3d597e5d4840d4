// Finds rows of a matrix that lie in several places, and copies rows by index, whatever the element type.
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

/// Ids from `begin` to before `end` are rows from `first` on of place `place`.
struct Range {
  int64_t begin, end, first, place;
};

/// Sorts ids by place, in their order: `rows` and `positions`, one each for every id, have those of place 0 first,
/// and last, with the ids for rows, those that no range has; `counts` says how many each place has, and ends with
/// those.
///
/// Ranges are sorted, do not overlap, and name places before the last one.
void find_rows(std::span<const int64_t> ids, std::span<const Range> ranges, std::span<int64_t> rows,
               std::span<int64_t> positions, std::span<int64_t> counts);

/// The same for one place, where id i is row table[i], or not there if that is negative; returns how many are there.
/// Throws std::invalid_argument for an id outside the table, before anything is written.
int64_t find_rows(std::span<const int64_t> ids, std::span<const int32_t> table, std::span<int64_t> rows,
                  std::span<int64_t> positions);

}  // namespace gsplit
