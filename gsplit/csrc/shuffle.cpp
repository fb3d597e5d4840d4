#include "shuffle.hpp"

#include <algorithm>
#include <stdexcept>

#include "memory.hpp"
#include "random.hpp"

namespace gsplit {
namespace {

constexpr int BUCKET_BITS = 12;

size_t bucket_of(uint64_t hash) { return hash >> (64 - BUCKET_BITS); }

}  // namespace

std::vector<int64_t> shuffled_runs(std::span<const int64_t> global_ids, uint64_t key,
                                   std::span<const int64_t> bounds) {
  const auto n = static_cast<int64_t>(global_ids.size());
  if (bounds.size() < 2 || bounds.front() != 0 || bounds.back() != n || !std::is_sorted(bounds.begin(), bounds.end()))
    throw std::invalid_argument("bounds must ascend from 0 to the number of vertices");
  Array<uint64_t> hashes(n);
  std::vector<int64_t> ends(size_t{1} << BUCKET_BITS, 0);  // of each bucket, in the order of the hashes
  for (int64_t v = 0; v < n; ++v) {
    hashes[v] = fold_word(key, static_cast<uint64_t>(global_ids[v]));
    ++ends[bucket_of(hashes[v])];
  }
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
  for (const uint64_t hash : hashes)
    if (const int32_t at = searched[bucket_of(hash)]; at >= 0) in_bucket[at].push_back(hash);
  for (auto& some : in_bucket) std::sort(some.begin(), some.end());

  // The hash that each run begins at, and the first run of each bucket.
  std::vector<uint64_t> first_hash{0};
  for (size_t cut = 1; cut < runs; ++cut) {
    const size_t bucket = bucket_of_cut[cut - 1];
    const int64_t before = bucket == 0 ? 0 : ends[bucket - 1];
    first_hash.push_back(in_bucket[searched[bucket]][bounds[cut] - before]);
  }
  std::vector<int32_t> run_of(ends.size());
  for (size_t b = 0, run = 0; b < ends.size(); ++b) {
    while (run + 1 < runs && first_hash[run + 1] <= uint64_t{b} << (64 - BUCKET_BITS)) ++run;
    run_of[b] = static_cast<int32_t>(run);
  }

  std::vector<int64_t> next(bounds.begin(), bounds.end() - 1), out(n);
  for (int64_t v = 0; v < n; ++v) {
    const size_t bucket = bucket_of(hashes[v]);
    auto run = static_cast<size_t>(run_of[bucket]);
    if (searched[bucket] >= 0)
      while (run + 1 < runs && first_hash[run + 1] <= hashes[v]) ++run;
    if (next[run] == bounds[run + 1]) throw std::invalid_argument("global ids are not distinct");
    out[next[run]++] = v;
  }
  return out;
}

}  // namespace gsplit
