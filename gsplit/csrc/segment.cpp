#include "segment.hpp"

#include <array>
#include <cstring>

#include "pair_block.hpp"

namespace gsplit {
namespace {

/// Walks the arrays of a segment in order; with a null buffer it only counts the bytes.
class Cursor {
 public:
  Cursor(uint8_t* out, int64_t start) : out_(out), offset_(start) {}

  /// Returns the offset at which an array was begun.
  template <class Values>
  int64_t put(const Values& values) {
    begin();
    const int64_t at = offset_;
    append(values);
    return at;
  }

  /// To the next 16-byte boundary; the gap is zeroed, so that equal splits are equal byte by byte.
  int64_t begin() {
    const int64_t next = (offset_ + 15) & ~int64_t{15};
    if (out_ != nullptr) std::memset(out_ + offset_, 0, next - offset_);
    return offset_ = next;
  }

  template <class Values>
  void append(const Values& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(values[0]));
    if (out_ != nullptr && bytes > 0) std::memcpy(out_ + offset_, values.data(), bytes);
    offset_ += bytes;
  }

  int64_t offset() const { return offset_; }

 private:
  uint8_t* out_;
  int64_t offset_;
};

/// Where the own rows of each row sent begin, over all receivers: [rows sent + 1].
Array<int32_t> send_indptr(const SendSplit& sends) {
  Array<int32_t> begins;
  begins.push_back(0);
  for (size_t q = 0; q < sends.rows.size(); ++q) {
    const int32_t base = begins.back();
    for (size_t i = 0; i < sends.number(q); ++i)
      begins.push_back(base + (sends.ends[q].empty() ? static_cast<int32_t>(i) + 1 : sends.ends[q][i]));
  }
  return begins;
}

/// The edge id of each own row that is sent or summed, over all receivers; -1 where it is sent as it is.
Array<int64_t> send_ids(const SendSplit& sends) {
  Array<int64_t> ids;
  for (size_t q = 0; q < sends.rows.size(); ++q) {
    if (sends.ends[q].empty()) ids.insert(ids.end(), sends.rows[q].size(), -1);
    else ids.insert(ids.end(), sends.ids[q].begin(), sends.ids[q].end());
  }
  return ids;
}

/// Writes what a layer has where sums are sent or received, which is with one type; returns where its words are, 0
/// where there is none.
int64_t put_sums(Cursor& cursor, const LayerSplit& layer, bool edge_ids) {
  const BlockSplit& block = layer.blocks[0];
  const SendSplit& sent = layer.sends[0];
  const bool sends = sent.summed_edges > 0, receives = !block.in_degrees.empty();
  if (!sends && !receives) return 0;
  int64_t num_send_rows = 0;
  for (const auto& rows : sent.rows) num_send_rows += static_cast<int64_t>(rows.size());
  const std::array<int64_t, SUMS_WORDS> words{
      block.drawn_edges,
      num_send_rows,
      sent.summed_edges,
      sends ? cursor.put(send_indptr(sent)) : 0,
      sends && edge_ids ? cursor.put(send_ids(sent)) : 0,
      receives ? cursor.put(block.in_degrees) : 0,
      static_cast<int64_t>(block.moved_rows.size()),
      receives && edge_ids ? cursor.put(block.moved_rows) : 0,
      receives && edge_ids ? cursor.put(block.moved_ids) : 0,
  };
  return cursor.put(words);
}

/// Writes the arrays of a layer; returns the words of its header. typed: a relation of which nothing was drawn has no
/// arrays.
std::vector<int64_t> put_layer(Cursor& cursor, const std::vector<Split>& splits, int rank, size_t l,
                               SegmentContents contents, bool typed) {
  const LayerSplit& layer = splits[rank].layers[l];
  std::vector<int64_t> words;
  const auto left_out = [&](const BlockSplit& block) { return typed && block.indices.empty(); };
  for (const BlockSplit& block : layer.blocks) {
    words.push_back(static_cast<int64_t>(block.indices.size()));
    words.push_back(block.own_edges);
    words.push_back(left_out(block) ? 0 : cursor.put(block.indptr));
    words.push_back(left_out(block) ? 0 : cursor.put(block.indices));
  }
  for (const SendSplit& sends : layer.sends) {
    words.push_back(cursor.begin());
    for (const auto& rows : sends.rows) cursor.append(rows);
  }
  for (const BlockSplit& block : layer.blocks)
    words.push_back(contents.edge_ids && !left_out(block) ? cursor.put(block.edge_ids) : 0);
  words.push_back(put_sums(cursor, layer, contents.edge_ids));
  if (contents.scales) words.push_back(cursor.put(layer.scales));
  for (size_t t = 0; t < layer.sends.size(); ++t) {
    for (size_t q = 0; q < splits.size(); ++q) words.push_back(static_cast<int64_t>(layer.sends[t].number(q)));
    for (const Split& peer : splits) words.push_back(static_cast<int64_t>(peer.layers[l].sends[t].number(rank)));
  }
  return words;
}

/// Writes the pairs that a split scores; returns where their words are.
int64_t put_pairs(Cursor& cursor, const std::vector<PairSplit>& pairs, int rank) {
  const PairSplit& own = pairs[rank];
  std::vector<int64_t> words{static_cast<int64_t>(own.sources.size()),
                             own.groups_of_all,
                             own.negatives_of_all,
                             own.candidates,
                             own.of_chunk,
                             static_cast<int64_t>(own.chunk_groups.size()),
                             own.own_at_source,
                             own.shared_at_source,
                             own.turned,
                             own.apart,
                             own.left_out,
                             cursor.put(own.sources),
                             cursor.put(own.destinations),
                             cursor.put(own.own),
                             cursor.put(own.shared),
                             cursor.put(own.chunk_groups),
                             own.masked.empty() ? 0 : cursor.put(own.masked),
                             cursor.put(own.rows),
                             own.own_log_q.empty() ? 0 : cursor.put(own.own_log_q),
                             own.shared_log_q.empty() ? 0 : cursor.put(own.shared_log_q),
                             static_cast<int64_t>(own.excluded_rows.size()),
                             cursor.put(own.excluded_rows),
                             cursor.put(own.excluded_ids),
                             cursor.begin()};
  for (const auto& rows : own.send_rows) cursor.append(rows);
  for (const auto& rows : own.send_rows) words.push_back(static_cast<int64_t>(rows.size()));
  for (const PairSplit& peer : pairs) words.push_back(static_cast<int64_t>(peer.send_rows[rank].size()));
  return cursor.put(words);
}

int64_t lay_out(const SplitMiniBatch& batch, int rank, uint8_t* out) {
  const auto& [splits, relations, pairs, contents, id] = batch;
  const Split& split = splits[rank];
  const auto parts = static_cast<int64_t>(splits.size());
  const auto layers = static_cast<int64_t>(split.layers.size()) - 1;
  const auto num_types = static_cast<int64_t>(split.cells.size());
  const auto num_relations = static_cast<int64_t>(relations.size());
  const bool typed = num_types > 1 || num_relations > 1;
  const int64_t layer_words = 5 * num_relations + (1 + 2 * parts) * num_types + 1 + (contents.scales ? 1 : 0);
  const int64_t words = HEADER_FIXED_WORDS + (typed ? 3 + 2 * num_relations : 0) + num_types * (layers + 1) +
                        layers * layer_words + (pairs.empty() ? 0 : 1);
  const int64_t flags = (contents.edge_ids ? SEGMENT_HAS_EDGE_IDS : 0) | (contents.scales ? SEGMENT_HAS_SCALES : 0) |
                        (contents.sure_loops ? SEGMENT_SURE_LOOPS : 0) |
                        (contents.drawn_targets ? SEGMENT_DRAWN_TARGETS : 0) |
                        (pairs.empty() ? 0 : SEGMENT_HAS_PAIRS);

  std::vector<int64_t> header;
  header.reserve(words);
  Cursor cursor(out, words * 8);
  const int64_t vertices_at = cursor.begin();
  for (const CellSplit& cell : split.cells) cursor.append(cell.vertices);
  const int64_t version = typed ? TYPED_SEGMENT_VERSION : SEGMENT_VERSION;
  header = {SEGMENT_MAGIC, version,  /*total bytes*/ 0, parts, rank,        layers,
            id.epoch,      id.batch, id.num_targets,    flags, vertices_at, id.micro};
  if (typed) {
    header.insert(header.end(), {num_types, num_relations, id.target_type});
    for (const auto& [source, destination] : relations)
      header.insert(header.end(), {static_cast<int64_t>(source), static_cast<int64_t>(destination)});
  }
  for (const CellSplit& cell : split.cells)
    header.insert(header.end(), cell.level_sizes.begin(), cell.level_sizes.end());

  std::vector<int64_t> shared;  // the words of the layer whose block others have, too
  for (int64_t l = 1; l <= layers; ++l) {
    const bool is_shared = l <= static_cast<int64_t>(split.shared_layer);
    if (!is_shared || shared.empty()) {
      const std::vector<int64_t> of_layer =
          put_layer(cursor, splits, rank, is_shared ? split.shared_layer : l, contents, typed);
      header.insert(header.end(), of_layer.begin(), of_layer.end());
      if (is_shared) shared = of_layer;
    } else {
      header.insert(header.end(), shared.begin(), shared.end());
    }
  }
  if (!pairs.empty()) header.push_back(put_pairs(cursor, pairs, rank));
  const int64_t total = cursor.begin();
  header[2] = total;
  if (out != nullptr) std::memcpy(out, header.data(), header.size() * 8);
  return total;
}

}  // namespace

int64_t segment_bytes(const SplitMiniBatch& batch, int rank) { return lay_out(batch, rank, nullptr); }

void write_segment(const SplitMiniBatch& batch, int rank, uint8_t* out) { lay_out(batch, rank, out); }

}  // namespace gsplit
