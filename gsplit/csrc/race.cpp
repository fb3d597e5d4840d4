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

/// The times of all; infinite for a mass of 0. One loop for each race, without a branch.
void put_times(Candidates& candidates, uint64_t hop_prefix, Race race) {
  const size_t all = candidates.size();
  candidates.times.resize(all);
  const int64_t* ids = candidates.global_ids.data();
  const uint64_t* masses = candidates.masses.data();
  double* times = candidates.times.data();
  for (size_t i = 0; i < all; ++i) times[i] = uniform(hop_prefix, ids[i]);
  if (race == Race::exponential)
    for (size_t i = 0; i < all; ++i) times[i] = -std::log(times[i]);
  for (size_t i = 0; i < all; ++i)
    times[i] = masses[i] == 0 ? std::numeric_limits<double>::infinity() : times[i] / static_cast<double>(masses[i]);
}

/// 1 over the chance that a candidate wins, given the time of the first that loses.
float scale_of(uint64_t mass, double tau, Race race) {
  if (mass == 0 || std::isinf(tau)) return 1.0f;
  const double expected = static_cast<double>(mass) * tau;
  const double chance = race == Race::priority ? std::min(1.0, expected) : -std::expm1(-expected);
  return static_cast<float>(1.0 / chance);
}

constexpr size_t SAMPLE = 256;

/// The time of which `rank` candidates are earlier, but for equal ones. Few of many are wanted, mostly: a sample of
/// the times says below which bound they are likely to be, and only those below it are searched.
double nth_time(Candidates& candidates, size_t rank) {
  const Array<double>& times = candidates.times;
  Array<double>& ranked = candidates.ranked;
  const size_t all = times.size();
  double bound = std::numeric_limits<double>::infinity();
  if (all > 8 * SAMPLE && rank < all / 4) {
    ranked.clear();
    for (size_t i = 0; i < SAMPLE; ++i) ranked.push_back(times[i * (all / SAMPLE)]);
    const size_t place = std::min(SAMPLE - 1, 2 * rank * SAMPLE / all + 8);  // so many below it, and a margin
    std::nth_element(ranked.begin(), ranked.begin() + place, ranked.end());
    bound = ranked[place];
  }
  ranked.resize(all);
  size_t below = 0;
  for (size_t i = 0; i < all; ++i) {
    ranked[below] = times[i];
    below += times[i] < bound;
  }
  ranked.resize(below);
  if (below <= rank) ranked = times;  // the sample was unlucky, or many are equal
  std::nth_element(ranked.begin(), ranked.begin() + rank, ranked.end());
  return ranked[rank];
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
  put_times(candidates, hop_prefix, race);
  const double tau = nth_time(candidates, wanted);
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
