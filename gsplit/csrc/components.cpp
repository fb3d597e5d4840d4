#include "components.hpp"

#include <stdexcept>

namespace gsplit {
namespace {

template <class Index>
Index root_of(std::span<Index> component, Index v) {
  while (component[v] != v) v = component[v] = component[component[v]];
  return v;
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t mix(uint64_t u, uint64_t v) { return mix(mix(u + 0x9e3779b97f4a7c15u) + v); }

}  // namespace

template <class Index>
WalkedEdges walk_edges(std::span<const int64_t> indptr, std::span<const Index> indices, int64_t begin, int64_t end,
                       std::span<Index> component, std::span<Index> last) {
  const auto n = static_cast<int64_t>(component.size());
  if (begin < 0 || begin > end || end > n || last.size() != component.size() ||
      static_cast<int64_t>(indptr.size()) != n + 1)
    throw std::invalid_argument("the rows to walk are outside the graph");
  WalkedEdges found;
  for (int64_t row = begin; row < end; ++row) {
    if (indptr[row] < 0 || indptr[row] > indptr[row + 1] || indptr[row + 1] > static_cast<int64_t>(indices.size()))
      throw std::invalid_argument("indptr does not ascend within the edges");
    const auto v = static_cast<Index>(row);
    Index own = root_of(component, v);
    for (int64_t e = indptr[row]; e < indptr[row + 1]; ++e) {
      const Index u = indices[e];
      if (u < 0 || u >= n) throw std::invalid_argument("an edge comes from outside the graph");
      if (last[u] == v) ++found.repeated;
      last[u] = v;
      if (u == v) {
        ++found.self_loops;
        continue;
      }
      found.one_way += mix(static_cast<uint64_t>(u), static_cast<uint64_t>(v)) -
                       mix(static_cast<uint64_t>(v), static_cast<uint64_t>(u));
      const Index other = root_of(component, u);
      if (other < own) {
        component[own] = other;
        own = other;
      } else {
        component[other] = own;
      }
    }
  }
  return found;
}

template WalkedEdges walk_edges<int32_t>(std::span<const int64_t>, std::span<const int32_t>, int64_t, int64_t,
                                         std::span<int32_t>, std::span<int32_t>);
template WalkedEdges walk_edges<int64_t>(std::span<const int64_t>, std::span<const int64_t>, int64_t, int64_t,
                                         std::span<int64_t>, std::span<int64_t>);

}  // namespace gsplit
