#include "sampler.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "random.hpp"

namespace gsplit {
namespace {

constexpr int64_t CHUNK_EDGES = 512;   // enough to hide a cache miss, few enough to stay in the first-level cache
constexpr int64_t LINEAR_DRAWS = 48;   // up to here a scan of the draws beats a bitmap
constexpr int64_t LOOK_AHEAD = 8;      // destinations whose indptr is fetched early

void prefetch(const void* address) { __builtin_prefetch(address); }

int32_t checked_row(size_t value) {
  if (value > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    throw std::invalid_argument("a mini-batch has more than 2^31 - 1 rows or edges in one split; use a smaller "
                                "batch size or fan-out");
  return static_cast<int32_t>(value);
}

}  // namespace

template <class Index>
Sampler<Index>::Sampler(GraphView<Index> graph, std::vector<int64_t> offsets)
    : graph_(graph), offsets_(std::move(offsets)) {
  const auto n = static_cast<int64_t>(graph_.indptr.size()) - 1;
  if (n < 0) throw std::invalid_argument("indptr is empty");
  if (offsets_.size() < 2 || offsets_.front() != 0 || offsets_.back() != n ||
      !std::is_sorted(offsets_.begin(), offsets_.end()))
    throw std::invalid_argument("offsets must ascend from 0 to the number of vertices, " + std::to_string(n));
  if (!graph_.global_ids.empty() && static_cast<int64_t>(graph_.global_ids.size()) != n)
    throw std::invalid_argument("global_ids must have one entry a vertex");
  map_.assign(n, MapEntry{0, 0, 0, 0});
  const size_t parts = offsets_.size() - 1;
  splits_.resize(parts);
  remote_edges_.resize(parts);
}

template <class Index>
int Sampler<Index>::owner(int64_t vertex) const {
  const auto parts = static_cast<int>(offsets_.size()) - 1;
  if (parts > 16)
    return static_cast<int>(std::upper_bound(offsets_.begin() + 1, offsets_.end() - 1, vertex) -
                            offsets_.begin()) - 1;
  int part = 0;
  for (int i = 1; i < parts; ++i) part += vertex >= offsets_[i];
  return part;
}

template <class Index>
int32_t Sampler<Index>::row_at_owner(MapEntry& entry, int64_t vertex, int owner) {
  if (entry.row_stamp != batch_stamp_) {
    entry.row_stamp = batch_stamp_;
    entry.row = checked_row(splits_[owner].vertices.size());
    splits_[owner].vertices.push_back(vertex);
  }
  return entry.row;
}

template <class Index>
bool Sampler<Index>::sample(std::span<const int64_t> targets, std::span<const int64_t> fan_outs,
                            const DrawKey& key, bool edge_ids, int64_t max_edges) {
  for (int64_t fan_out : fan_outs)
    if (fan_out < -1 || fan_out == 0)
      throw std::invalid_argument("a fan-out must be -1 (all) or at least 1, not " + std::to_string(fan_out));
  start(fan_outs.size());
  add_targets(targets);
  for (size_t hop = 1; hop <= fan_outs.size(); ++hop)
    if (!sample_hop(static_cast<int>(hop), fan_outs[hop - 1], key, edge_ids, max_edges)) return false;
  return true;
}

template <class Index>
void Sampler<Index>::start(size_t layers) {
  const size_t parts = splits_.size();
  // Stamps are 32 bits wide; before they run out the map is cleared once.
  const uint64_t stamps_needed = layers * parts + 1;
  if (uint64_t{batch_stamp_} + 1 > UINT32_MAX || uint64_t{ref_stamp_} + stamps_needed > UINT32_MAX) {
    std::fill(map_.begin(), map_.end(), MapEntry{0, 0, 0, 0});
    batch_stamp_ = ref_stamp_ = 0;
  }
  ++batch_stamp_;
  num_edges_ = 0;
  for (Split& split : splits_) {
    split.vertices.clear();
    split.level_sizes.assign(layers + 1, 0);
    split.layers.resize(layers + 1);
    for (LayerSplit& layer : split.layers) {
      layer.indptr.clear();
      layer.indices.clear();
      layer.edge_ids.clear();
      layer.send_rows.resize(parts);
      for (auto& rows : layer.send_rows) rows.clear();
    }
  }
}

template <class Index>
void Sampler<Index>::add_targets(std::span<const int64_t> targets) {
  const auto n = static_cast<int64_t>(map_.size());
  for (int64_t target : targets) {
    if (target < 0 || target >= n)
      throw std::invalid_argument("target " + std::to_string(target) + " is not a vertex; there are " +
                                  std::to_string(n));
    if (map_[target].row_stamp == batch_stamp_)
      throw std::invalid_argument("target " + std::to_string(target) + " is given twice");
    row_at_owner(map_[target], target, owner(target));
  }
  for (Split& split : splits_) split.level_sizes.back() = static_cast<int64_t>(split.vertices.size());
}

template <class Index>
bool Sampler<Index>::sample_hop(int hop, int64_t fan_out, const DrawKey& key, bool edge_ids, int64_t max_edges) {
  const uint64_t hop_key = fold_key({key.seed, key.epoch, key.batch, key.micro, static_cast<uint64_t>(hop)});
  const size_t level = splits_[0].level_sizes.size() - hop;  // of the destinations
  for (size_t part = 0; part < splits_.size(); ++part) {
    Split& split = splits_[part];
    LayerSplit& block = split.layers[level];
    const int64_t destinations = split.level_sizes[level];
    remote_edges_[part].clear();
    ++ref_stamp_;
    block.indptr.reserve(destinations + 1);
    block.indptr.push_back(0);
    int64_t drawn = 0;
    for (int64_t row = 0; row < destinations;) {
      positions_.clear();
      for (; row < destinations && static_cast<int64_t>(positions_.size()) < CHUNK_EDGES; ++row) {
        if (row + LOOK_AHEAD < destinations) {
          const int64_t ahead = split.vertices[row + LOOK_AHEAD];
          prefetch(&graph_.indptr[ahead]);
          if (!graph_.global_ids.empty()) prefetch(&graph_.global_ids[ahead]);
        }
        drawn += draw_positions(split.vertices[row], fan_out, hop_key);
        block.indptr.push_back(checked_row(drawn));
      }
      num_edges_ += static_cast<int64_t>(positions_.size());
      if (num_edges_ > max_edges) return false;
      if (edge_ids) block.edge_ids.insert(block.edge_ids.end(), positions_.begin(), positions_.end());
      add_edges(static_cast<int>(part), level);
    }
  }
  for (Split& split : splits_) split.level_sizes[level - 1] = static_cast<int64_t>(split.vertices.size());
  resolve_remote_rows(level);
  return true;
}

/// First sweep: appends the positions in `indices` that are drawn for one vertex, and fetches them early.
template <class Index>
int64_t Sampler<Index>::draw_positions(int64_t vertex, int64_t fan_out, uint64_t hop_key) {
  const int64_t begin = graph_.indptr[vertex];
  const int64_t degree = graph_.indptr[vertex + 1] - begin;
  const size_t first = positions_.size();
  if (fan_out < 0 || degree <= fan_out) {
    positions_.resize(first + degree);
    for (int64_t i = 0; i < degree; ++i) positions_[first + i] = begin + i;
    for (int64_t i = 0; i < degree; i += 64 / sizeof(Index)) prefetch(&graph_.indices[begin + i]);
    return degree;
  }
  if (degree > UINT32_MAX) throw std::invalid_argument("a vertex has 2^32 or more neighbours");
  const bool linear = fan_out <= LINEAR_DRAWS;
  if (!linear) seen_.assign((degree + 63) / 64, 0);
  positions_.resize(first + fan_out);
  int64_t* draws = positions_.data() + first;
  const uint64_t global_id = graph_.global_ids.empty() ? vertex : graph_.global_ids[vertex];
  Draws random(hop_key, global_id);
  for (int64_t taken = 0; taken < fan_out; ++taken) {
    const int64_t last = degree - fan_out + taken;
    int64_t draw = random.below(static_cast<uint32_t>(last + 1));
    bool again = false;
    if (linear) {
      for (int64_t i = 0; i < taken; ++i) again |= draws[i] == begin + draw;  // no branch, so it vectorises
    } else {
      again = (seen_[draw / 64] >> (draw % 64)) & 1;
    }
    if (again) draw = last;
    if (!linear) seen_[draw / 64] |= uint64_t{1} << (draw % 64);
    draws[taken] = begin + draw;
    prefetch(&graph_.indices[begin + draw]);
  }
  return fan_out;
}

/// Second and third sweep: reads the neighbours of the chunk, then turns each into a source row. The place of a
/// remote row is not final before the hop is over, so such edges are noted for resolve_remote_rows().
template <class Index>
void Sampler<Index>::add_edges(int part, size_t level) {
  LayerSplit& block = splits_[part].layers[level];
  const size_t count = positions_.size();
  neighbours_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    neighbours_[i] = graph_.indices[positions_[i]];
    prefetch(&map_[neighbours_[i]]);
  }
  const size_t first = block.indices.size();
  block.indices.resize(first + count);
  int32_t* rows = block.indices.data() + first;
  for (size_t i = 0; i < count; ++i) {
    const int64_t vertex = neighbours_[i];
    MapEntry& entry = map_[vertex];
    const int from = owner(vertex);
    const int32_t row = row_at_owner(entry, vertex, from);
    if (from == part) {
      rows[i] = row;
      continue;
    }
    if (entry.ref_stamp != ref_stamp_) {
      auto& rows_to_send = splits_[from].layers[level].send_rows[part];
      entry.ref_stamp = ref_stamp_;
      entry.place = static_cast<int32_t>(rows_to_send.size());
      rows_to_send.push_back(row);
    }
    remote_edges_[part].push_back({static_cast<int64_t>(first + i), from});
    rows[i] = entry.place;
  }
}

template <class Index>
void Sampler<Index>::resolve_remote_rows(size_t level) {
  const size_t parts = splits_.size();
  std::vector<int32_t> base(parts);
  for (size_t part = 0; part < parts; ++part) {
    if (remote_edges_[part].empty()) continue;
    size_t next = static_cast<size_t>(splits_[part].level_sizes[level - 1]);
    for (size_t from = 0; from < parts; ++from) {
      base[from] = checked_row(next);
      next += splits_[from].layers[level].send_rows[part].size();
    }
    checked_row(next);
    int32_t* rows = splits_[part].layers[level].indices.data();
    for (const RemoteEdge& remote : remote_edges_[part]) rows[remote.edge] += base[remote.owner];
  }
}

template class Sampler<int32_t>;
template class Sampler<int64_t>;

}  // namespace gsplit
