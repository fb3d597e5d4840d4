#include "components.hpp"

#include <stdexcept>

namespace gsplit {
namespace {

template <class Index>
Index root_of(std::span<Index> component, Index v) {
  while (component[v] != v) v = component[v] = component[component[v]];
  return v;
}

/// A random number for each vertex: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
uint64_t number_of(uint64_t v) {
  uint64_t x = (v + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr int64_t AHEAD = 24;  // edges whose sources are fetched early: where they lie in the arrays is chance

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
    const int64_t edges = indptr[row + 1];
    Index own = root_of(component, v);
    uint64_t sum = 0, squares = 0;
    for (int64_t e = indptr[row]; e < edges; ++e) {
      if (const int64_t soon = e + AHEAD; soon < static_cast<int64_t>(indices.size())) {
        const auto then = static_cast<size_t>(indices[soon]);  // an address that may be wrong, and is not read
        __builtin_prefetch(component.data() + then, 1);
        __builtin_prefetch(last.data() + then, 1);
      }
      const Index u = indices[e];
      if (u < 0 || u >= n) throw std::invalid_argument("an edge comes from outside the graph");
      if (last[u] == v) ++found.repeated;
      last[u] = v;
      if (u == v) {
        ++found.self_loops;
        continue;
      }
      const uint64_t r = number_of(static_cast<uint64_t>(u));
      sum += r;
      squares += r * r;
      if (component[u] == own) continue;
      const Index other = root_of(component, u);
      if (other < own) {
        component[own] = other;
        own = other;
      } else {
        component[other] = own;
      }
    }
    const uint64_t r = number_of(static_cast<uint64_t>(v));
    found.one_way += r * squares - r * r * sum;
  }
  return found;
}

template WalkedEdges walk_edges<int32_t>(std::span<const int64_t>, std::span<const int32_t>, int64_t, int64_t,
                                         std::span<int32_t>, std::span<int32_t>);
template WalkedEdges walk_edges<int64_t>(std::span<const int64_t>, std::span<const int64_t>, int64_t, int64_t,
                                         std::span<int64_t>, std::span<int64_t>);

}  // namespace gsplit
