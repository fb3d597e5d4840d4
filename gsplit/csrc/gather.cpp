#include "gather.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace gsplit {
namespace {

constexpr int64_t LOOK_AHEAD = 8;              // rows fetched early: a row is a cache miss or several
constexpr int64_t MIN_THREAD_BYTES = 1 << 18;  // below this a thread costs more than it saves

void check_range(const char* what, std::span<const int64_t> values, int64_t end) {
  for (int64_t value : values)
    if (value < 0 || value >= end)
      throw std::invalid_argument(std::string(what) + " " + std::to_string(value) + " is outside 0 .. " +
                                  std::to_string(end - 1));
}

/// Copies to place(0), place(1), ... of `out`.
template <class Place>
void gather_range(const uint8_t* rows, int64_t row_bytes, std::span<const int64_t> ids, uint8_t* out, Place place) {
  const auto count = static_cast<int64_t>(ids.size());
  for (int64_t i = 0; i < count; ++i) {
    if (i + LOOK_AHEAD < count) {
      const uint8_t* ahead = rows + ids[i + LOOK_AHEAD] * row_bytes;
      for (int64_t b = 0; b < std::min<int64_t>(row_bytes, 512); b += 64) __builtin_prefetch(ahead + b);
    }
    std::memcpy(out + place(i) * row_bytes, rows + ids[i] * row_bytes, row_bytes);
  }
}

struct Found {
  int64_t row, place;
};

/// Sorts ids by the place that find(id) says, of counts.size(), in two passes; see find_rows.
template <class Find>
void sort_by_place(std::span<const int64_t> ids, std::span<int64_t> rows, std::span<int64_t> positions,
                   std::span<int64_t> counts, Find find) {
  std::ranges::fill(counts, 0);
  for (const int64_t id : ids) ++counts[find(id).place];
  std::vector<int64_t> next(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), next.begin(), int64_t{0});
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto [row, place] = find(ids[i]);
    rows[next[place]] = row;
    positions[next[place]++] = static_cast<int64_t>(i);
  }
}

}  // namespace

void find_rows(std::span<const int64_t> ids, std::span<const Range> ranges, std::span<int64_t> rows,
               std::span<int64_t> positions, std::span<int64_t> counts) {
  const auto nowhere = static_cast<int64_t>(counts.size()) - 1;
  const Range nothing{0, 0, 0, nowhere};
  if (ranges.empty()) ranges = {&nothing, 1};
  sort_by_place(ids, rows, positions, counts, [=](int64_t id) {
    // Without branches: whether a row is cached cannot be foretold.
    const Range* range = ranges.data();
    for (size_t left = ranges.size(); left > 1; left -= left / 2) range += range[left / 2].begin <= id ? left / 2 : 0;
    const int64_t inside =
        static_cast<uint64_t>(id - range->begin) < static_cast<uint64_t>(range->end - range->begin);
    return Found{id + inside * (range->first - range->begin), nowhere + inside * (range->place - nowhere)};
  });
}

int64_t find_rows(std::span<const int64_t> ids, std::span<const int32_t> table, std::span<int64_t> rows,
                  std::span<int64_t> positions) {
  check_range("row", ids, static_cast<int64_t>(table.size()));
  std::array<int64_t, 2> counts;
  sort_by_place(ids, rows, positions, counts,
                [=](int64_t id) { return table[id] < 0 ? Found{id, 1} : Found{table[id], 0}; });
  return counts[0];
}

void gather_rows(const uint8_t* rows, int64_t num_rows, int64_t row_bytes, std::span<const int64_t> ids, uint8_t* out,
                 int64_t out_rows, std::span<const int64_t> positions, int threads) {
  check_range("row", ids, num_rows);
  check_range("position", positions, out_rows);
  const auto count = static_cast<int64_t>(ids.size());
  const int64_t useful = std::max<int64_t>(1, count * row_bytes / MIN_THREAD_BYTES);
  const int64_t workers = std::clamp<int64_t>(threads, 1, useful);
  const auto work = [=](int64_t worker) {
    const int64_t begin = count * worker / workers;
    const auto own = ids.subspan(begin, count * (worker + 1) / workers - begin);
    if (positions.empty()) gather_range(rows, row_bytes, own, out, [=](int64_t i) { return begin + i; });
    else gather_range(rows, row_bytes, own, out, [=](int64_t i) { return positions[begin + i]; });
  };
  std::vector<std::jthread> pool;
  for (int64_t w = 1; w < workers; ++w) pool.emplace_back(work, w);
  work(0);
}

}  // namespace gsplit
