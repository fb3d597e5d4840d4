#include "stream.hpp"

#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "random.hpp"

namespace gsplit {
namespace {

constexpr size_t LOOK_AHEAD = 16;  // edges whose group is fetched early: a cache miss each

/// The loads with the vertex at hand taken out, and what it would do to them.
struct Vertex {
  const StreamGroups& groups;
  const StreamRule& rule;
  int64_t weight;
  int64_t target_weight;

  bool fits(int32_t q) const { return groups.load[q] + weight <= rule.limit; }
  bool targets_fit(int32_t q) const {
    return target_weight == 0 || groups.target_load[q] + target_weight <= rule.target_limit;
  }
  bool has_room(int32_t q) const { return fits(q) && targets_fit(q); }

  /// Less is emptier.
  std::tuple<int, int64_t> fullness(int32_t q) const {
    if (!fits(q)) return {2, groups.load[q]};
    return targets_fit(q) ? std::tuple{0, groups.load[q]} : std::tuple{1, groups.target_load[q]};
  }

  int32_t emptiest() const {
    int32_t best = 0;
    for (int32_t q = 1; q < static_cast<int32_t>(groups.load.size()); ++q)
      if (fullness(q) < fullness(best)) best = q;
    return best;
  }

  void add(int32_t q, int64_t sign) const {
    groups.load[q] += sign * weight;
    if (target_weight) groups.target_load[q] += sign * target_weight;
  }
};

void check(bool holds, const char* what, int64_t value) {
  if (!holds) [[unlikely]]
    throw std::invalid_argument(what + std::to_string(value));
}

template <class Index>
void check_sizes(const StreamGraph<Index>& graph, const StreamGroups& groups, int64_t begin, int64_t end) {
  const size_t n = groups.group.size();
  const size_t edges = graph.indices.size();
  const auto fits = [](size_t size, size_t wanted) { return size == 0 || size == wanted; };
  check(graph.indptr.size() == n + 1 && fits(graph.vertex_weight.size(), n) && fits(graph.target_weight.size(), n) &&
            fits(graph.movable.size(), n),
        "an array does not fit the number of vertices, ", static_cast<int64_t>(n));
  check(fits(graph.edge_weight.size(), edges), "there must be a weight for each edge, of which there are ",
        static_cast<int64_t>(edges));
  check(groups.gain.size() == groups.load.size() &&
            (graph.target_weight.empty() || groups.target_load.size() == groups.load.size()),
        "an array does not fit the number of groups, ", static_cast<int64_t>(groups.load.size()));
  check(begin >= 0 && begin <= end && end <= static_cast<int64_t>(n), "the range of vertices ends at ", end);
  for (int64_t v = begin; v < end; ++v)
    check(graph.indptr[v] >= 0 && graph.indptr[v] <= graph.indptr[v + 1] &&
              graph.indptr[v + 1] <= static_cast<int64_t>(edges),
          "indptr is not ascending at vertex ", v);
}

}  // namespace

template <class Index>
int64_t stream_range(const StreamGraph<Index>& graph, const StreamGroups& groups, const StreamRule& rule,
                     int64_t begin, int64_t end) {
  check_sizes(graph, groups, begin, end);
  const auto n = static_cast<int64_t>(groups.group.size());
  const auto num_groups = static_cast<int64_t>(groups.load.size());
  std::vector<int32_t> near;  // the groups that gain is not 0 for
  int64_t moved = 0;
  for (int64_t v = begin; v < end; ++v) {
    if (!graph.movable.empty() && !graph.movable[v]) continue;
    for (int64_t e = graph.indptr[v]; e < graph.indptr[v + 1]; ++e) {
      if (e + LOOK_AHEAD < graph.indices.size())
        __builtin_prefetch(groups.group.data() + graph.indices[e + LOOK_AHEAD]);
      const auto u = static_cast<int64_t>(graph.indices[e]);
      check(u >= 0 && u < n, "the graph has an edge from a vertex out of range: ", u);
      const int64_t weight = graph.edge_weight.empty() ? 1 : graph.edge_weight[e];
      const int32_t q = groups.group[u];
      if (u == v || q < 0 || weight == 0) continue;
      check(q < num_groups, "a vertex is in a group out of range: ", q);
      if (groups.gain[q] == 0) near.push_back(q);
      groups.gain[q] += weight;
    }

    const int32_t own = groups.group[v];
    check(own < num_groups, "a vertex is in a group out of range: ", own);
    const Vertex vertex{groups, rule, graph.vertex_weight.empty() ? 1 : graph.vertex_weight[v],
                        graph.target_weight.empty() ? 0 : graph.target_weight[v]};
    if (own >= 0) vertex.add(own, -1);
    const bool overfull = own >= 0 && !vertex.has_room(own);
    int32_t chosen = overfull ? -1 : own;
    const uint64_t key = fold_key({rule.seed, static_cast<uint64_t>(v)});
    for (const int32_t q : near) {
      if (q == own || !vertex.has_room(q)) continue;
      const int64_t more = chosen < 0 ? 1 : groups.gain[q] - groups.gain[chosen];
      if (more > 0 || (more == 0 && chosen != own && fold_word(key, q) > fold_word(key, chosen))) chosen = q;
    }
    if (chosen < 0 && rule.everywhere) {
      chosen = vertex.emptiest();
      if (overfull && vertex.fullness(own) <= vertex.fullness(chosen)) chosen = own;
    }
    if (chosen < 0 || (overfull && groups.gain[own] / rule.strain > groups.gain[chosen])) chosen = own;
    if (chosen >= 0) vertex.add(chosen, 1);
    moved += chosen != own;
    groups.group[v] = chosen;
    for (const int32_t q : near) groups.gain[q] = 0;
    near.clear();
  }
  return moved;
}

template int64_t stream_range(const StreamGraph<int32_t>&, const StreamGroups&, const StreamRule&, int64_t, int64_t);
template int64_t stream_range(const StreamGraph<int64_t>&, const StreamGroups&, const StreamRule&, int64_t, int64_t);

}  // namespace gsplit
