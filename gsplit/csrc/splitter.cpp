#include "splitter.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "partial_sums.hpp"
#include "row_map.hpp"

namespace gsplit {
namespace {

constexpr size_t LOOK_AHEAD = 64;  // edges whose map entry is fetched early

int32_t checked_row(size_t value) {
  if (value > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    throw std::invalid_argument(
        "a mini-batch has more than 2^31 - 1 rows or edges in one split; use a smaller "
        "batch size or fan-out");
  return static_cast<int32_t>(value);
}

template <class Index, class Map>
class MappedSplitter final : public Splitter<Index> {
 public:
  MappedSplitter(const std::vector<int64_t>& offsets, bool partial_sums) : offsets_(offsets) {
    if (partial_sums && offsets.size() > 2) sums_.emplace();
    const size_t parts = offsets.size() - 1;
    this->splits_.resize(parts);
    remote_edges_.resize(parts);
    numbered_.resize(parts);
    for (size_t part = 0; part < parts; ++part) {
      const auto size = static_cast<size_t>(offsets[part + 1] - offsets[part]);
      this->splits_[part].vertices.reserve(size);
      rows_.emplace_back(size);
      places_.emplace_back(parts > 1 ? size : 0);
    }
  }

  void start(size_t layers, std::span<const int64_t> targets, std::span<const int64_t> others) override;
  void add(const Drawn<Index>& drawn, size_t level) override;
  void end_hop(size_t level) override;

 private:
  size_t owner(int64_t vertex) const;
  int32_t row_at_owner(int64_t vertex, size_t owner);
  void add_remote(size_t part, size_t level, std::span<const Index> neighbours, size_t first);
  void sort_met(size_t part, size_t level);
  void sort_sent(size_t receiver, size_t level);
  void add_first(const char* what, std::span<const int64_t> vertices);
  void forget_places();

  std::vector<int64_t> offsets_;
  std::vector<Map> rows_;                        // [P] row of a vertex in its owner's list
  std::vector<Map> places_;                      // [P] its place among the rows sent to the split at work
  std::vector<size_t> numbered_;                 // [P] vertices whose rows are final
  size_t part_ = 0, level_ = 0;                  // whose places are in the maps; level 0: nobody's
  bool torn_ = false;                            // a run was added in part only: there was no memory
  Array<uint64_t> met_;                          // scratch: a bit for each vertex of a part, or row
  Array<int32_t> moves_;                         // scratch: from rows by first appearance to the final ones
  Array<int32_t> ranks_;                         // scratch: of rows sent
  std::vector<Array<int32_t>> sent_places_;      // scratch: [P] from places by first appearance to the final ones
  Array<RemoteEdge> remote_;                     // scratch: edges of a run that come from other parts
  std::vector<Array<RemoteEdge>> remote_edges_;  // [P], of the hop at work
  std::optional<PartialSums> sums_;              // none: rows alone are sent
};

template <class Index, class Map>
size_t MappedSplitter<Index, Map>::owner(int64_t vertex) const {
  const size_t parts = offsets_.size() - 1;
  if (parts > 16) return std::upper_bound(offsets_.begin() + 1, offsets_.end() - 1, vertex) - offsets_.begin() - 1;
  size_t part = 0;
  for (size_t i = 1; i < parts; ++i) part += vertex >= offsets_[i];
  return part;
}

template <class Index, class Map>
int32_t MappedSplitter<Index, Map>::row_at_owner(int64_t vertex, size_t owner) {
  int32_t& row = rows_[owner][vertex - offsets_[owner]];
  if (row < 0) {
    row = checked_row(this->splits_[owner].vertices.size());
    this->splits_[owner].vertices.push_back(vertex);
  }
  return row;
}

template <class Index, class Map>
void MappedSplitter<Index, Map>::start(size_t layers, std::span<const int64_t> targets,
                                       std::span<const int64_t> others) {
  const size_t parts = this->splits_.size();
  if (!torn_) forget_places();
  for (size_t part = 0; part < parts; ++part) {
    Split& split = this->splits_[part];
    if (torn_) {
      rows_[part].clear_all();
      places_[part].clear_all();
    } else {
      rows_[part].clear(split.vertices.size(), [&](size_t i) { return split.vertices[i] - offsets_[part]; });
    }
    split.vertices.clear();
    split.level_sizes.assign(layers + 1, 0);
    split.shared_layer = 0;
    split.layers.resize(layers + 1);
    for (LayerSplit& layer : split.layers) {
      layer.indptr.clear();
      layer.indices.clear();
      layer.edge_ids.clear();
      layer.scales.clear();
      layer.send_rows.resize(parts);
      layer.send_ends.resize(parts);
      layer.send_ids.resize(parts);
      for (auto& rows : layer.send_rows) rows.clear();
      for (auto& ends : layer.send_ends) ends.clear();
      for (auto& ids : layer.send_ids) ids.clear();
      layer.own_edges = layer.summed_edges = layer.drawn_edges = 0;
      layer.in_degrees.clear();
      layer.moved_rows.clear();
      layer.moved_ids.clear();
    }
    remote_edges_[part].clear();
  }
  level_ = 0;
  torn_ = false;
  add_first("target", targets);
  for (Split& split : this->splits_) {
    split.level_sizes[layers] = static_cast<int64_t>(split.vertices.size());
    for (size_t level = 1; level <= layers; ++level) split.layers[level].indptr.push_back(0);
  }
  add_first("vertex", others);
  for (size_t part = 0; part < parts; ++part) numbered_[part] = this->splits_[part].vertices.size();
}

/// Gives rows to vertices that no edge leads to yet.
template <class Index, class Map>
void MappedSplitter<Index, Map>::add_first(const char* what, std::span<const int64_t> vertices) {
  const int64_t n = offsets_.back();
  for (int64_t vertex : vertices) {
    if (vertex < 0 || vertex >= n)
      throw std::invalid_argument(std::string(what) + " " + std::to_string(vertex) + " is not a vertex; there are " +
                                  std::to_string(n));
    const size_t part = owner(vertex);
    const size_t before = this->splits_[part].vertices.size();
    row_at_owner(vertex, part);
    if (this->splits_[part].vertices.size() == before)
      throw std::invalid_argument(std::string(what) + " " + std::to_string(vertex) + " is given twice");
  }
}

template <class Index, class Map>
void MappedSplitter<Index, Map>::forget_places() {
  if (level_ == 0) return;
  for (size_t from = 0; from < this->splits_.size(); ++from) {
    const auto& vertices = this->splits_[from].vertices;
    const auto& sent = this->splits_[from].layers[level_].send_rows[part_];
    places_[from].clear(sent.size(), [&](size_t i) { return vertices[sent[i]] - offsets_[from]; });
  }
  level_ = 0;
}

template <class Index, class Map>
void MappedSplitter<Index, Map>::add(const Drawn<Index>& drawn, size_t level) {
  const size_t part = drawn.run.part;
  Split& split = this->splits_[part];
  LayerSplit& block = split.layers[level];
  const std::span<const Index> neighbours(drawn.neighbours);
  const size_t first = block.indices.size();
  const size_t count = neighbours.size();
  checked_row(first + count);
  if (part != part_ || level != level_) {
    forget_places();
    part_ = part;
    level_ = level;
  }

  int32_t end = block.indptr.back();
  make_room(block.indptr, split.level_sizes[level] + 1);
  for (int32_t degree : drawn.counts) block.indptr.push_back(end += degree);
  if (!drawn.positions.empty()) {
    make_room(block.edge_ids, first + count);
    block.edge_ids.insert(block.edge_ids.end(), drawn.positions.begin(), drawn.positions.end());
  }
  make_room(block.indices, first + count);
  block.indices.resize(first + count);

  torn_ = true;

  // Vertices of the part itself; the others are noted. Their rows belong to other splits, so the order in which
  // the two kinds are handled makes no difference.
  int32_t* rows = block.indices.data() + first;
  const auto begin = static_cast<uint64_t>(offsets_[part]);
  const uint64_t size = static_cast<uint64_t>(offsets_[part + 1]) - begin;
  const auto num_vertices = static_cast<size_t>(split.vertices.size());
  const size_t room = std::min<size_t>(size, num_vertices + count);
  checked_row(room);
  split.vertices.resize(room);
  int64_t* vertices = split.vertices.data();
  auto next = static_cast<int32_t>(num_vertices);
  Map& map = rows_[part];
  remote_.resize(count);
  size_t num_remote = 0;
  const auto key_of = [&](size_t i) { return static_cast<uint64_t>(neighbours[i]) - begin; };
  const auto look_ahead = [&](size_t i) {
    const uint64_t key = key_of(i);
    map.prefetch(key < size ? key : 0);
  };
  for (size_t i = 0; i < std::min(LOOK_AHEAD, count); ++i) look_ahead(i);
  for (size_t i = 0; i < count; ++i) {
    if (i + LOOK_AHEAD < count) look_ahead(i + LOOK_AHEAD);
    const uint64_t key = key_of(i);
    if (key >= size) {
      remote_[num_remote++].edge = static_cast<int32_t>(i);
      continue;
    }
    int32_t& row = map[key];
    if (row < 0) {
      row = next;
      vertices[next++] = static_cast<int64_t>(key + begin);
    }
    rows[i] = row;
  }
  split.vertices.resize(next);
  remote_.resize(num_remote);
  if (!remote_.empty()) add_remote(part, level, neighbours, first);
  torn_ = false;
}

/// The noted edges: the source is a row that its owner sends to `part`.
template <class Index, class Map>
void MappedSplitter<Index, Map>::add_remote(size_t part, size_t level, std::span<const Index> neighbours,
                                            size_t first) {
  int32_t* rows = this->splits_[part].layers[level].indices.data() + first;
  const size_t count = remote_.size();
  const size_t before = remote_edges_[part].size();
  make_room(remote_edges_[part], before + count);
  remote_edges_[part].resize(before + count);
  const auto look_ahead = [&](RemoteEdge& remote) {
    const int64_t vertex = neighbours[remote.edge];
    const size_t from = owner(vertex);
    remote.owner = static_cast<int32_t>(from);
    places_[from].prefetch(vertex - offsets_[from]);
    rows_[from].prefetch(vertex - offsets_[from]);
  };
  for (size_t j = 0; j < std::min(LOOK_AHEAD, count); ++j) look_ahead(remote_[j]);
  for (size_t j = 0; j < count; ++j) {
    if (j + LOOK_AHEAD < count) look_ahead(remote_[j + LOOK_AHEAD]);
    const auto [edge, from] = remote_[j];
    const int64_t vertex = neighbours[edge];
    int32_t& place = places_[from][vertex - offsets_[from]];
    if (place < 0) {
      auto& rows_to_send = this->splits_[from].layers[level].send_rows[part];
      rows_to_send.push_back(row_at_owner(vertex, from));
      place = static_cast<int32_t>(rows_to_send.size()) - 1;
    }
    rows[edge] = ~place;
    remote_edges_[part][before + j] = {static_cast<int32_t>(first) + edge, from};
  }
}

/// Calls use(number) with the number of each bit that is set, ascending.
template <class Use>
void each_bit(const Array<uint64_t>& bits, Use use) {
  for (size_t word = 0; word < bits.size(); ++word)
    for (uint64_t left = bits[word]; left != 0; left &= left - 1)
      use(static_cast<int64_t>(64 * word) + std::countr_zero(left));
}

/// Sorts vertices of a part that begins at `begin`. bits: scratch.
void sort_ids(std::span<int64_t> vertices, int64_t begin, size_t size, Array<uint64_t>& bits) {
  if (vertices.size() < size / 64) return std::sort(vertices.begin(), vertices.end());
  bits.assign(size / 64 + 1, 0);
  for (const int64_t vertex : vertices) bits[(vertex - begin) >> 6] |= uint64_t{1} << ((vertex - begin) & 63);
  auto next = vertices.begin();
  each_bit(bits, [&](int64_t number) { *next++ = begin + number; });
}

/// Gives the vertices that a hop met their final rows: their ids ascend.
template <class Index, class Map>
void MappedSplitter<Index, Map>::sort_met(size_t part, size_t level) {
  Split& split = this->splits_[part];
  const auto first = static_cast<int32_t>(numbered_[part]);
  const std::span<int64_t> met(split.vertices.begin() + first, split.vertices.end());
  if (met.empty()) return;
  const int64_t begin = offsets_[part];
  sort_ids(met, begin, offsets_[part + 1] - begin, met_);
  moves_.resize(met.size() + 1);
  moves_[0] = 0;  // of all rows that were final before
  for (size_t i = 0; i < met.size(); ++i) {
    if (i + LOOK_AHEAD < met.size()) rows_[part].prefetch(met[i + LOOK_AHEAD] - begin);
    int32_t& row = rows_[part][met[i] - begin];
    const int32_t final_row = first + static_cast<int32_t>(i);
    moves_[row - first + 1] = final_row - row;
    row = final_row;
  }
  numbered_[part] += met.size();
  const int32_t* moves = moves_.data();
  const auto finish = [first, moves](Array<int32_t>& rows) {
    for (int32_t& row : rows) {
      const int64_t at = int64_t{row} - (first - 1);
      row +=
          moves[at & ~(at >> 63)];  // at, but 0 below that; a compiler's branch would be guessed wrong half the time
    }
  };
  LayerSplit& layer = split.layers[level];
  finish(layer.indices);
  for (auto& rows : layer.send_rows) finish(rows);
}

/// Lets the rows ascend that each split sends a receiver.
template <class Index, class Map>
void MappedSplitter<Index, Map>::sort_sent(size_t receiver, size_t level) {
  sent_places_.resize(this->splits_.size());
  for (size_t from = 0; from < this->splits_.size(); ++from) {
    Array<int32_t>& sent = this->splits_[from].layers[level].send_rows[receiver];
    met_.assign(numbered_[from] / 64 + 1, 0);
    for (const int32_t row : sent) met_[row >> 6] |= uint64_t{1} << (row & 63);
    ranks_.resize(met_.size());  // of the first row of each word
    int32_t before = 0;
    for (size_t word = 0; word < met_.size(); before += std::popcount(met_[word++])) ranks_[word] = before;
    sent_places_[from].resize(sent.size());
    for (size_t place = 0; place < sent.size(); ++place) {
      const int32_t row = sent[place];
      const uint64_t lower = met_[row >> 6] & ((uint64_t{1} << (row & 63)) - 1);
      sent_places_[from][place] = ranks_[row >> 6] + std::popcount(lower);
    }
    auto next = sent.begin();
    each_bit(met_, [&](int64_t row) { *next++ = static_cast<int32_t>(row); });
  }
  int32_t* places = this->splits_[receiver].layers[level].indices.data();
  for (const auto& [edge, owner] : remote_edges_[receiver]) places[edge] = ~sent_places_[owner][~places[edge]];
}

template <class Index, class Map>
void MappedSplitter<Index, Map>::end_hop(size_t level) {
  const size_t parts = this->splits_.size();
  torn_ = true;
  for (size_t part = 0; this->by_id_ && part < parts; ++part) sort_met(part, level);
  for (size_t part = 0; this->by_id_ && part < parts; ++part) sort_sent(part, level);
  for (Split& split : this->splits_) {
    split.level_sizes[level - 1] = static_cast<int64_t>(split.vertices.size());
    split.layers[level].drawn_edges = static_cast<int64_t>(split.layers[level].indices.size());
  }
  if (sums_) {
    forget_places();  // while send_rows say which there are
    for (size_t part = 0; part < parts; ++part) sums_->put(this->splits_, level, part, remote_edges_[part]);
  }
  std::vector<int32_t> base(parts);
  for (size_t part = 0; part < parts; ++part) {
    LayerSplit& layer = this->splits_[part].layers[level];
    layer.own_edges = static_cast<int64_t>(layer.indices.size() - remote_edges_[part].size());
    auto next = static_cast<size_t>(this->splits_[part].level_sizes[level - 1]);
    for (size_t from = 0; from < parts; ++from) {
      base[from] = checked_row(next);
      next += this->splits_[from].layers[level].rows_sent(part);
    }
    checked_row(next);
    int32_t* rows = layer.indices.data();
    for (const auto& [edge, owner] : remote_edges_[part]) rows[edge] = base[owner] + ~rows[edge];
    remote_edges_[part].clear();
  }
  torn_ = false;
}

}  // namespace

template <class Index>
std::unique_ptr<Splitter<Index>> make_splitter(const std::vector<int64_t>& offsets, int64_t memory,
                                               bool partial_sums) {
  if (memory >= 0 && dense_bytes(offsets) > memory)
    return std::make_unique<MappedSplitter<Index, HashMap>>(offsets, partial_sums);
  return std::make_unique<MappedSplitter<Index, DenseMap>>(offsets, partial_sums);
}

template std::unique_ptr<Splitter<int32_t>> make_splitter(const std::vector<int64_t>&, int64_t, bool);
template std::unique_ptr<Splitter<int64_t>> make_splitter(const std::vector<int64_t>&, int64_t, bool);

}  // namespace gsplit
