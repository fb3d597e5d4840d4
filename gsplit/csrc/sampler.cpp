#include "sampler.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "random.hpp"

namespace gsplit {
namespace {

constexpr int64_t RUN_EDGES = 4096;          // what was drawn is still in the first cache level when it is numbered
constexpr int64_t SHARED_RUN_EDGES = 16384;  // handing a run from thread to thread costs a lock and its misses

constexpr int64_t LOOKED_AT = 8;  // edges that are looked at for one that is kept, or more

int checked_threads(int threads) {
  if (threads < 1) throw std::invalid_argument("threads must be at least 1, not " + std::to_string(threads));
  return threads;
}

/// The key of a vertex folds (key of the hop, global id); the first of the two is the same for all.
uint64_t prefix_of(const DrawKey& key, int hop) {
  return fold_key({fold_key({key.seed, key.epoch, key.batch, key.micro, static_cast<uint64_t>(hop)})});
}

}  // namespace

template <class Index>
Sampler<Index>::Sampler(GraphView<Index> graph, std::vector<int64_t> offsets, int64_t memory, int threads,
                        bool partial_sums)
    : graph_(graph), pipeline_(graph, checked_threads(threads)), memory_(memory),
      run_edges_(threads > 1 ? SHARED_RUN_EDGES : RUN_EDGES) {
  const auto n = static_cast<int64_t>(graph_.indptr.size()) - 1;
  if (n < 0) throw std::invalid_argument("indptr is empty");
  if (offsets.size() < 2 || offsets.front() != 0 || offsets.back() != n ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    throw std::invalid_argument("offsets must ascend from 0 to the number of vertices, " + std::to_string(n));
  if (!graph_.global_ids.empty() && static_cast<int64_t>(graph_.global_ids.size()) != n)
    throw std::invalid_argument("global_ids must have one entry a vertex");
  wish_for_huge_pages(graph_.indptr);
  wish_for_huge_pages(graph_.indices);
  wish_for_huge_pages(graph_.global_ids);
  splitter_ = make_splitter<Index>(offsets, memory, partial_sums);
  if (memory_ >= 0) memory_ = std::max<int64_t>(0, memory_ - dense_bytes(offsets));
}

template <class Index>
bool Sampler<Index>::sample(std::span<const int64_t> targets, std::span<const int64_t> fan_outs, const DrawKey& key,
                            bool edge_ids, int64_t max_edges) {
  const auto* exclusions = std::exchange(excludes_, false) ? exclusions_.get() : nullptr;
  excluded_edges_ = exclusions != nullptr ? exclusions->num_edges() : 0;
  for (int64_t fan_out : fan_outs)
    if (fan_out < -1 || fan_out == 0)
      throw std::invalid_argument("a fan-out must be -1 (all) or at least 1, not " + std::to_string(fan_out));
  splitter_->start(fan_outs.size(), targets, {});
  num_edges_ = 0;
  for (size_t hop = 1; hop <= fan_outs.size(); ++hop)
    if (!sample_hop(static_cast<int>(hop), fan_outs[hop - 1], key, exclusions, edge_ids, max_edges)) return false;
  return true;
}

template <class Index>
void Sampler<Index>::exclude(std::span<const int64_t> destinations, std::span<const int64_t> sources) {
  if (!exclusions_) exclusions_ = std::make_unique<Exclusions<Index>>(graph_);
  excludes_ = false;
  exclusions_->find(destinations, sources);
  excludes_ = exclusions_->num_edges() > 0;
}

template <class Index>
void Sampler<Index>::add_excluded(size_t part, Array<int32_t>& rows, Array<int64_t>& ids) const {
  if (excluded_edges_ == 0) return;
  const Split& split = splits()[part];
  for (int64_t row = 0; row < split.level_sizes.back(); ++row) {
    const int64_t vertex = split.vertices[row];
    if (!exclusions_->has(vertex)) continue;
    int64_t id = graph_.indptr[vertex];
    for (const uint32_t before : exclusions_->of(vertex)) {
      rows.push_back(static_cast<int32_t>(row));
      ids.push_back(id++ + before);
    }
  }
}

template <class Index>
bool Sampler<Index>::sample_hop(int hop, int64_t fan_out, const DrawKey& key, const Exclusions<Index>* exclusions,
                                bool edge_ids, int64_t max_edges) {
  const uint64_t hop_prefix = prefix_of(key, hop);
  const std::vector<Split>& splits = splitter_->splits();
  const size_t level = splits[0].level_sizes.size() - hop;  // of the destinations
  const auto destinations = [&](size_t part) {
    return std::span<const int64_t>(splits[part].vertices.data(), splits[part].level_sizes[level]);
  };
  size_t part = 0;
  int64_t row = 0;
  const auto claim = [&]() -> std::optional<Run> {
    while (part < splits.size() && row == splits[part].level_sizes[level]) {
      ++part;
      row = 0;
    }
    if (part == splits.size()) return std::nullopt;
    const int64_t first_row = row;
    row = end_of_run(destinations(part), first_row, fan_out, run_edges_);
    return Run{part, first_row, row};
  };
  const auto draw = [&](Drawer<Index>& drawer, const Run& run, Drawn<Index>& drawn) {
    drawer.draw(run, destinations(run.part), fan_out, hop_prefix, exclusions, edge_ids, drawn);
  };
  const auto number = [&](const Drawn<Index>& drawn) {
    num_edges_ += static_cast<int64_t>(drawn.neighbours.size());
    if (num_edges_ > max_edges) return false;
    splitter_->add(drawn, level);
    return true;
  };
  if (!pipeline_.run(claim, draw, number)) return false;
  splitter_->end_hop(level);
  return true;
}

template <class Index>
void Sampler<Index>::use_pool(std::span<const float> edge_weight, Importance importance) {
  if (!edge_weight.empty() && edge_weight.size() != graph_.indices.size())
    throw std::invalid_argument("edge_weight must have one entry an edge");
  pool_ = make_pool<Index>(graph_, edge_weight, importance, memory_);
}

template <class Index>
void Sampler<Index>::sample_pools(std::span<const int64_t> targets, std::span<const int64_t> sizes,
                                  const DrawKey& key, Race race, bool edge_ids) {
  if (!pool_) throw std::invalid_argument("what masses are made of was not said");
  for (int64_t size : sizes)
    if (size < 1) throw std::invalid_argument("a layer must have at least 1 source, not " + std::to_string(size));
  splitter_->start(sizes.size(), targets, {});
  const std::vector<Split>& splits = splitter_->splits();
  pool_->start(splits.size());
  for (size_t hop = 1; hop <= sizes.size(); ++hop) {
    const size_t level = sizes.size() + 1 - hop;  // of the destinations
    for (size_t part = 0; part < splits.size(); ++part)
      pool_->add(part, {splits[part].vertices.data(), static_cast<size_t>(splits[part].level_sizes[level])});
    pool_->end();
    run_race(pool_->candidates(), sizes[hop - 1], prefix_of(key, static_cast<int>(hop)), race);
    keep_hop(*pool_, level, edge_ids, true);
  }
}

template <class Index>
void Sampler<Index>::sample_inside(std::span<const int64_t> targets, std::span<const Sources> sets, bool edge_ids,
                                   bool scales) {
  splitter_->start(sets.size(), targets, {});
  for (size_t hop = 1; hop <= sets.size(); ++hop) {
    const Sources& set = sets[hop - 1];
    inside().start(set.vertices, set.scales, set.scale);
    keep_hop(inside(), sets.size() + 1 - hop, edge_ids, scales);
  }
}

template <class Index>
void Sampler<Index>::sample_subgraph(const Sources& set, size_t num_targets, size_t layers, bool edge_ids,
                                     bool scales) {
  if (layers < 1) throw std::invalid_argument("a subgraph needs at least one layer");
  if (num_targets > set.vertices.size()) throw std::invalid_argument("there are more targets than vertices");
  splitter_->start(layers, set.vertices.first(num_targets), set.vertices.subspan(num_targets));
  inside().start(set.vertices, set.scales, set.scale);
  std::vector<Drawn<Index>> of_targets;
  keep_hop(inside(), layers, edge_ids, scales, {}, layers > 1 ? &of_targets : nullptr);
  if (layers == 1) return;
  keep_hop(inside(), layers - 1, edge_ids, scales, of_targets, nullptr);
  splitter_->share_below(layers - 1);
}

/// One hop, of the in-edges from what was selected. known: what the hop before kept of the first destinations of each
/// part, by the same selection. noted: gets what this one keeps, unless it is null.
template <class Index>
void Sampler<Index>::keep_hop(Selection<Index>& selection, size_t level, bool edge_ids, bool scales,
                              std::span<const Drawn<Index>> known, std::vector<Drawn<Index>>* noted) {
  const std::vector<Split>& splits = splitter_->splits();
  for (size_t part = 0, next = 0; part < splits.size(); ++part) {
    const std::span<const int64_t> destinations(splits[part].vertices.data(), splits[part].level_sizes[level]);
    const auto rows = static_cast<int64_t>(destinations.size());
    int64_t first = 0;
    for (; next < known.size() && known[next].run.part == part; ++next) {
      splitter_->add(known[next], level);
      first = known[next].run.last_row;
    }
    while (first < rows) {
      const int64_t last = end_of_run(destinations, first, -1, LOOKED_AT * run_edges_);
      selection.keep({part, first, last}, destinations, edge_ids, kept_);
      splitter_->add(kept_, level);
      if (noted != nullptr) noted->push_back(std::exchange(kept_, {}));
      first = last;
    }
  }
  splitter_->end_hop(level);
  if (scales) splitter_->put_scales(level, [&](int64_t vertex) { return selection.scale(vertex); });
}

template <class Index>
Inside<Index>& Sampler<Index>::inside() {
  if (!inside_) inside_ = std::make_unique<Inside<Index>>(graph_);
  return *inside_;
}

/// Where a run ends that begins at a row: it draws about run_edges edges, more only for a single destination.
template <class Index>
int64_t Sampler<Index>::end_of_run(std::span<const int64_t> destinations, int64_t row, int64_t fan_out,
                                   int64_t run_edges) const {
  const auto size = static_cast<int64_t>(destinations.size());
  if (fan_out > 0) return std::min(size, row + std::max<int64_t>(1, run_edges / fan_out));
  for (int64_t edges = 0; row < size && edges < run_edges; ++row)
    edges += graph_.indptr[destinations[row] + 1] - graph_.indptr[destinations[row]];
  return row;
}

template class Sampler<int32_t>;
template class Sampler<int64_t>;

}  // namespace gsplit
