// A set of vertices, and the in-edges whose sources are in it.
//
// One bit a vertex: of a graph of millions the bits lie in the second cache level, and a test takes two to three
// nanoseconds, whatever the size of the set. They are cleared by the set that was there before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "memory.hpp"
#include "selection.hpp"

namespace gsplit {

template <class Index>
class Inside final : public Selection<Index> {
 public:
  explicit Inside(GraphView<Index> graph) : graph_(graph), bits_((graph.indptr.size() + BITS - 2) / BITS, 0) {}

  /// Forgets the set that was there before. vertices: distinct layout ids. scales: of the same, or empty, where every
  /// edge counts `scale`. Throws std::invalid_argument for a vertex that there is not.
  void start(std::span<const int64_t> vertices, std::span<const float> scales, float scale) {
    for (const auto& [vertex, _] : set_) bits_[vertex / BITS] = 0;
    set_.clear();
    set_.reserve(vertices.size());
    const auto n = static_cast<int64_t>(graph_.indptr.size()) - 1;
    if (!scales.empty() && scales.size() != vertices.size())
      throw std::invalid_argument("there must be one scale for each vertex of the set");
    for (size_t i = 0; i < vertices.size(); ++i) {
      const int64_t vertex = vertices[i];
      if (vertex < 0 || vertex >= n)
        throw std::invalid_argument("vertex " + std::to_string(vertex) + " is not there; there are " +
                                    std::to_string(n));
      set_.push_back({vertex, scales.empty() ? scale : scales[i]});
      bits_[vertex / BITS] |= uint32_t{1} << (vertex % BITS);
    }
    if (!scales.empty()) std::sort(set_.begin(), set_.end());
    scale_ = scale;
    same_ = scales.empty();
  }

  void keep(const Run& run, std::span<const int64_t> destinations, bool positions, Drawn<Index>& kept) override {
    kept.run = run;
    kept.counts.resize(run.last_row - run.first_row);
    kept.neighbours.clear();
    kept.positions.clear();
    size_t out = 0;
    for (int64_t row = run.first_row; row < run.last_row; ++row) {
      fetch(destinations, row);
      const int64_t begin = graph_.indptr[destinations[row]], end = graph_.indptr[destinations[row] + 1];
      if (end - begin > std::numeric_limits<int32_t>::max())
        throw std::invalid_argument("vertex " + std::to_string(destinations[row]) + " has 2^31 or more neighbours");
      const size_t before = out;
      kept.neighbours.resize(out + (end - begin) + 1);  // one more than is kept is written
      if (positions) {
        kept.positions.resize(kept.neighbours.size());
        out = keep_row<true>(begin, end, out, kept);
      } else {
        out = keep_row<false>(begin, end, out, kept);
      }
      kept.counts[row - run.first_row] = static_cast<int32_t>(out - before);
    }
    kept.neighbours.resize(out);
    if (positions) kept.positions.resize(out);
  }

  float scale(int64_t vertex) const override {
    if (!has(vertex)) return 0.0f;
    if (same_) return scale_;
    return std::lower_bound(set_.begin(), set_.end(), std::pair<int64_t, float>{vertex, -1.0f})->second;
  }

 private:
  static constexpr size_t BITS = 32;    // of a word
  static constexpr int64_t AHEAD = 12;  // destinations whose neighbours are fetched early
  static constexpr int64_t LINE_BYTES = 64;
  static constexpr int64_t FETCH_BYTES = 512;

  /// Writes the in-edges begin .. end whose sources are in the set from place `out` on; returns where they end.
  template <bool POSITIONS>
  size_t keep_row(int64_t begin, int64_t end, size_t out, Drawn<Index>& kept) const {
    const Index* indices = graph_.indices.data();
    const uint32_t* bits = bits_.data();
    Index* neighbours = kept.neighbours.data();
    int64_t* positions = POSITIONS ? kept.positions.data() : nullptr;
#pragma GCC unroll 4
    for (int64_t e = begin; e < end; ++e) {
      const auto vertex = static_cast<uint64_t>(indices[e]);
      neighbours[out] = indices[e];
      if constexpr (POSITIONS) positions[out] = e;
      out += (bits[vertex / BITS] >> (vertex % BITS)) & 1;
    }
    return out;
  }

  bool has(int64_t vertex) const { return (bits_[vertex / BITS] >> (vertex % BITS)) & 1; }

  [[gnu::always_inline]] void fetch(std::span<const int64_t> destinations, int64_t row) const {
    const auto size = static_cast<int64_t>(destinations.size());
    if (row + 2 * AHEAD < size) __builtin_prefetch(&graph_.indptr[destinations[row + 2 * AHEAD]]);
    if (row + AHEAD >= size) return;
    const int64_t vertex = destinations[row + AHEAD];
    const auto* bytes = reinterpret_cast<const char*>(graph_.indices.data() + graph_.indptr[vertex]);
    const auto length = static_cast<int64_t>((graph_.indptr[vertex + 1] - graph_.indptr[vertex]) * sizeof(Index));
    for (int64_t b = 0; b < std::min(length, FETCH_BYTES); b += LINE_BYTES) __builtin_prefetch(bytes + b);
  }

  GraphView<Index> graph_;
  Array<uint32_t> bits_;
  Array<std::pair<int64_t, float>> set_;  // vertices and scales, ascending where they have scales of their own
  float scale_ = 1.0f;
  bool same_ = true;  // every vertex of the set has scale_
};

}  // namespace gsplit
