#include "shuffle.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "memory.hpp"
#include "random.hpp"

namespace gsplit {
namespace {

constexpr int BUCKET_BITS = 11;  // whose counts stay in the first cache level
constexpr int64_t AT_ONCE = 8;   // vertices that one question is asked for: does a cut fall into a bucket of theirs?
constexpr int64_t BLOCK = 1024;  // vertices whose places are found before they are put there

uint64_t lowest_hash(size_t bucket) { return uint64_t{bucket} << (64 - BUCKET_BITS); }

/// The bucket of each vertex. Its products of 64 bits are made four at a time where the cores can.
#if defined(__x86_64__)
[[gnu::target_clones("avx2", "default")]]
#endif
void put_buckets(const int64_t* global_ids, int64_t n, uint64_t key, uint16_t* buckets) {
  for (int64_t v = 0; v < n; ++v)
    buckets[v] = static_cast<uint16_t>(fold_word(key, static_cast<uint64_t>(global_ids[v])) >> (64 - BUCKET_BITS));
}

/// Number of vertices up to the end of each bucket, in the order of the hashes.
std::vector<int64_t> ends_of(const Array<uint16_t>& buckets) {
  std::vector<uint32_t> counts(size_t{1} << BUCKET_BITS, 0);
  for (const uint16_t bucket : buckets) ++counts[bucket];
  std::vector<int64_t> ends(counts.size());
  int64_t end = 0;
  for (size_t b = 0; b < counts.size(); ++b) ends[b] = end += counts[b];
  return ends;
}

/// The hash that each of the first `runs` runs begins at. cut: [2**BUCKET_BITS] is set for buckets that a run begins
/// in, and vertices of them have to be looked at one by one.
template <class HashOf>
std::vector<uint64_t> first_hashes(std::span<const int64_t> bounds, size_t runs, const Array<uint16_t>& buckets,
                                   const HashOf& hash_of, std::vector<uint8_t>& cut) {
  const std::vector<int64_t> ends = ends_of(buckets);
  std::vector<size_t> bucket_of_run{0};
  for (size_t run = 1; run < runs; ++run) {
    bucket_of_run.push_back(std::upper_bound(ends.begin(), ends.end(), bounds[run]) - ends.begin());
    cut[bucket_of_run.back()] = 1;
  }
  std::vector<std::vector<uint64_t>> hashes(ends.size());  // of the buckets that are cut
  const auto n = static_cast<int64_t>(buckets.size());
  for (int64_t first = 0; first < n; first += AT_ONCE) {
    const int64_t end = std::min(n, first + AT_ONCE);
    uint8_t any = 0;
    for (int64_t v = first; v < end; ++v) any |= cut[buckets[v]];
    if (any == 0) [[likely]]
      continue;
    for (int64_t v = first; v < end; ++v)
      if (cut[buckets[v]]) hashes[buckets[v]].push_back(hash_of(v));
  }
  for (auto& some : hashes) std::sort(some.begin(), some.end());

  std::vector<uint64_t> first_hash{0};
  for (size_t run = 1; run < runs; ++run) {
    const size_t bucket = bucket_of_run[run];
    const int64_t at = bounds[run] - (bucket == 0 ? 0 : ends[bucket - 1]);
    first_hash.push_back(hashes[bucket][at]);
    if (at > 0 && hashes[bucket][at - 1] == first_hash.back())
      throw std::invalid_argument("global ids are not distinct");
  }
  return first_hash;
}

}  // namespace

void shuffle_into_runs(std::span<const int64_t> global_ids, uint64_t key, std::span<const int64_t> bounds,
                       std::span<int64_t> order) {
  const auto n = static_cast<int64_t>(global_ids.size());
  if (bounds.size() < 2 || bounds.front() != 0 || bounds.back() != n || !std::is_sorted(bounds.begin(), bounds.end()))
    throw std::invalid_argument("bounds must ascend from 0 to the number of vertices");
  if (order.size() != global_ids.size()) throw std::invalid_argument("order must have an element for each vertex");
  if (n == 0) return;
  size_t runs = bounds.size() - 1;
  while (runs > 1 && bounds[runs - 1] == n) --runs;  // those behind have no vertices

  const auto hash_of = [&](int64_t v) { return fold_word(key, static_cast<uint64_t>(global_ids[v])); };
  Array<uint16_t> buckets(n);  // of the vertices: a fourth of what their hashes would take, which few are asked for
  put_buckets(global_ids.data(), n, key, buckets.data());
  std::vector<uint8_t> cut(size_t{1} << BUCKET_BITS, 0);
  const std::vector<uint64_t> first_hash = first_hashes(bounds, runs, buckets, hash_of, cut);

  std::vector<int32_t> run_of(cut.size());  // the run of each bucket; -1 - run where a later run begins in it
  for (size_t b = 0, run = 0; b < cut.size(); ++b) {
    while (run + 1 < runs && first_hash[run + 1] <= lowest_hash(b)) ++run;
    run_of[b] = static_cast<int32_t>(cut[b] ? -1 - static_cast<int64_t>(run) : run);
  }
  std::vector<int64_t*> next;  // place of each run
  for (size_t run = 0; run < runs; ++run) next.push_back(order.data() + bounds[run]);
  // Places first, then what is put there: a place that is read while one that depends on it is not written yet waits.
  int64_t* places[BLOCK];
  for (int64_t first = 0; first < n; first += BLOCK) {
    const int64_t end = std::min(n, first + BLOCK);
    for (int64_t v = first; v < end; ++v) {
      int64_t run = run_of[buckets[v]];
      if (run < 0) [[unlikely]] {
        run = -1 - run;
        for (const uint64_t hash = hash_of(v); run + 1 < static_cast<int64_t>(runs) && first_hash[run + 1] <= hash;)
          ++run;
      }
      places[v - first] = next[run]++;
    }
    for (int64_t v = first; v < end; ++v) *places[v - first] = v;
  }
}

}  // namespace gsplit
