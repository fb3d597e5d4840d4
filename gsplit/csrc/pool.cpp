#include "pool.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "row_map.hpp"

namespace gsplit {
namespace {

constexpr int UNIT_BITS = 40;               // a mass of 1 is 2^40
constexpr int64_t MOST = int64_t{1} << 23;  // destinations whose masses of 1 can be added
constexpr size_t LOOK_AHEAD = 32;           // edges whose map entry is fetched early
constexpr size_t ROWS_AHEAD = 16;           // destinations whose neighbours are fetched early
constexpr int64_t LINE_BYTES = 64;
constexpr int64_t FETCH_BYTES = 512;  // of a destination's neighbours
constexpr size_t BUFFER = 4096;       // neighbours that are gathered, or more where one destination has more

/// 2^40 / d^2, rounded, at least 1.
uint64_t mass_of_degree(uint64_t degree) {
  const uint64_t square = degree * degree;
  return std::max<uint64_t>(1, ((uint64_t{1} << UNIT_BITS) + square / 2) / square);
}

/// 2^40 p^2, rounded, at least 1 unless p is 0.
uint64_t mass_of_share(double p) {
  if (!(p > 0)) return 0;
  return std::max<uint64_t>(1, static_cast<uint64_t>(std::llrint(std::ldexp(p * p, UNIT_BITS))));
}

/// What a sum over out-edges is as a mass.
uint64_t mass_of_sum(uint64_t sum, Importance importance) {
  if (importance == Importance::counts) return sum * sum;
  if (importance == Importance::squares) return sum;
  return static_cast<uint64_t>(std::llrint(std::ldexp(std::sqrt(static_cast<double>(sum)), UNIT_BITS / 2)));
}

template <class Index, class Map>
class MappedPool final : public Pool<Index> {
 public:
  MappedPool(GraphView<Index> graph, std::span<const float> edge_weight, Importance importance)
      : graph_(graph), weight_(edge_weight), importance_(importance), map_(graph.indptr.size() - 1) {}

  void start(size_t parts) override {
    Candidates& all = this->candidates_;
    map_.clear(all.size(), [&](size_t i) { return all.vertices[i]; });
    all.vertices.clear();
    all.global_ids.clear();
    sums_.clear();
    of_edge_.clear();
    neighbours_.clear();
    masses_.clear();
    first_edge_.resize(parts);
    for (auto& edges : first_edge_) edges.clear();
    num_destinations_ = 0;
  }

  void add(size_t part, std::span<const int64_t> destinations) override {
    size_t row = first_edge_[part].size();
    num_destinations_ += static_cast<int64_t>(destinations.size() - row);
    if (num_destinations_ > MOST)
      throw std::invalid_argument("a hop has " + std::to_string(num_destinations_) +
                                  " destinations or more, and masses can be summed over " + std::to_string(MOST) +
                                  "; use smaller mini-batches");
    make_room(first_edge_[part], destinations.size());
    size_t edge = of_edge_.size();
    for (; row < destinations.size(); ++row) {
      first_edge_[part].push_back(edge);
      edge += degree(destinations[row]);
      if (row + 2 * ROWS_AHEAD < destinations.size())
        __builtin_prefetch(&graph_.indptr[destinations[row + 2 * ROWS_AHEAD]]);
      if (row + ROWS_AHEAD < destinations.size()) fetch(destinations[row + ROWS_AHEAD]);
      gather(destinations[row]);
      if (neighbours_.size() >= BUFFER) count();
    }
    count();
  }

  void end() override {
    Candidates& all = this->candidates_;
    size_t i = all.global_ids.size();
    all.global_ids.resize(all.size());
    for (; i < all.size(); ++i) {
      if (!graph_.global_ids.empty() && i + LOOK_AHEAD < all.size())
        __builtin_prefetch(&graph_.global_ids[all.vertices[i + LOOK_AHEAD]]);
      all.global_ids[i] = graph_.global_ids.empty() ? all.vertices[i] : graph_.global_ids[all.vertices[i]];
    }
    all.masses.resize(all.size());
    for (size_t c = 0; c < all.size(); ++c) all.masses[c] = mass_of_sum(sums_[c], importance_);
  }

  void keep(const Run& run, std::span<const int64_t> destinations, bool positions, Drawn<Index>& kept) override {
    const Candidates& all = this->candidates_;
    const Array<size_t>& first = first_edge_[run.part];
    kept.run = run;
    kept.counts.resize(run.last_row - run.first_row);
    size_t edges = 0;
    for (int64_t row = run.first_row; row < run.last_row; ++row) edges += degree(destinations[row]);
    winners_.resize(edges + 1);  // one more than is kept is written
    kept.positions.resize(positions ? edges + 1 : 0);
    size_t out = 0;
    for (int64_t row = run.first_row; row < run.last_row; ++row) {
      const int64_t begin = graph_.indptr[destinations[row]], length = degree(destinations[row]);
      const int32_t* candidates = of_edge_.data() + first[row];
      const size_t before = out;
      for (int64_t i = 0; i < length; ++i) {
        winners_[out] = candidates[i];
        if (positions) kept.positions[out] = begin + i;
        out += all.scales[candidates[i]] > 0;
      }
      kept.counts[row - run.first_row] = static_cast<int32_t>(out - before);
    }
    kept.neighbours.resize(out);
    for (size_t i = 0; i < out; ++i) kept.neighbours[i] = static_cast<Index>(all.vertices[winners_[i]]);
    if (positions) kept.positions.resize(out);
  }

  float scale(int64_t vertex) const override {
    const int32_t candidate = map_.find(vertex);
    return candidate < 0 ? 0.0f : this->candidates_.scales[candidate];
  }

 private:
  int64_t degree(int64_t vertex) const { return graph_.indptr[vertex + 1] - graph_.indptr[vertex]; }

  [[gnu::always_inline]] void fetch(int64_t vertex) const {
    const auto* bytes = reinterpret_cast<const char*>(graph_.indices.data() + graph_.indptr[vertex]);
    const auto length = static_cast<int64_t>(degree(vertex) * sizeof(Index));
    for (int64_t b = 0; b < std::min(length, FETCH_BYTES); b += LINE_BYTES) __builtin_prefetch(bytes + b);
  }

  /// Puts the neighbours of a destination into the buffer, each with its mass.
  void gather(int64_t vertex) {
    const int64_t begin = graph_.indptr[vertex], end = graph_.indptr[vertex + 1];
    if (end - begin > std::numeric_limits<int32_t>::max())
      throw std::invalid_argument("vertex " + std::to_string(vertex) + " has 2^31 or more neighbours");
    neighbours_.insert(neighbours_.end(), graph_.indices.begin() + begin, graph_.indices.begin() + end);
    const size_t edges = neighbours_.size();
    if (importance_ == Importance::counts) {
      masses_.resize(edges, 1);
    } else if (weight_.empty()) {
      masses_.resize(edges, end > begin ? mass_of_degree(end - begin) : 0);
    } else {
      double total = 0;  // of weights of 0 or more: if it is 0, so is each
      for (int64_t e = begin; e < end; ++e) total += weight_[e];
      for (int64_t e = begin; e < end; ++e) masses_.push_back(total > 0 ? mass_of_share(weight_[e] / total) : 0);
    }
  }

  /// Adds the buffer's masses to the candidates, and empties it.
  void count() {
    Candidates& all = this->candidates_;
    const size_t edges = neighbours_.size(), first = of_edge_.size();
    make_room(of_edge_, first + edges);
    of_edge_.resize(first + edges);
    size_t number = all.size();
    make_room(all.vertices, number + edges);
    make_room(sums_, number + edges);
    // As large as they may become, so that nothing has to be asked before a candidate is added.
    sums_.resize(number + edges);
    all.vertices.resize(number + edges);
    for (size_t i = 0; i < std::min(LOOK_AHEAD, edges); ++i) map_.prefetch(neighbours_[i]);
    try {
      for (size_t i = 0; i < edges; ++i) {
        if (i + LOOK_AHEAD < edges) map_.prefetch(neighbours_[i + LOOK_AHEAD]);
        int32_t& candidate = map_[neighbours_[i]];
        if (candidate < 0) {
          all.vertices[number] = neighbours_[i];
          sums_[number] = 0;
          candidate = static_cast<int32_t>(number++);
        }
        sums_[candidate] += masses_[i];
        of_edge_[first + i] = candidate;
      }
    } catch (...) {  // a hash map that cannot grow: those that the map names are kept, to be forgotten by name
      all.vertices.resize(number);
      throw;
    }
    all.vertices.resize(number);
    sums_.resize(number);
    neighbours_.clear();
    masses_.clear();
  }

  GraphView<Index> graph_;
  std::span<const float> weight_;  // [E], or empty
  Importance importance_;
  Map map_;                                // number of each candidate
  Array<uint64_t> sums_;                   // of each candidate, over its out-edges
  Array<int32_t> of_edge_;                 // the candidate of each in-edge, in the order in which they were added
  std::vector<Array<size_t>> first_edge_;  // [parts][rows] where those of a destination begin
  int64_t num_destinations_ = 0;
  Array<Index> neighbours_;  // buffer
  Array<uint64_t> masses_;   // of the buffer
  Array<int32_t> winners_;   // scratch
};

}  // namespace

Importance importance_named(const std::string& name) {
  if (name == "squares") return Importance::squares;
  if (name == "counts") return Importance::counts;
  if (name == "norms") return Importance::norms;
  throw std::invalid_argument("importance is squares, counts or norms, not " + name);
}

template <class Index>
std::unique_ptr<Pool<Index>> make_pool(GraphView<Index> graph, std::span<const float> edge_weight,
                                       Importance importance, int64_t memory) {
  const auto dense_bytes = static_cast<int64_t>(sizeof(int32_t) * (graph.indptr.size() - 1));
  if (memory >= 0 && dense_bytes > memory)
    return std::make_unique<MappedPool<Index, HashMap>>(graph, edge_weight, importance);
  return std::make_unique<MappedPool<Index, DenseMap>>(graph, edge_weight, importance);
}

template std::unique_ptr<Pool<int32_t>> make_pool(GraphView<int32_t>, std::span<const float>, Importance, int64_t);
template std::unique_ptr<Pool<int64_t>> make_pool(GraphView<int64_t>, std::span<const float>, Importance, int64_t);

}  // namespace gsplit
