#include "draw.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "exclude.hpp"

namespace gsplit {
namespace {

constexpr int64_t LINE_BYTES = 64;
constexpr int64_t FETCH_BYTES = 512;  // neighbours that are fetched whole, before it is known which are drawn
constexpr int32_t FETCH_DRAWS = 64;

/// Always inlined, and what only fetches as well: the compiler takes such a function for one that does nothing.
[[gnu::always_inline]] inline void prefetch(const void* address) { __builtin_prefetch(address); }

}  // namespace

/// How many neighbours there are and how many will be drawn; fetches the neighbours.
template <class Index>
template <bool EXCLUDES>
void Drawer<Index>::look_up(int64_t vertex, int64_t fan_out, uint64_t hop_prefix, const Exclusions<Index>* exclusions,
                            Destination& destination) {
  const int64_t begin = graph_.indptr[vertex];
  const int64_t degree = graph_.indptr[vertex + 1] - begin;
  if (degree > std::numeric_limits<int32_t>::max()) refuse_degree(vertex);
  destination.neighbours = graph_.indices.data() + begin;
  destination.degree = degree;
  destination.count = static_cast<int32_t>(fan_out < 0 ? degree : std::min(degree, fan_out));
  const uint64_t global_id = graph_.global_ids.empty() ? vertex : graph_.global_ids[vertex];
  destination.state = fold_word(hop_prefix, global_id);
  destination.chosen = false;
  if constexpr (EXCLUDES)
    if (exclusions->has(vertex)) return choose_around(exclusions->of(vertex), fan_out, destination);
  const auto length = static_cast<int64_t>(degree * sizeof(Index));
  if (length <= FETCH_BYTES || destination.count == degree) {
    const auto* bytes = reinterpret_cast<const char*>(destination.neighbours);
    const int64_t last = std::max<int64_t>(length - 1, 0);
    prefetch(bytes);  // most end within these three; where a loop ends would be guessed wrong
    prefetch(bytes + std::min(LINE_BYTES, last));
    prefetch(bytes + std::min(2 * LINE_BYTES, last));
    for (int64_t b = 3 * LINE_BYTES; b < std::min(length, FETCH_BYTES); b += LINE_BYTES) prefetch(bytes + b);
  } else {
    choose(destination);
    for (int32_t i = 0; i < destination.count; ++i) prefetch(destination.neighbours + destination.draws[i]);
  }
}

/// Makes the draws.
template <class Index>
void Drawer<Index>::choose(Destination& destination) {
  if (destination.draws.size() <= static_cast<size_t>(destination.count))
    destination.draws.resize(destination.count + 1);
  chooser_.choose(destination.state, static_cast<uint32_t>(destination.degree),
                  static_cast<uint32_t>(destination.count), destination.draws.data());
  destination.chosen = true;
}

/// Makes the draws from among the in-edges that are not excluded, or takes them all, and fetches the neighbours; what
/// `before` is, exclude.hpp says. Fewer are drawn than there are neighbours, so read() goes by the draws.
template <class Index>
void Drawer<Index>::choose_around(std::span<const uint32_t> before, int64_t fan_out, Destination& destination) {
  const auto excluded = static_cast<int32_t>(before.size());
  const int64_t degree = destination.degree, left = degree - excluded;
  const auto count = static_cast<int32_t>(fan_out < 0 ? left : std::min(left, fan_out));
  destination.count = count;
  if (count == left) {
    destination.draws.resize(count + 1);
    uint32_t* to = destination.draws.data();
    for (int32_t r = 0, j = 0; r <= excluded; ++r)
      for (const auto end = static_cast<int32_t>(r < excluded ? before[r] : left); j < end; ++j) *to++ = j + r;
    destination.chosen = true;
  } else {
    destination.degree = left;
    choose(destination);
    destination.degree = degree;
    uint32_t* draws = destination.draws.data();
    for (int32_t r = 0; r < excluded; ++r) {
      const auto position = static_cast<int32_t>(before[r]) + r;  // what comes at it or behind moves on by one
      for (int32_t i = 0; i < count; ++i) draws[i] += static_cast<int32_t>(draws[i]) >= position;
    }
  }
  for (int32_t i = 0; i < std::min(count, FETCH_DRAWS); ++i) prefetch(destination.neighbours + destination.draws[i]);
}

/// Writes the neighbours drawn to the output, from place `at` on.
template <class Index>
void Drawer<Index>::read(Destination& destination, bool positions, int64_t at, Drawn<Index>& drawn) {
  const int32_t count = destination.count;
  Index* out = drawn.neighbours.data() + at;
  int64_t* ids = positions ? drawn.positions.data() + at : nullptr;
  const int64_t begin = destination.neighbours - graph_.indices.data();
  if (count == destination.degree) {
    std::copy_n(destination.neighbours, count, out);
    if (positions) std::iota(ids, ids + count, begin);
    return;
  }
  if (!destination.chosen) choose(destination);
  const uint32_t* draws = destination.draws.data();
  for (int32_t i = 0; i < count; ++i) out[i] = destination.neighbours[draws[i]];
  if (positions)
    for (int32_t i = 0; i < count; ++i) ids[i] = begin + draws[i];
}

template <class Index>
template <bool EXCLUDES>
void Drawer<Index>::draw_rows(const Run& run, std::span<const int64_t> destinations, int64_t fan_out,
                              uint64_t hop_prefix, const Exclusions<Index>* exclusions, bool positions,
                              Drawn<Index>& drawn) {
  drawn.run = run;
  drawn.counts.resize(run.last_row - run.first_row);
  drawn.neighbours.clear();
  drawn.positions.clear();
  const auto num_destinations = static_cast<int64_t>(destinations.size());
  const auto fetch_row = [&](int64_t row) __attribute__((always_inline)) {
    if (row >= num_destinations) return;  // rows of the next run are fetched too
    prefetch(&graph_.indptr[destinations[row]]);
    if (!graph_.global_ids.empty()) prefetch(&graph_.global_ids[destinations[row]]);
  };
  const auto look_up_row = [&](int64_t row) {
    if (row < run.last_row) look_up<EXCLUDES>(destinations[row], fan_out, hop_prefix, exclusions, ring_[row % RING]);
  };
  for (int64_t row = run.first_row; row < run.first_row + 2 * BURST; ++row) fetch_row(row);
  for (int64_t row = run.first_row; row < run.first_row + BURST; ++row) look_up_row(row);
  int64_t total = 0;
  for (int64_t first = run.first_row; first < run.last_row; first += BURST) {
    for (int64_t row = first; row < first + BURST; ++row) fetch_row(row + 2 * BURST);
    for (int64_t row = first; row < first + BURST; ++row) look_up_row(row + BURST);
    const int64_t last = std::min(first + BURST, run.last_row);
    const int64_t begin = total;
    for (int64_t row = first; row < last; ++row) {
      drawn.counts[row - run.first_row] = ring_[row % RING].count;
      total += ring_[row % RING].count;
    }
    drawn.neighbours.resize(total);
    if (positions) drawn.positions.resize(total);
    int64_t at = begin;
    for (int64_t row = first; row < last; ++row) {
      read(ring_[row % RING], positions, at, drawn);
      at += ring_[row % RING].count;
    }
  }
}

template <class Index>
void Drawer<Index>::refuse_degree(int64_t vertex) const {
  const Relation<Index>& relation = typed_->relations[relation_];
  throw std::invalid_argument(vertex_named(vertex, typed_->types[relation.destination]) +
                              " has 2^31 or more neighbours" +
                              (relation.name.empty() ? "" : " by relation " + relation.name));
}

template <class Index>
void Drawer<Index>::draw(const Run& run, std::span<const int64_t> destinations, int64_t fan_out, uint64_t hop_prefix,
                         const Exclusions<Index>* exclusions, bool positions, Drawn<Index>& drawn) {
  relation_ = run.relation;
  graph_ = typed_->relations[relation_].graph;
  if (exclusions == nullptr) draw_rows<false>(run, destinations, fan_out, hop_prefix, nullptr, positions, drawn);
  else draw_rows<true>(run, destinations, fan_out, hop_prefix, exclusions, positions, drawn);
}

template class Drawer<int32_t>;
template class Drawer<int64_t>;

}  // namespace gsplit
