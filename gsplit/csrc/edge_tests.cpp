#include "edge_tests.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "find_sources.hpp"

namespace gsplit {
namespace {

template <class Index>
void check_vertices(const GraphView<Index>& graph, std::span<const int64_t> vertices) {
  const auto n = static_cast<int64_t>(graph.indptr.size()) - 1;
  for (const int64_t vertex : vertices)
    if (vertex < 0 || vertex >= n)
      throw std::invalid_argument("vertex " + std::to_string(vertex) + " is not there; there are " +
                                  std::to_string(n));
}

}  // namespace

template <class Index>
void check_pairs(const GraphView<Index>& graph, std::span<const int64_t> sources,
                 std::span<const int64_t> destinations) {
  if (sources.size() != destinations.size())
    throw std::invalid_argument("there must be one source for each destination");
  check_vertices(graph, sources);
  check_vertices(graph, destinations);
}

template <class Index>
void are_edges(const GraphView<Index>& graph, std::span<const int64_t> sources, std::span<const int64_t> destinations,
               std::span<bool> out) {
  check_pairs(graph, sources, destinations);
  SourceFinder<Index> finder;
  visit_lists(graph, destinations, [&](size_t i, std::span<const Index> list) {
    auto source = static_cast<Index>(sources[i]);
    finder.look_for({&source, 1});
    out[i] = false;
    finder.find(list, [&](size_t) { out[i] = true; });
  });
}

template <class Index>
void edges_from(const GraphView<Index>& graph, std::span<const int64_t> candidates, std::span<const int64_t> sources,
                std::span<bool> out) {
  check_vertices(graph, sources);
  check_vertices(graph, candidates);
  std::fill(out.begin(), out.end(), false);
  Array<std::pair<Index, size_t>> groups;  // source, which group asks for it
  for (size_t g = 0; g < sources.size(); ++g) groups.emplace_back(static_cast<Index>(sources[g]), g);
  std::sort(groups.begin(), groups.end());
  Array<Index> distinct;
  for (const auto& [source, _] : groups)
    if (distinct.empty() || distinct.back() != source) distinct.push_back(source);
  SourceFinder<Index> finder;
  finder.look_for(distinct);
  visit_lists(graph, candidates, [&](size_t c, std::span<const Index> list) {
    finder.find(list, [&](size_t position) {
      auto group = std::lower_bound(groups.begin(), groups.end(), std::pair(list[position], size_t{0}));
      for (; group != groups.end() && group->first == list[position]; ++group)
        out[group->second * candidates.size() + c] = true;
    });
  });
}

#define GSPLIT_INSTANTIATE(Index)                                                                         \
  template void check_pairs(const GraphView<Index>&, std::span<const int64_t>, std::span<const int64_t>); \
  template void are_edges(const GraphView<Index>&, std::span<const int64_t>, std::span<const int64_t>,    \
                          std::span<bool>);                                                               \
  template void edges_from(const GraphView<Index>&, std::span<const int64_t>, std::span<const int64_t>,   \
                           std::span<bool>);
GSPLIT_INSTANTIATE(int32_t)
GSPLIT_INSTANTIATE(int64_t)

}  // namespace gsplit
