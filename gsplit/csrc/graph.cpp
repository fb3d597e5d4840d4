#include "graph.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace gsplit {
namespace {

/// `visit(f)` calls f(source, destination) for every edge, in the same order each time.
template <class Out, class Visit>
Csc<Out> counting_sort(int64_t n, Visit visit) {
  Csc<Out> csc;
  csc.indptr.assign(n + 1, 0);
  visit([&](int64_t source, int64_t destination) {
    if (source != destination) ++csc.indptr[destination + 1];
  });
  for (int64_t v = 0; v < n; ++v) csc.indptr[v + 1] += csc.indptr[v];
  csc.indices.resize(csc.indptr[n]);
  std::vector<int64_t> next(csc.indptr.begin(), csc.indptr.end() - 1);
  visit([&](int64_t source, int64_t destination) {
    if (source != destination) csc.indices[next[destination]++] = static_cast<Out>(source);
  });

  int64_t kept = 0;
  int64_t begin = 0;
  for (int64_t v = 0; v < n; ++v) {
    const int64_t end = csc.indptr[v + 1];
    auto first = csc.indices.begin() + begin;
    auto last = csc.indices.begin() + end;
    std::sort(first, last);
    last = std::unique(first, last);
    std::move(first, last, csc.indices.begin() + kept);
    kept += last - first;
    csc.indptr[v + 1] = kept;
    begin = end;
  }
  csc.indices.resize(kept);
  return csc;
}

}  // namespace

template <class Index>
Csc<Index> csc_from_edges(std::span<const Index> sources, std::span<const Index> destinations, int64_t n,
                          bool symmetric) {
  if (sources.size() != destinations.size())
    throw std::invalid_argument("an edge list has " + std::to_string(sources.size()) + " sources but " +
                                std::to_string(destinations.size()) + " destinations");
  for (size_t e = 0; e < sources.size(); ++e)
    if (sources[e] < 0 || sources[e] >= n || destinations[e] < 0 || destinations[e] >= n)
      throw std::invalid_argument("edge " + std::to_string(e) + " (" + std::to_string(sources[e]) + " -> " +
                                  std::to_string(destinations[e]) + ") names a vertex outside 0 .. " +
                                  std::to_string(n - 1));
  return counting_sort<Index>(n, [&](auto&& edge) {
    for (size_t e = 0; e < sources.size(); ++e) {
      edge(sources[e], destinations[e]);
      if (symmetric) edge(destinations[e], sources[e]);
    }
  });
}

template <class Index>
Csc<int64_t> symmetrize(std::span<const int64_t> indptr, std::span<const Index> indices) {
  const auto n = static_cast<int64_t>(indptr.size()) - 1;
  return counting_sort<int64_t>(n, [&](auto&& edge) {
    for (int64_t v = 0; v < n; ++v)
      for (int64_t e = indptr[v]; e < indptr[v + 1]; ++e) {
        edge(static_cast<int64_t>(indices[e]), v);
        edge(v, static_cast<int64_t>(indices[e]));
      }
  });
}

template Csc<int32_t> csc_from_edges(std::span<const int32_t>, std::span<const int32_t>, int64_t, bool);
template Csc<int64_t> csc_from_edges(std::span<const int64_t>, std::span<const int64_t>, int64_t, bool);
template Csc<int64_t> symmetrize(std::span<const int64_t>, std::span<const int32_t>);
template Csc<int64_t> symmetrize(std::span<const int64_t>, std::span<const int64_t>);

}  // namespace gsplit
