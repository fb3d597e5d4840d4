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

/// The key of a vertex folds (key of the hop and relation, global id); the first of the two is the same for all. With
/// relation 0 it is as if there were no relations.
uint64_t prefix_of(const DrawKey& key, int hop, size_t relation = 0) {
  const uint64_t word = static_cast<uint64_t>(hop) + (static_cast<uint64_t>(relation) << 32);
  return fold_key({fold_key({key.seed, key.epoch, key.batch, key.micro, word})});
}

std::span<const int64_t> destinations_of(const Split& split, size_t type, size_t level) {
  const CellSplit& cell = split.cells[type];
  return {cell.vertices.data(), static_cast<size_t>(cell.level_sizes[level])};
}

}  // namespace

template <class Index>
Sampler<Index>::Sampler(TypedGraph<Index> graph, int64_t memory, int threads, bool partial_sums)
    : graph_(checked(std::move(graph))), pipeline_(graph_, checked_threads(threads)), memory_(memory),
      run_edges_(threads > 1 ? SHARED_RUN_EDGES : RUN_EDGES) {
  if (partial_sums) only_relation("sums in the place of rows");
  for (const Relation<Index>& relation : graph_.relations) {
    wish_for_huge_pages(relation.graph.indptr);
    wish_for_huge_pages(relation.graph.indices);
  }
  for (const VertexType& type : graph_.types) wish_for_huge_pages(type.global_ids);
  splitter_ = make_splitter<Index>(graph_, memory, partial_sums);
  if (memory_ >= 0) memory_ = std::max<int64_t>(0, memory_ - dense_bytes(graph_.types));
}

/// The graph where it has one type and one relation.
template <class Index>
const GraphView<Index>& Sampler<Index>::only_relation(const char* what) const {
  if (graph_.types.size() > 1 || graph_.relations.size() > 1)
    throw std::invalid_argument(std::string(what) + ": for graphs of one type and one relation alone; this one has " +
                                std::to_string(graph_.types.size()) + " and " +
                                std::to_string(graph_.relations.size()));
  return graph_.relations[0].graph;
}

template <class Index>
void Sampler<Index>::check_fan_outs(std::span<const int64_t> fan_outs) const {
  const size_t relations = graph_.relations.size();
  if (fan_outs.size() % relations != 0)
    throw std::invalid_argument("there must be a fan-out for each hop and each of " + std::to_string(relations) +
                                " relations, not " + std::to_string(fan_outs.size()));
  for (size_t i = 0; i < fan_outs.size(); ++i) {
    const std::string& name = graph_.relations[i % relations].name;
    if (fan_outs[i] < -1 || (fan_outs[i] == 0 && relations == 1))
      throw std::invalid_argument(
          (name.empty() ? "" : "relation " + name + ", hop " + std::to_string(i / relations + 1) + ": ") +
          "a fan-out must be -1 (all)" + (relations > 1 ? ", 0 (none)" : "") + " or at least 1, not " +
          std::to_string(fan_outs[i]));
  }
  for (size_t hop = 0; hop < fan_outs.size() / relations; ++hop) {
    const auto of_hop = fan_outs.subspan(hop * relations, relations);
    if (std::all_of(of_hop.begin(), of_hop.end(), [](int64_t fan_out) { return fan_out == 0; }))
      throw std::invalid_argument("hop " + std::to_string(hop + 1) +
                                  ": all relations have the fan-out 0, so nothing would be drawn");
  }
}

template <class Index>
bool Sampler<Index>::sample(std::span<const int64_t> targets, size_t type, std::span<const int64_t> fan_outs,
                            const DrawKey& key, bool edge_ids, int64_t max_edges) {
  const auto* exclusions = std::exchange(excludes_, false) ? exclusions_.get() : nullptr;
  excluded_edges_ = exclusions != nullptr ? exclusions->num_edges() : 0;
  check_fan_outs(fan_outs);
  if (type >= graph_.types.size())
    throw std::invalid_argument("there is no type number " + std::to_string(type) + "; there are " +
                                std::to_string(graph_.types.size()));
  const size_t relations = graph_.relations.size(), hops = fan_outs.size() / relations;
  splitter_->start(hops, type, targets, {});
  num_edges_ = 0;
  for (size_t hop = 1; hop <= hops; ++hop) {
    const auto of_hop = fan_outs.subspan((hop - 1) * relations, relations);
    if (!sample_hop(static_cast<int>(hop), of_hop, key, exclusions, edge_ids, max_edges)) return false;
  }
  return true;
}

template <class Index>
void Sampler<Index>::exclude(std::span<const int64_t> destinations, std::span<const int64_t> sources) {
  if (!exclusions_) exclusions_ = std::make_unique<Exclusions<Index>>(only_relation("excluded edges"));
  excludes_ = false;
  exclusions_->find(destinations, sources);
  excludes_ = exclusions_->num_edges() > 0;
}

template <class Index>
void Sampler<Index>::add_excluded(size_t part, Array<int32_t>& rows, Array<int64_t>& ids) const {
  if (excluded_edges_ == 0) return;
  const CellSplit& cell = splits()[part].cells[0];
  const GraphView<Index>& graph = graph_.relations[0].graph;
  for (int64_t row = 0; row < cell.level_sizes.back(); ++row) {
    const int64_t vertex = cell.vertices[row];
    if (!exclusions_->has(vertex)) continue;
    int64_t id = graph.indptr[vertex];
    for (const uint32_t before : exclusions_->of(vertex)) {
      rows.push_back(static_cast<int32_t>(row));
      ids.push_back(id++ + before);
    }
  }
}

template <class Index>
bool Sampler<Index>::sample_hop(int hop, std::span<const int64_t> fan_outs, const DrawKey& key,
                                const Exclusions<Index>* exclusions, bool edge_ids, int64_t max_edges) {
  const std::vector<Relation<Index>>& relations = graph_.relations;
  std::vector<uint64_t> prefixes;
  for (size_t relation = 0; relation < relations.size(); ++relation)
    prefixes.push_back(prefix_of(key, hop, relation));
  const std::vector<Split>& splits = splitter_->splits();
  const size_t level = splits[0].layers.size() - hop;  // of the destinations
  const auto destinations = [&](size_t part, size_t relation) {
    return destinations_of(splits[part], relations[relation].destination, level);
  };
  size_t part = 0, relation = 0;
  int64_t row = 0;
  const auto has_rows = [&] {
    return fan_outs[relation] != 0 && row < static_cast<int64_t>(destinations(part, relation).size());
  };
  const auto claim = [&]() -> std::optional<Run> {
    while (part < splits.size() && !has_rows()) {
      row = 0;
      if (++relation < relations.size()) continue;
      relation = 0;
      ++part;
    }
    if (part == splits.size()) return std::nullopt;
    const int64_t first_row = row;
    row = end_of_run(relations[relation].graph, destinations(part, relation), first_row, fan_outs[relation],
                     run_edges_);
    return Run{part, relation, first_row, row};
  };
  const auto draw = [&](Drawer<Index>& drawer, const Run& run, Drawn<Index>& drawn) {
    drawer.draw(run, destinations(run.part, run.relation), fan_outs[run.relation], prefixes[run.relation], exclusions,
                edge_ids, drawn);
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
  const GraphView<Index>& graph = only_relation("layer-wise sampling");
  if (!edge_weight.empty() && edge_weight.size() != graph.indices.size())
    throw std::invalid_argument("edge_weight must have one entry an edge");
  pool_ = make_pool<Index>(graph, edge_weight, importance, memory_);
}

template <class Index>
void Sampler<Index>::sample_pools(std::span<const int64_t> targets, std::span<const int64_t> sizes,
                                  const DrawKey& key, Race race, bool edge_ids) {
  if (!pool_) throw std::invalid_argument("what masses are made of was not said");
  for (int64_t size : sizes)
    if (size < 1) throw std::invalid_argument("a layer must have at least 1 source, not " + std::to_string(size));
  splitter_->start(sizes.size(), 0, targets, {});
  const std::vector<Split>& splits = splitter_->splits();
  pool_->start(splits.size());
  for (size_t hop = 1; hop <= sizes.size(); ++hop) {
    const size_t level = sizes.size() + 1 - hop;  // of the destinations
    for (size_t part = 0; part < splits.size(); ++part) pool_->add(part, destinations_of(splits[part], 0, level));
    pool_->end();
    run_race(pool_->candidates(), sizes[hop - 1], prefix_of(key, static_cast<int>(hop)), race);
    keep_hop(*pool_, level, edge_ids, true);
  }
}

template <class Index>
void Sampler<Index>::sample_inside(std::span<const int64_t> targets, std::span<const Sources> sets, bool edge_ids,
                                   bool scales) {
  splitter_->start(sets.size(), 0, targets, {});
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
  splitter_->start(layers, 0, set.vertices.first(num_targets), set.vertices.subspan(num_targets));
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
    const std::span<const int64_t> destinations = destinations_of(splits[part], 0, level);
    const auto rows = static_cast<int64_t>(destinations.size());
    int64_t first = 0;
    for (; next < known.size() && known[next].run.part == part; ++next) {
      splitter_->add(known[next], level);
      first = known[next].run.last_row;
    }
    while (first < rows) {
      const int64_t last = end_of_run(graph_.relations[0].graph, destinations, first, -1, LOOKED_AT * run_edges_);
      selection.keep({part, 0, first, last}, destinations, edge_ids, kept_);
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
  if (!inside_) inside_ = std::make_unique<Inside<Index>>(only_relation("sampling from sets of vertices"));
  return *inside_;
}

/// Where a run ends that begins at a row: it draws about run_edges edges, more only for a single destination.
template <class Index>
int64_t Sampler<Index>::end_of_run(const GraphView<Index>& graph, std::span<const int64_t> destinations, int64_t row,
                                   int64_t fan_out, int64_t run_edges) const {
  const auto size = static_cast<int64_t>(destinations.size());
  if (fan_out > 0) return std::min(size, row + std::max<int64_t>(1, run_edges / fan_out));
  for (int64_t edges = 0; row < size && edges < run_edges; ++row)
    edges += graph.indptr[destinations[row] + 1] - graph.indptr[destinations[row]];
  return row;
}

template class Sampler<int32_t>;
template class Sampler<int64_t>;

}  // namespace gsplit
