#include "partial_sums.hpp"

#include <span>

namespace gsplit {
namespace {

constexpr int32_t MOVED = INT32_MIN;  // in a block's indices: the edge is part of a sum, and not its first
constexpr int64_t NO_ID = -1;
constexpr size_t MOST_EDGES = (size_t{1} << 30) - 1;  // of a pair: the cover counts both ends in int32

}  // namespace

void PartialSums::put(std::vector<Split>& splits, size_t level, size_t receiver, Array<RemoteEdge>& remote) {
  BlockSplit& block = splits[receiver].layers[level].blocks[0];
  group(block, splits.size(), remote);
  bool changed = false;
  for (size_t owner = 0; owner < splits.size(); ++owner)
    if (begins_[owner] < begins_[owner + 1]) changed |= put_pair(splits, level, receiver, owner);
  if (changed) drop_moved(block, remote);
}

/// Sorts the remote edges by owner; those of one owner keep their order, so destinations ascend.
void PartialSums::group(const BlockSplit& block, size_t parts, const Array<RemoteEdge>& remote) {
  begins_.assign(parts + 1, 0);
  for (const RemoteEdge& edge : remote) ++begins_[edge.owner + 1];
  for (size_t owner = 0; owner < parts; ++owner) begins_[owner + 1] += begins_[owner];
  for (auto* values : {&edges_, &rows_, &sources_, &destinations_}) values->resize(remote.size());
  num_below_.assign(parts, 0);
  std::vector<size_t> next(begins_.begin(), begins_.end() - 1);
  int32_t row = 0;
  for (const auto& [edge, owner] : remote) {
    while (block.indptr[row + 1] <= edge) ++row;
    const size_t i = next[owner]++;
    if (i == begins_[owner] || rows_[i - 1] != row) ++num_below_[owner];
    edges_[i] = edge;
    rows_[i] = row;
    sources_[i] = ~block.indices[edge];
    destinations_[i] = static_cast<int32_t>(num_below_[owner]) - 1;
  }
}

/// Returns whether there are sums for this pair.
bool PartialSums::put_pair(std::vector<Split>& splits, size_t level, size_t receiver, size_t owner) {
  const size_t begin = begins_[owner], end = begins_[owner + 1];
  BlockSplit& block = splits[receiver].layers[level].blocks[0];
  SendSplit& from = splits[owner].layers[level].sends[0];
  Array<int32_t>& sent = from.rows[receiver];
  if (end - begin > MOST_EDGES) return false;
  cover_.find({sources_.data() + begin, end - begin}, {destinations_.data() + begin, end - begin}, sent.size(),
              num_below_[owner]);
  if (cover_.size() >= sent.size()) return false;

  const bool with_ids = !block.edge_ids.empty();
  Array<int32_t>& ends = from.ends[receiver];
  Array<int64_t>& ids = from.ids[receiver];
  kept_.clear();
  places_.resize(sent.size());
  for (size_t source = 0; source < sent.size(); ++source) {
    if (!cover_.has_source(source)) continue;
    places_[source] = static_cast<int32_t>(kept_.size());
    kept_.push_back(sent[source]);
    ends.push_back(static_cast<int32_t>(kept_.size()));
    if (with_ids) ids.push_back(NO_ID);
  }
  for (size_t i = begin; i < end;) {
    const int32_t destination = destinations_[i];
    const size_t first = kept_.size();
    for (; i < end && destinations_[i] == destination; ++i) {
      const int32_t edge = edges_[i], source = sources_[i];
      if (cover_.has_source(source)) {
        block.indices[edge] = ~places_[source];
        continue;
      }
      block.indices[edge] = kept_.size() == first ? ~static_cast<int32_t>(ends.size()) : MOVED;
      kept_.push_back(sent[source]);
      if (!with_ids) continue;
      ids.push_back(block.edge_ids[edge]);
      block.moved_rows.push_back(rows_[i]);
      block.moved_ids.push_back(block.edge_ids[edge]);
      block.edge_ids[edge] = NO_ID;
    }
    if (kept_.size() == first) continue;
    ends.push_back(static_cast<int32_t>(kept_.size()));
    from.summed_edges += static_cast<int64_t>(kept_.size() - first);
  }
  sent.swap(kept_);
  return true;
}

void PartialSums::drop_moved(BlockSplit& block, Array<RemoteEdge>& remote) {
  const size_t rows = block.indptr.size() - 1;
  const bool with_ids = !block.edge_ids.empty();
  block.in_degrees.resize(rows);
  size_t kept_remote = 0, next_remote = 0;
  int32_t edge = 0, kept = 0;
  for (size_t row = 0; row < rows; ++row) {
    const int32_t end = block.indptr[row + 1];
    block.in_degrees[row] = end - edge;
    for (; edge < end; ++edge) {
      const bool is_remote = next_remote < remote.size() && remote[next_remote].edge == edge;
      if (is_remote) ++next_remote;
      if (block.indices[edge] == MOVED) continue;
      if (is_remote) remote[kept_remote++] = {kept, remote[next_remote - 1].owner};
      block.indices[kept] = block.indices[edge];
      if (with_ids) block.edge_ids[kept] = block.edge_ids[edge];
      ++kept;
    }
    block.indptr[row + 1] = kept;
  }
  block.indices.resize(kept);
  if (with_ids) block.edge_ids.resize(kept);
  remote.resize(kept_remote);
}

}  // namespace gsplit
