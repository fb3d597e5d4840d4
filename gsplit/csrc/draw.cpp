#include "draw.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

namespace gsplit {
namespace {

constexpr int64_t LINE_BYTES = 64;
constexpr int64_t FETCH_BYTES = 512;  // neighbours that are fetched whole, before it is known which are drawn
constexpr int64_t LATE_DRAWS = 2048;  // that wait for their neighbours; more would not stay in the cache

void prefetch(const void* address) { __builtin_prefetch(address); }

}  // namespace

/// First sweep: how many neighbours there are and how many will be drawn; fetches the neighbours.
template <class Index>
void Drawer<Index>::look_up(int64_t vertex, int64_t fan_out, uint64_t hop_prefix, Destination& destination) const {
  const int64_t begin = graph_.indptr[vertex];
  const int64_t degree = graph_.indptr[vertex + 1] - begin;
  if (degree > std::numeric_limits<int32_t>::max())
    throw std::invalid_argument("vertex " + std::to_string(vertex) + " has 2^31 or more neighbours");
  destination.neighbours = graph_.indices.data() + begin;
  destination.degree = degree;
  destination.count = static_cast<int32_t>(fan_out < 0 ? degree : std::min(degree, fan_out));
  const uint64_t global_id = graph_.global_ids.empty() ? vertex : graph_.global_ids[vertex];
  destination.state = fold_word(hop_prefix, global_id);
  const auto* bytes = reinterpret_cast<const char*>(destination.neighbours);
  const auto length = static_cast<int64_t>(degree * sizeof(Index));
  if (length <= FETCH_BYTES || destination.count == degree)
    for (int64_t b = 0; b < std::min(length, FETCH_BYTES); b += LINE_BYTES) prefetch(bytes + b);
}

template <class Index>
void Drawer<Index>::read(const Destination& destination, const uint32_t* draws, bool positions,
                         Drawn<Index>& drawn) const {
  Index* out = drawn.neighbours.data() + destination.at;
  for (int32_t i = 0; i < destination.count; ++i) out[i] = destination.neighbours[draws[i]];
  if (!positions) return;
  const int64_t begin = destination.neighbours - graph_.indices.data();
  int64_t* ids = drawn.positions.data() + destination.at;
  for (int32_t i = 0; i < destination.count; ++i) ids[i] = begin + draws[i];
}

template <class Index>
void Drawer<Index>::read_all(const Destination& destination, bool positions, Drawn<Index>& drawn) const {
  std::copy_n(destination.neighbours, destination.count, drawn.neighbours.data() + destination.at);
  if (!positions) return;
  int64_t* ids = drawn.positions.data() + destination.at;
  std::iota(ids, ids + destination.count, destination.neighbours - graph_.indices.data());
}

template <class Index>
void Drawer<Index>::draw(const Run& run, std::span<const int64_t> destinations, int64_t fan_out,
                         uint64_t hop_prefix, bool positions, Drawn<Index>& drawn) {
  drawn.run = run;
  drawn.counts.resize(run.last_row - run.first_row);
  drawn.neighbours.clear();
  drawn.positions.clear();
  const auto num_destinations = static_cast<int64_t>(destinations.size());
  Destination batch[BATCH];
  int64_t late[BATCH];
  const int64_t stride = fan_out + 1;  // a place more than draws, for the chooser
  int64_t total = 0;
  for (int64_t row = run.first_row; row < run.last_row; row += BATCH) {
    const int64_t size = std::min(BATCH, run.last_row - row);
    for (int64_t i = 0; i < size; ++i) {
      if (row + i + BATCH < num_destinations) {
        const int64_t ahead = destinations[row + i + BATCH];
        prefetch(&graph_.indptr[ahead]);
        prefetch(&graph_.indptr[ahead + 1]);
        if (!graph_.global_ids.empty()) prefetch(&graph_.global_ids[ahead]);
      }
      look_up(destinations[row + i], fan_out, hop_prefix, batch[i]);
      batch[i].at = total;
      total += batch[i].count;
      drawn.counts[row - run.first_row + i] = batch[i].count;
    }
    drawn.neighbours.resize(total);
    if (positions) drawn.positions.resize(total);
    int64_t num_late = 0;
    const auto read_late = [&] {
      for (int64_t j = 0; j < num_late; ++j) read(batch[late[j]], draws_.data() + stride * j, positions, drawn);
      num_late = 0;
    };
    for (int64_t i = 0; i < size; ++i) {
      const Destination& destination = batch[i];
      if (destination.count == destination.degree) {
        read_all(destination, positions, drawn);
        continue;
      }
      if ((num_late + 1) * stride > LATE_DRAWS) read_late();
      draws_.resize(std::max(LATE_DRAWS, stride));
      uint32_t* draws = draws_.data() + stride * num_late;
      chooser_.choose(destination.state, static_cast<uint32_t>(destination.degree),
                      static_cast<uint32_t>(destination.count), draws);
      if (destination.degree * static_cast<int64_t>(sizeof(Index)) <= FETCH_BYTES) {
        read(destination, draws, positions, drawn);
      } else {
        for (int32_t j = 0; j < destination.count; ++j) prefetch(destination.neighbours + draws[j]);
        late[num_late++] = i;
      }
    }
    read_late();
  }
}

template class Drawer<int32_t>;
template class Drawer<int64_t>;

}  // namespace gsplit
