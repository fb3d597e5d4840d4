#include "shuffle.hpp"

#include <algorithm>
#include <stdexcept>

#include "memory.hpp"
#include "random.hpp"

namespace gsplit {
namespace {

constexpr int BUCKET_BITS = 10;  // whose counts stay in the first cache level
constexpr int64_t BLOCK = 1024;  // vertices whose places are found before they are put there

uint16_t bucket_of(uint64_t hash) { return static_cast<uint16_t>(hash >> (64 - BUCKET_BITS)); }

/// The bucket of each vertex. Its products of 64 bits are made four at a time where the cores can.
#if defined(__x86_64__)
[[gnu::target_clones("avx2", "default")]]
#endif
void put_buckets(const int64_t* global_ids, int64_t n, uint64_t key, uint16_t* buckets) {
  for (int64_t v = 0; v < n; ++v) buckets[v] = bucket_of(fold_word(key, static_cast<uint64_t>(global_ids[v])));
}

}  // namespace

Array<int64_t> shuffled_runs(std::span<const int64_t> global_ids, uint64_t key, std::span<const int64_t> bounds) {
  const auto n = static_cast<int64_t>(global_ids.size());
  if (bounds.size() < 2 || bounds.front() != 0 || bounds.back() != n || !std::is_sorted(bounds.begin(), bounds.end()))
    throw std::invalid_argument("bounds must ascend from 0 to the number of vertices");
  const auto hash_of = [&](int64_t v) { return fold_word(key, static_cast<uint64_t>(global_ids[v])); };
  Array<uint16_t> buckets(n);  // of the vertices: a fourth of what their hashes would take, which few are asked for
  std::vector<int64_t> ends(size_t{1} << BUCKET_BITS, 0);  // of each bucket, in the order of the hashes
  put_buckets(global_ids.data(), n, key, buckets.data());
  for (const uint16_t bucket : buckets) ++ends[bucket];
  for (size_t b = 1; b < ends.size(); ++b) ends[b] += ends[b - 1];

  if (n == 0) return {};

  // The buckets that cuts fall into, and their hashes.
  size_t runs = bounds.size() - 1;
  while (runs > 1 && bounds[runs - 1] == n) --runs;  // those behind have no vertices
  std::vector<int32_t> searched(ends.size(), -1);
  std::vector<std::vector<uint64_t>> in_bucket;
  std::vector<size_t> bucket_of_cut;
  for (size_t cut = 1; cut < runs; ++cut) {
    const size_t bucket = std::upper_bound(ends.begin(), ends.end(), bounds[cut]) - ends.begin();
    bucket_of_cut.push_back(bucket);
    if (searched[bucket] >= 0) continue;
    searched[bucket] = static_cast<int32_t>(in_bucket.size());
    in_bucket.emplace_back();
  }
  for (int64_t v = 0; v < n; ++v)
    if (const int32_t at = searched[buckets[v]]; at >= 0) [[unlikely]]
      in_bucket[at].push_back(hash_of(v));
  for (auto& some : in_bucket) std::sort(some.begin(), some.end());

  // The hash that each run begins at, and the first run of each bucket.
  std::vector<uint64_t> first_hash{0};
  for (size_t cut = 1; cut < runs; ++cut) {
    const size_t bucket = bucket_of_cut[cut - 1];
    const int64_t before = bucket == 0 ? 0 : ends[bucket - 1];
    first_hash.push_back(in_bucket[searched[bucket]][bounds[cut] - before]);
  }
  std::vector<int32_t> run_of(ends.size());  // -1 - run where a later run begins in the bucket
  for (size_t b = 0, run = 0; b < ends.size(); ++b) {
    while (run + 1 < runs && first_hash[run + 1] <= uint64_t{b} << (64 - BUCKET_BITS)) ++run;
    run_of[b] = static_cast<int32_t>(searched[b] >= 0 ? -1 - static_cast<int64_t>(run) : run);
  }

  std::vector<int64_t> next(bounds.begin(), bounds.end() - 1);
  Array<int64_t> out(n);
  const auto last = static_cast<int64_t>(runs);
  // Places first, then what is put there: a place that is read while one that depends on it is not written yet waits.
  int64_t places[BLOCK];
  for (int64_t first = 0; first < n; first += BLOCK) {
    const int64_t end = std::min(n, first + BLOCK);
    for (int64_t v = first; v < end; ++v) {
      int64_t run = run_of[buckets[v]];
      if (run < 0) [[unlikely]] {
        run = -1 - run;
        for (const uint64_t hash = hash_of(v); run + 1 < last && first_hash[run + 1] <= hash;) ++run;
      }
      const int64_t place = next[run]++;
      if (place == bounds[run + 1]) throw std::invalid_argument("global ids are not distinct");
      places[v - first] = place;
    }
    for (int64_t v = first; v < end; ++v) out[places[v - first]] = v;
  }
  return out;
}

}  // namespace gsplit
