#include "gather.hpp"

#include <algorithm>
#include <cstring>
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

}  // namespace

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
