#include "symmetric.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace gsplit {
namespace {

/// A neighbour and what the edge to it counts.
template <class Index>
struct Neighbour {
  Index id;
  uint32_t weight;
};

template <class Index>
struct Reversed {
  std::vector<int64_t> indptr;
  std::vector<Index> indices;     // out-neighbours, ascending
  std::vector<uint32_t> weights;  // as long, or empty
};

/// `visit(u, v, e)` for the edges u -> v that count, in the order of the rows.
template <class Index, class Visit>
void for_each_edge(std::span<const int64_t> indptr, std::span<const Index> indices, std::span<const uint32_t> weights,
                   Visit visit) {
  const auto n = static_cast<int64_t>(indptr.size()) - 1;
  for (int64_t v = 0; v < n; ++v)
    for (int64_t e = indptr[v]; e < indptr[v + 1]; ++e)
      if (indices[e] != v && (weights.empty() || weights[e] != 0)) visit(indices[e], v, e);
}

template <class Index>
Reversed<Index> reverse(std::span<const int64_t> indptr, std::span<const Index> indices,
                        std::span<const uint32_t> weights) {
  Reversed<Index> out;
  out.indptr.assign(indptr.size(), 0);
  for_each_edge(indptr, indices, weights, [&](Index u, int64_t, int64_t) { ++out.indptr[u + 1]; });
  for (size_t v = 1; v < out.indptr.size(); ++v) out.indptr[v] += out.indptr[v - 1];
  out.indices.resize(out.indptr.back());
  if (!weights.empty()) out.weights.resize(out.indptr.back());
  std::vector<int64_t> next(out.indptr.begin(), out.indptr.end() - 1);
  for_each_edge(indptr, indices, weights, [&](Index u, int64_t v, int64_t e) {
    const int64_t at = next[u]++;
    out.indices[at] = static_cast<Index>(v);
    if (!weights.empty()) out.weights[at] = weights[e];
  });
  return out;
}

}  // namespace

template <class Out, class Index>
Symmetric<Out> symmetrize(std::span<const int64_t> indptr, std::span<const Index> indices,
                          std::span<const uint32_t> weights) {
  if (!weights.empty() && weights.size() != indices.size())
    throw std::invalid_argument(std::to_string(weights.size()) + " weights for " + std::to_string(indices.size()) +
                                " edges");
  const auto n = static_cast<int64_t>(indptr.size()) - 1;
  const bool weighted = !weights.empty();
  const Reversed<Index> reversed = reverse(indptr, indices, weights);
  Symmetric<Out> out;
  out.indptr.assign(n + 1, 0);
  // Room for the worst case; what is not written to costs no memory.
  out.indices.reserve(2 * reversed.indices.size());
  if (weighted) out.weights.reserve(out.indices.capacity());

  const auto by_id = [](const Neighbour<Index>& a, const Neighbour<Index>& b) { return a.id < b.id; };
  std::vector<Neighbour<Index>> row;
  for (int64_t v = 0; v < n; ++v) {
    row.clear();
    for (int64_t e = indptr[v]; e < indptr[v + 1]; ++e)
      if (indices[e] != v && (!weighted || weights[e] != 0)) row.push_back({indices[e], weighted ? weights[e] : 1});
    if (!std::is_sorted(row.begin(), row.end(), by_id)) std::sort(row.begin(), row.end(), by_id);

    const auto add = [&](Index id, uint32_t weight) {
      const bool again = static_cast<int64_t>(out.indices.size()) > out.indptr[v] && out.indices.back() == id;
      if (!again) out.indices.push_back(static_cast<Out>(id));
      if (!weighted) return;
      if (!again) out.weights.push_back(0);
      const auto sum = static_cast<int64_t>(out.weights.back()) + weight;
      if (sum > std::numeric_limits<Out>::max())
        throw std::invalid_argument("the weight of the edge between " + std::to_string(id) + " and " +
                                    std::to_string(v) + " is too large");
      out.weights.back() = static_cast<Out>(sum);
    };
    size_t own = 0;
    int64_t other = reversed.indptr[v];
    const int64_t end = reversed.indptr[v + 1];
    while (own < row.size() || other < end) {
      if (other == end || (own < row.size() && row[own].id <= reversed.indices[other])) {
        add(row[own].id, row[own].weight);
        ++own;
      } else {
        add(reversed.indices[other], weighted ? reversed.weights[other] : 1);
        ++other;
      }
    }
    out.indptr[v + 1] = static_cast<int64_t>(out.indices.size());
  }
  return out;
}

template Symmetric<int32_t> symmetrize(std::span<const int64_t>, std::span<const int32_t>, std::span<const uint32_t>);
template Symmetric<int64_t> symmetrize(std::span<const int64_t>, std::span<const int32_t>, std::span<const uint32_t>);
template Symmetric<int64_t> symmetrize(std::span<const int64_t>, std::span<const int64_t>, std::span<const uint32_t>);

}  // namespace gsplit
