// A random order of rows, of which any run can be had without the rest.
//
// A Feistel network (Luby and Rackoff, SIAM Journal on Computing 1988) of six rounds is a bijection on numbers of b
// bits, whatever its rounds are; numbers that are no rows are sent on until they come to one, which leaves a
// bijection of the rows (Black and Rogaway, CT-RSA 2002). 2^b is below twice their number, so that takes under two
// turns on average. Halves of few bits have too few functions to make all orders alike, so up to SORTED_ROWS rows are
// sorted by a hash instead. Halves of an odd b differ by a bit, and change places in each round.
#pragma once

#include <cstdint>
#include <span>

namespace gsplit {

inline constexpr uint64_t SORTED_ROWS = uint64_t{1} << 16;

/// Writes rows number begin, begin + 1, ... of the order of 0 .. num_rows - 1 that belongs to the key, as many as out
/// has room for; begin + out.size() <= num_rows.
void permuted_rows(uint64_t key, uint64_t num_rows, uint64_t begin, std::span<int64_t> out);

}  // namespace gsplit
