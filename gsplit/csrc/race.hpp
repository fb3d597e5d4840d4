// Drawing by a race: a set of fixed size, where candidate v is the likelier the larger its mass w_v.
//
// Every candidate draws a number u_v from its key, and runs u_v / w_v: the s smallest times win. Given the time tau
// of the first that loses, v wins exactly where u_v < w_v tau, whatever the others draw; that has the chance
// min(1, w_v tau). So a sum over the winners, each divided by that chance, is unbiased, with exactly s winners
// (priority sampling: Duffield, Lund, Thorup, "Priority sampling for estimation of arbitrary subset sums", JACM
// 2007). With tau of the last winner in its place, or the share w_v s / W, it would not be.
//
// With exponential times, -ln(u_v) / w_v, the winners are those of s draws one after the other, without replacement,
// each in proportion to the masses that are left: what inverse transform sampling draws that throws its dart again
// where it hits twice. The chance given tau is 1 - exp(-w_v tau) then.
//
// Masses are whole numbers, so that those who sum them agree whatever the order, and u_v depends on the key of the
// hop and the global id alone: the winners are the same for any partition, process and thread (law 1). Times are one
// division of numbers that are rounded alike everywhere; those of exponential races take a logarithm, and agree
// wherever the C library does.
#pragma once

#include <cstdint>
#include <span>

#include "memory.hpp"

namespace gsplit {

enum class Race { priority, exponential };

/// Those who race, and what came of it.
struct Candidates {
  Array<int64_t> vertices;    // layout ids
  Array<int64_t> global_ids;  // of the same
  Array<uint64_t> masses;     // of the same
  Array<float> scales;        // of the same: 1 / chance of those who won, 0 of the others
  Array<double> times;        // scratch
  Array<double> ranked;       // scratch

  size_t size() const { return vertices.size(); }
};

/// Lets `size` candidates win, all where there are no more. hop_prefix is the key of the hop, folded once.
void run_race(Candidates& candidates, int64_t size, uint64_t hop_prefix, Race race);

}  // namespace gsplit
