#include "splitter.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <stdexcept>
#include <string>

#include "id_order.hpp"
#include "partial_sums.hpp"
#include "row_map.hpp"

namespace gsplit {
namespace {

constexpr size_t LOOK_AHEAD = 64;  // edges whose map entry is fetched early

template <class Index, class Map>
class MappedSplitter final : public Splitter<Index> {
 public:
  MappedSplitter(const TypedGraph<Index>& graph, bool partial_sums) : types_(graph.types) {
    const size_t parts = graph.parts();
    if (partial_sums && parts > 1) sums_.emplace();
    for (const Relation<Index>& relation : graph.relations)
      relations_.push_back({relation.source, relation.destination});
    this->splits_.resize(parts);
    remote_edges_.resize(parts);
    for (size_t part = 0; part < parts; ++part) {
      this->splits_[part].cells.resize(types_.size());
      remote_edges_[part].resize(relations_.size());
    }
    for (size_t type = 0; type < types_.size(); ++type) {
      const auto& offsets = types_[type].offsets;
      Numbering& numbering = numberings_.emplace_back();
      numbering.numbered.resize(parts);
      for (size_t part = 0; part < parts; ++part) {
        const auto size = static_cast<size_t>(offsets[part + 1] - offsets[part]);
        this->splits_[part].cells[type].vertices.reserve(size);
        numbering.rows.emplace_back(size);
        numbering.places.emplace_back(parts > 1 ? size : 0);
      }
    }
  }

  void start(size_t layers, size_t type, std::span<const int64_t> targets, std::span<const int64_t> others) override;
  void add(const Drawn<Index>& drawn, size_t level) override;
  void end_hop(size_t level) override;

 private:
  /// From the vertices of a type to numbers.
  struct Numbering {
    std::vector<Map> rows;         // [P] row of a vertex in its owner's list
    std::vector<Map> places;       // [P] its place among the rows sent to the split at work
    std::vector<size_t> numbered;  // [P] vertices whose rows are final
  };

  void add_remote(const Run& run, size_t level, std::span<const Index> neighbours, size_t first);
  void sort_met(size_t part, size_t level, size_t type);
  void sort_sent(size_t receiver, size_t level, size_t type);
  void place_received(size_t part, size_t level);
  void add_first(const char* what, size_t type, std::span<const int64_t> vertices);
  void forget_places();

  std::vector<VertexType> types_;            // [T]
  std::vector<Ends> relations_;              // [R]
  std::vector<Numbering> numberings_;        // [T]
  size_t part_ = 0, level_ = 0;              // whose places are in the maps; level 0: nobody's
  bool torn_ = false;                        // a run was added in part only: there was no memory
  Array<uint64_t> met_;                      // scratch: a bit for each vertex of a cell, or row
  Array<int32_t> moves_;                     // scratch: from rows by first appearance to the final ones
  Array<int32_t> ranks_;                     // scratch: of rows sent
  std::vector<Array<int32_t>> sent_places_;  // scratch: [P] from places by first appearance to the final ones
  Array<RemoteEdge> remote_;                 // scratch: edges of a run that come from other parts
  std::vector<std::vector<Array<RemoteEdge>>> remote_edges_;  // [P][R], of the hop at work
  std::optional<PartialSums> sums_;                           // none: rows alone are sent
};

template <class Index, class Map>
void MappedSplitter<Index, Map>::start(size_t layers, size_t type, std::span<const int64_t> targets,
                                       std::span<const int64_t> others) {
  const size_t parts = this->splits_.size();
  if (!torn_) forget_places();
  for (size_t part = 0; part < parts; ++part) {
    Split& split = this->splits_[part];
    for (size_t t = 0; t < types_.size(); ++t) {
      CellSplit& cell = split.cells[t];
      Numbering& numbering = numberings_[t];
      if (torn_) {
        numbering.rows[part].clear_all();
        numbering.places[part].clear_all();
      } else {
        const int64_t begin = types_[t].offsets[part];
        numbering.rows[part].clear(cell.vertices.size(), [&](size_t i) { return cell.vertices[i] - begin; });
      }
      cell.vertices.clear();
      cell.level_sizes.assign(layers + 1, 0);
    }
    split.shared_layer = 0;
    split.layers.resize(layers + 1);
    for (LayerSplit& layer : split.layers) {
      layer.scales.clear();
      layer.blocks.resize(relations_.size());
      for (BlockSplit& block : layer.blocks) block.clear();
      layer.sends.resize(types_.size());
      for (SendSplit& sends : layer.sends) sends.clear(parts);
    }
    for (auto& edges : remote_edges_[part]) edges.clear();
  }
  level_ = 0;
  torn_ = false;
  add_first("target", type, targets);
  for (Split& split : this->splits_) {
    CellSplit& cell = split.cells[type];
    cell.level_sizes[layers] = static_cast<int64_t>(cell.vertices.size());
    for (size_t level = 1; level <= layers; ++level)
      for (BlockSplit& block : split.layers[level].blocks) block.indptr.push_back(0);
  }
  add_first("vertex", type, others);
  for (size_t t = 0; t < types_.size(); ++t)
    for (size_t part = 0; part < parts; ++part)
      numberings_[t].numbered[part] = this->splits_[part].cells[t].vertices.size();
}

/// Gives rows to vertices that no edge leads to yet.
template <class Index, class Map>
void MappedSplitter<Index, Map>::add_first(const char* what, size_t type, std::span<const int64_t> vertices) {
  const auto& [name, _, offsets] = types_[type];
  const int64_t n = offsets.back();
  for (int64_t vertex : vertices) {
    if (vertex < 0 || vertex >= n)
      throw std::invalid_argument(std::string(what) + " " + std::to_string(vertex) + " is not a vertex" +
                                  (name.empty() ? "" : " of type " + name) + "; there are " + std::to_string(n));
    const size_t part = owner_in(offsets, vertex);
    auto& own = this->splits_[part].cells[type].vertices;
    const size_t before = own.size();
    row_at_owner(numberings_[type].rows[part], own, vertex, vertex - offsets[part]);
    if (own.size() == before)
      throw std::invalid_argument(std::string(what) + " " + std::to_string(vertex) +
                                  (name.empty() ? "" : " of type " + name) + " is given twice");
  }
}

template <class Index, class Map>
void MappedSplitter<Index, Map>::forget_places() {
  if (level_ == 0) return;
  for (size_t type = 0; type < types_.size(); ++type)
    for (size_t from = 0; from < this->splits_.size(); ++from) {
      const auto& vertices = this->splits_[from].cells[type].vertices;
      const auto& sent = this->splits_[from].layers[level_].sends[type].rows[part_];
      const int64_t begin = types_[type].offsets[from];
      numberings_[type].places[from].clear(sent.size(), [&](size_t i) { return vertices[sent[i]] - begin; });
    }
  level_ = 0;
}

template <class Index, class Map>
void MappedSplitter<Index, Map>::add(const Drawn<Index>& drawn, size_t level) {
  const size_t part = drawn.run.part;
  const auto [source, destination] = relations_[drawn.run.relation];
  Split& split = this->splits_[part];
  CellSplit& cell = split.cells[source];
  BlockSplit& block = split.layers[level].blocks[drawn.run.relation];
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
  make_room(block.indptr, split.cells[destination].level_sizes[level] + 1);
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
  const auto& offsets = types_[source].offsets;
  const auto begin = static_cast<uint64_t>(offsets[part]);
  const uint64_t size = static_cast<uint64_t>(offsets[part + 1]) - begin;
  const size_t num_vertices = cell.vertices.size();
  const size_t room = std::min<size_t>(size, num_vertices + count);
  checked_row(room);
  cell.vertices.resize(room);
  int64_t* vertices = cell.vertices.data();
  auto next = static_cast<int32_t>(num_vertices);
  Map& map = numberings_[source].rows[part];
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
  cell.vertices.resize(next);
  remote_.resize(num_remote);
  if (!remote_.empty()) add_remote(drawn.run, level, neighbours, first);
  torn_ = false;
}

/// The noted edges: the source is a row that its owner sends to the part of the run.
template <class Index, class Map>
void MappedSplitter<Index, Map>::add_remote(const Run& run, size_t level, std::span<const Index> neighbours,
                                            size_t first) {
  const size_t part = run.part, type = relations_[run.relation].source;
  const std::vector<int64_t>& offsets = types_[type].offsets;
  Map* const own_rows = numberings_[type].rows.data();
  Map* const places = numberings_[type].places.data();
  int32_t* rows = this->splits_[part].layers[level].blocks[run.relation].indices.data() + first;
  const size_t count = remote_.size();
  Array<RemoteEdge>& remote_edges = remote_edges_[part][run.relation];
  const size_t before = remote_edges.size();
  make_room(remote_edges, before + count);
  remote_edges.resize(before + count);
  RemoteEdge* const noted = remote_edges.data() + before;
  const auto look_ahead = [&](RemoteEdge& remote) {
    const int64_t vertex = neighbours[remote.edge];
    const size_t from = owner_in(offsets, vertex);
    remote.owner = static_cast<int32_t>(from);
    places[from].prefetch(vertex - offsets[from]);
    own_rows[from].prefetch(vertex - offsets[from]);
  };
  for (size_t j = 0; j < std::min(LOOK_AHEAD, count); ++j) look_ahead(remote_[j]);
  for (size_t j = 0; j < count; ++j) {
    if (j + LOOK_AHEAD < count) look_ahead(remote_[j + LOOK_AHEAD]);
    const auto [edge, from] = remote_[j];
    const int64_t vertex = neighbours[edge];
    const int64_t rank = vertex - offsets[from];
    int32_t& place = places[from][rank];
    if (place < 0) {
      Split& owner = this->splits_[from];
      auto& rows_to_send = owner.layers[level].sends[type].rows[part];
      rows_to_send.push_back(row_at_owner(own_rows[from], owner.cells[type].vertices, vertex, rank));
      place = static_cast<int32_t>(rows_to_send.size()) - 1;
    }
    rows[edge] = ~place;
    noted[j] = {static_cast<int32_t>(first) + edge, from};
  }
}

/// Gives the vertices that a hop met their final rows: their ids ascend.
template <class Index, class Map>
void MappedSplitter<Index, Map>::sort_met(size_t part, size_t level, size_t type) {
  auto& vertices = this->splits_[part].cells[type].vertices;
  Numbering& numbering = numberings_[type];
  const auto first = static_cast<int32_t>(numbering.numbered[part]);
  const std::span<int64_t> met(vertices.begin() + first, vertices.end());
  if (met.empty()) return;
  const int64_t begin = types_[type].offsets[part];
  sort_ids(met, begin, types_[type].offsets[part + 1] - begin, met_);
  Map& map = numbering.rows[part];
  moves_.resize(met.size() + 1);
  moves_[0] = 0;  // of all rows that were final before
  for (size_t i = 0; i < met.size(); ++i) {
    if (i + LOOK_AHEAD < met.size()) map.prefetch(met[i + LOOK_AHEAD] - begin);
    int32_t& row = map[met[i] - begin];
    const int32_t final_row = first + static_cast<int32_t>(i);
    moves_[row - first + 1] = final_row - row;
    row = final_row;
  }
  numbering.numbered[part] += met.size();
  const int32_t* moves = moves_.data();
  const auto finish = [first, moves](Array<int32_t>& rows) {
    for (int32_t& row : rows) {
      const int64_t at = int64_t{row} - (first - 1);
      row +=
          moves[at & ~(at >> 63)];  // at, but 0 below that; a compiler's branch would be guessed wrong half the time
    }
  };
  LayerSplit& layer = this->splits_[part].layers[level];
  for (size_t relation = 0; relation < relations_.size(); ++relation)
    if (relations_[relation].source == type) finish(layer.blocks[relation].indices);
  for (auto& rows : layer.sends[type].rows) finish(rows);
}

/// Lets the rows ascend that each split sends a receiver.
template <class Index, class Map>
void MappedSplitter<Index, Map>::sort_sent(size_t receiver, size_t level, size_t type) {
  sent_places_.resize(this->splits_.size());
  for (size_t from = 0; from < this->splits_.size(); ++from) {
    Array<int32_t>& sent = this->splits_[from].layers[level].sends[type].rows[receiver];
    met_.assign(numberings_[type].numbered[from] / 64 + 1, 0);
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
  for (size_t relation = 0; relation < relations_.size(); ++relation) {
    if (relations_[relation].source != type) continue;
    int32_t* places = this->splits_[receiver].layers[level].blocks[relation].indices.data();
    for (const auto& [edge, owner] : remote_edges_[receiver][relation])
      places[edge] = ~sent_places_[owner][~places[edge]];
  }
}

template <class Index, class Map>
void MappedSplitter<Index, Map>::end_hop(size_t level) {
  const size_t parts = this->splits_.size();
  torn_ = true;
  for (size_t type = 0; this->by_id_ && type < types_.size(); ++type) {
    for (size_t part = 0; part < parts; ++part) sort_met(part, level, type);
    for (size_t part = 0; part < parts; ++part) sort_sent(part, level, type);
  }
  for (Split& split : this->splits_) {
    for (CellSplit& cell : split.cells) cell.level_sizes[level - 1] = static_cast<int64_t>(cell.vertices.size());
    for (BlockSplit& block : split.layers[level].blocks)
      block.drawn_edges = static_cast<int64_t>(block.indices.size());
  }
  if (sums_) {
    forget_places();  // while what is sent says which there are
    for (size_t part = 0; part < parts; ++part) sums_->put(this->splits_, level, part, remote_edges_[part][0]);
  }
  for (size_t part = 0; part < parts; ++part) place_received(part, level);
  torn_ = false;
}

/// Gives the rows that a split receives their numbers, behind its own: those of a type from part 0, 1, ...
template <class Index, class Map>
void MappedSplitter<Index, Map>::place_received(size_t part, size_t level) {
  const size_t parts = this->splits_.size();
  std::vector<int32_t> base(types_.size() * parts);
  for (size_t type = 0; type < types_.size(); ++type) {
    auto next = static_cast<size_t>(this->splits_[part].cells[type].level_sizes[level - 1]);
    for (size_t from = 0; from < parts; ++from) {
      base[type * parts + from] = checked_row(next);
      next += this->splits_[from].layers[level].sends[type].number(part);
    }
    checked_row(next);
  }
  for (size_t relation = 0; relation < relations_.size(); ++relation) {
    BlockSplit& block = this->splits_[part].layers[level].blocks[relation];
    Array<RemoteEdge>& remote = remote_edges_[part][relation];
    block.own_edges = static_cast<int64_t>(block.indices.size() - remote.size());
    const int32_t* first = base.data() + relations_[relation].source * parts;
    int32_t* rows = block.indices.data();
    for (const auto& [edge, owner] : remote) rows[edge] = first[owner] + ~rows[edge];
    remote.clear();
  }
}

}  // namespace

template <class Index>
std::unique_ptr<Splitter<Index>> make_splitter(const TypedGraph<Index>& graph, int64_t memory, bool partial_sums) {
  if (memory >= 0 && dense_bytes(graph.types) > memory)
    return std::make_unique<MappedSplitter<Index, HashMap>>(graph, partial_sums);
  return std::make_unique<MappedSplitter<Index, DenseMap>>(graph, partial_sums);
}

template std::unique_ptr<Splitter<int32_t>> make_splitter(const TypedGraph<int32_t>&, int64_t, bool);
template std::unique_ptr<Splitter<int64_t>> make_splitter(const TypedGraph<int64_t>&, int64_t, bool);

}  // namespace gsplit
