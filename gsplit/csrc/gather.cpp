#include "gather.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace gsplit {
namespace {

constexpr int64_t LOOK_AHEAD = 8;           // rows fetched early: a row is a cache miss or several
constexpr int64_t MIN_THREAD_BYTES = 1 << 18;  // below this a thread costs more than it saves

void gather_range(const uint8_t* rows, int64_t row_bytes, std::span<const int64_t> ids, uint8_t* out) {
  const auto count = static_cast<int64_t>(ids.size());
  for (int64_t i = 0; i < count; ++i) {
    if (i + LOOK_AHEAD < count) {
      const uint8_t* ahead = rows + ids[i + LOOK_AHEAD] * row_bytes;
      for (int64_t b = 0; b < std::min<int64_t>(row_bytes, 512); b += 64) __builtin_prefetch(ahead + b);
    }
    std::memcpy(out + i * row_bytes, rows + ids[i] * row_bytes, row_bytes);
  }
}

}  // namespace

void gather_rows(const uint8_t* rows, int64_t num_rows, int64_t row_bytes, std::span<const int64_t> ids,
                 uint8_t* out, int threads) {
  for (int64_t id : ids)
    if (id < 0 || id >= num_rows)
      throw std::invalid_argument("row " + std::to_string(id) + " is outside 0 .. " + std::to_string(num_rows - 1));
  const auto count = static_cast<int64_t>(ids.size());
  const int64_t useful = std::max<int64_t>(1, count * row_bytes / MIN_THREAD_BYTES);
  const int64_t workers = std::clamp<int64_t>(threads, 1, useful);
  std::vector<std::jthread> pool;
  for (int64_t w = 1; w < workers; ++w) {
    const int64_t begin = count * w / workers;
    const int64_t end = count * (w + 1) / workers;
    pool.emplace_back(gather_range, rows, row_bytes, ids.subspan(begin, end - begin), out + begin * row_bytes);
  }
  gather_range(rows, row_bytes, ids.first(count / workers), out);
}

}  // namespace gsplit
