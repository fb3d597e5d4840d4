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

void check(const PairGroups& groups, size_t num_targets) {
  const size_t number = groups.sources.size();
  const bool whole = number > 0 && groups.own.size() % number == 0;
  if (groups.destinations.size() != number || groups.rows.size() != number || (!whole && !groups.own.empty()))
    throw std::invalid_argument("each pair needs a destination, a number and as many candidates as the others");
  const size_t each = number > 0 ? groups.own.size() / number + groups.shared.size() : 0;
  if (!groups.masked.empty() && groups.masked.size() != number * each)
    throw std::invalid_argument("the mask of candidates must have one entry for each candidate of each pair");
  for (const auto& [log_q, ends] : {std::pair(groups.own_log_q, groups.own), {groups.shared_log_q, groups.shared}})
    if (!log_q.empty() && log_q.size() != ends.size())
      throw std::invalid_argument("each candidate needs a number of how often it is expected");
  for (const auto& ends : {groups.sources, groups.destinations, groups.own, groups.shared})
    check_ends(ends, num_targets);
}

}  // namespace

std::vector<PairSplit> split_pairs(const std::vector<Split>& splits, std::span<const int64_t> offsets,
                                   std::span<const int64_t> targets, const PairGroups& groups) {
  check(groups, targets.size());
  const size_t parts = splits.size(), number = groups.sources.size();
  const size_t candidates = number > 0 ? groups.own.size() / number : 0;
  const size_t each = groups.masked.empty() ? 0 : candidates + groups.shared.size();
  const std::vector<Place> places = places_of(offsets, targets);
  std::vector<PairSplit> pairs(parts);
  for (PairSplit& split : pairs) {
    split.send_rows.resize(parts);
    split.candidates = static_cast<int64_t>(candidates);
    split.groups_of_all = groups.groups_of_all;
    split.negatives_of_all = groups.negatives_of_all;
    split.turned = groups.turned;
  }
  for (size_t group = 0; group < number; ++group) {
    PairSplit& split = pairs[places[groups.sources[group]].owner];
    split.sources.push_back(places[groups.sources[group]].row);
    split.destinations.push_back(groups.destinations[group]);
    split.rows.push_back(groups.rows[group]);
    const auto own = groups.own.subspan(group * candidates, candidates);
    split.own.insert(split.own.end(), own.begin(), own.end());
    if (!groups.own_log_q.empty()) {
      const auto log_q = groups.own_log_q.subspan(group * candidates, candidates);
      split.own_log_q.insert(split.own_log_q.end(), log_q.begin(), log_q.end());
    }
    const auto masked = groups.masked.subspan(group * each, each);
    split.masked.insert(split.masked.end(), masked.begin(), masked.end());
  }

  std::vector<int32_t> sent(targets.size(), -1);  // the place of a target among the rows sent to the split at work
  for (size_t part = 0; part < parts; ++part) {
    PairSplit& split = pairs[part];
    if (split.sources.empty()) continue;
    split.shared.assign(groups.shared.begin(), groups.shared.end());
    split.shared_log_q.assign(groups.shared_log_q.begin(), groups.shared_log_q.end());
    const auto all_ends = {&split.destinations, &split.own, &split.shared};
    for (const Array<int32_t>* ends : all_ends)
      for (int32_t end : *ends) {
        const auto [owner, row] = places[end];
        if (owner == static_cast<int32_t>(part) || sent[end] >= 0) continue;
        auto& rows = pairs[owner].send_rows[part];
        sent[end] = static_cast<int32_t>(rows.size());
        rows.push_back(row);
      }
    std::vector<int32_t> first(parts);  // row of the first that each peer sends
    auto next = static_cast<int32_t>(splits[part].level_sizes.back());
    for (size_t peer = 0; peer < parts; ++peer) {
      first[peer] = next;
      next += static_cast<int32_t>(pairs[peer].send_rows[part].size());
    }
    std::vector<int32_t> to_forget;
    for (Array<int32_t>* ends : {&split.destinations, &split.own, &split.shared})
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
