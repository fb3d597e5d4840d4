#include "pair_block.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gsplit {
namespace {

/// Where a target lies: which split has it, and in which row.
struct Place {
  int32_t owner;
  int32_t row;
};

std::vector<Place> places_of(std::span<const int64_t> offsets, std::span<const int64_t> targets) {
  std::vector<Place> places;
  places.reserve(targets.size());
  std::vector<int32_t> next(offsets.size() - 1, 0);
  for (int64_t target : targets) {
    const auto owner =
        static_cast<int32_t>(std::upper_bound(offsets.begin() + 1, offsets.end() - 1, target) - offsets.begin() - 1);
    places.push_back({owner, next[owner]++});
  }
  return places;
}

void check_ends(std::span<const int32_t> ends, size_t num_targets) {
  for (int32_t end : ends)
    if (end < 0 || static_cast<size_t>(end) >= num_targets)
      throw std::invalid_argument("an end of a pair is none of the targets");
}

/// How many candidates all groups of a chunk share.
size_t shared_by_chunk(const PairGroups& groups) {
  if (groups.chunk < 1) throw std::invalid_argument("a chunk has at least one pair");
  const auto chunk = static_cast<size_t>(groups.chunk);
  const size_t chunks = std::max<size_t>(1, (groups.sources.size() + chunk - 1) / chunk);
  if (groups.shared.size() % chunks != 0)
    throw std::invalid_argument("each chunk of pairs needs as many candidates as the others");
  return groups.shared.size() / chunks;
}

void check(const PairGroups& groups, size_t num_targets) {
  const size_t number = groups.sources.size();
  const bool whole = number > 0 && groups.own.size() % number == 0;
  if (groups.destinations.size() != number || groups.rows.size() != number || (!whole && !groups.own.empty()))
    throw std::invalid_argument("each pair needs a destination, a number and as many candidates as the others");
  const size_t each = number > 0 ? groups.own.size() / number + shared_by_chunk(groups) : 0;
  if (!groups.masked.empty() && groups.masked.size() != number * each)
    throw std::invalid_argument("the mask of candidates must have one entry for each candidate of each pair");
  for (const auto& [log_q, ends] : {std::pair(groups.own_log_q, groups.own), {groups.shared_log_q, groups.shared}})
    if (!log_q.empty() && log_q.size() != ends.size())
      throw std::invalid_argument("each candidate needs a number of how often it is expected");
  if (groups.apart && !groups.shared.empty())
    throw std::invalid_argument("candidates that pairs share are scored with the pairs");
  for (const auto& ends : {groups.sources, groups.destinations, groups.own, groups.shared})
    check_ends(ends, num_targets);
}

/// Appends row i of values [n, width].
template <class T>
void append(Array<T>& to, std::span<const T> values, size_t i, size_t width) {
  const auto row = values.subspan(i * width, width);
  to.insert(to.end(), row.begin(), row.end());
}

/// Gives each group to the owner of its source.
void put_groups(const PairGroups& groups, const std::vector<Place>& places, std::vector<PairSplit>& pairs) {
  const size_t number = groups.sources.size(), candidates = number > 0 ? groups.own.size() / number : 0;
  const size_t of_chunk = shared_by_chunk(groups), chunk = groups.chunk;
  const size_t each = groups.masked.empty() ? 0 : candidates + of_chunk;
  for (PairSplit& split : pairs) {
    split.candidates = static_cast<int64_t>(candidates);
    split.of_chunk = static_cast<int64_t>(of_chunk);
    split.own_at_source = groups.own_at_source;
    split.shared_at_source = groups.shared_at_source;
  }
  std::vector<size_t> last_chunk(pairs.size(), number);  // that a split has shared candidates of
  for (size_t group = 0; group < number; ++group) {
    const int32_t owner = places[groups.sources[group]].owner;
    PairSplit& split = pairs[owner];
    if (const size_t of_group = group / chunk; std::exchange(last_chunk[owner], of_group) != of_group) {
      append(split.shared, groups.shared, of_group, of_chunk);
      if (!groups.shared_log_q.empty()) append(split.shared_log_q, groups.shared_log_q, of_group, of_chunk);
      split.chunk_groups.push_back(0);
    }
    ++split.chunk_groups.back();
    split.sources.push_back(places[groups.sources[group]].row);
    split.destinations.push_back(groups.destinations[group]);
    split.rows.push_back(groups.rows[group]);
    append(split.own, groups.own, group, candidates);
    if (!groups.own_log_q.empty()) append(split.own_log_q, groups.own_log_q, group, candidates);
    append(split.masked, groups.masked, group, each);
  }
}

/// Gives each pair to the owner of its destination, and then each candidate that counts to its own, with the end of
/// the pair that stays: those that take the place of sources last.
void put_apart(const PairGroups& groups, const std::vector<Place>& places, std::vector<PairSplit>& pairs) {
  const auto put = [&](size_t group, int32_t stays, int32_t end) -> PairSplit& {
    PairSplit& split = pairs[places[end].owner];
    split.sources.push_back(stays);
    split.destinations.push_back(places[end].row);
    split.rows.push_back(groups.rows[group]);
    return split;
  };
  const size_t number = groups.sources.size(), candidates = number > 0 ? groups.own.size() / number : 0;
  const size_t at_destination = candidates - groups.own_at_source;
  for (size_t group = 0; group < number; ++group) put(group, groups.sources[group], groups.destinations[group]);
  for (const bool at_source : {false, true})
    for (size_t at = 0; at < groups.own.size(); ++at) {
      if ((at % candidates >= at_destination) != at_source) continue;
      const size_t group = at / candidates;
      if (!groups.masked.empty() && groups.masked[at] != 0) {
        ++pairs[places[groups.own[at]].owner].left_out;
      } else {
        PairSplit& split = put(group, (at_source ? groups.destinations : groups.sources)[group], groups.own[at]);
        ++split.apart;
        split.own_at_source += at_source;
      }
    }
}

}  // namespace

std::vector<PairSplit> split_pairs(const std::vector<Split>& splits, std::span<const int64_t> offsets,
                                   std::span<const int64_t> targets, const PairGroups& groups) {
  check(groups, targets.size());
  const size_t parts = splits.size();
  const std::vector<Place> places = places_of(offsets, targets);
  std::vector<PairSplit> pairs(parts);
  for (PairSplit& split : pairs) {
    split.send_rows.resize(parts);
    split.groups_of_all = groups.groups_of_all;
    split.negatives_of_all = groups.negatives_of_all;
    split.turned = groups.turned;
  }
  (groups.apart ? put_apart : put_groups)(groups, places, pairs);

  std::vector<int32_t> sent(targets.size(), -1);  // the place of a target among the rows sent to the split at work
  for (size_t part = 0; part < parts; ++part) {
    PairSplit& split = pairs[part];
    if (split.sources.empty()) continue;
    const std::vector<Array<int32_t>*> all_ends =
        groups.apart ? std::vector{&split.sources} : std::vector{&split.destinations, &split.own, &split.shared};
    for (const Array<int32_t>* ends : all_ends)
      for (int32_t end : *ends) {
        const auto [owner, row] = places[end];
        if (owner == static_cast<int32_t>(part) || sent[end] >= 0) continue;
        auto& rows = pairs[owner].send_rows[part];
        sent[end] = static_cast<int32_t>(rows.size());
        rows.push_back(row);
      }
    std::vector<int32_t> first(parts);  // row of the first that each peer sends
    auto next = static_cast<int32_t>(splits[part].cells[0].level_sizes.back());
    for (size_t peer = 0; peer < parts; ++peer) {
      first[peer] = next;
      next += static_cast<int32_t>(pairs[peer].send_rows[part].size());
    }
    std::vector<int32_t> to_forget;
    for (Array<int32_t>* ends : all_ends)
      for (int32_t& end : *ends) {
        const auto [owner, row] = places[end];
        if (owner == static_cast<int32_t>(part)) {
          end = row;
        } else {
          to_forget.push_back(end);
          end = first[owner] + sent[end];
        }
      }
    for (int32_t end : to_forget) sent[end] = -1;
  }
  return pairs;
}

}  // namespace gsplit
