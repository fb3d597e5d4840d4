#include "race.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "random.hpp"

namespace gsplit {
namespace {

constexpr double UNIT = 0x1p-53;

/// In (0, 1], a multiple of 2^-53: the first word of the vertex's stream.
double uniform(uint64_t hop_prefix, int64_t global_id) {
  const uint64_t word = mix64(fold_word(hop_prefix, static_cast<uint64_t>(global_id)) + GOLDEN);
  return static_cast<double>((word >> 11) + 1) * UNIT;
}

double time_of(double u, uint64_t mass, Race race) {
  if (mass == 0) return std::numeric_limits<double>::infinity();
  return (race == Race::priority ? u : -std::log(u)) / static_cast<double>(mass);
}

/// 1 over the chance that a candidate wins, given the time of the first that loses.
float scale_of(uint64_t mass, double tau, Race race) {
  if (mass == 0 || std::isinf(tau)) return 1.0f;
  const double expected = static_cast<double>(mass) * tau;
  const double chance = race == Race::priority ? std::min(1.0, expected) : -std::expm1(-expected);
  return static_cast<float>(1.0 / chance);
}

}  // namespace

void run_race(Candidates& candidates, int64_t size, uint64_t hop_prefix, Race race) {
  const size_t all = candidates.size();
  const auto wanted = static_cast<size_t>(size);
  candidates.scales.resize(all);
  if (all <= wanted) {
    std::fill(candidates.scales.begin(), candidates.scales.end(), 1.0f);
    return;
  }
  candidates.times.resize(all);
  for (size_t i = 0; i < all; ++i)
    candidates.times[i] = time_of(uniform(hop_prefix, candidates.global_ids[i]), candidates.masses[i], race);
  candidates.ranked = candidates.times;
  std::nth_element(candidates.ranked.begin(), candidates.ranked.begin() + size, candidates.ranked.end());
  const double tau = candidates.ranked[wanted];
  size_t winners = 0;
  for (size_t i = 0; i < all; ++i) {
    const bool wins = candidates.times[i] < tau;
    winners += wins;
    candidates.scales[i] = wins ? scale_of(candidates.masses[i], tau, race) : 0.0f;
  }
  if (winners == wanted) return;
  // Some are as late as the first that loses: of these the lower global ids win.
  std::vector<size_t> tied;
  for (size_t i = 0; i < all; ++i)
    if (candidates.times[i] == tau) tied.push_back(i);
  std::sort(tied.begin(), tied.end(),
            [&](size_t a, size_t b) { return candidates.global_ids[a] < candidates.global_ids[b]; });
  for (size_t i = 0; winners < wanted; ++i, ++winners)
    candidates.scales[tied[i]] = scale_of(candidates.masses[tied[i]], tau, race);
}

}  // namespace gsplit
