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

/// Adds the weight of an edge to that of the first one that it repeats.
void combine(Repeats repeats, double& weight, double again) {
  switch (repeats) {
    case Repeats::sum:
    case Repeats::mean:
      weight += again;
      break;
    case Repeats::max:
      weight = std::max(weight, again);
      break;
    case Repeats::last:
      weight = again;
      break;
    case Repeats::first:
    case Repeats::keep:
      break;
  }
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
void count_in_degrees(std::span<const Index> pairs, bool reverse, std::span<int64_t> degrees) {
  for (size_t e = 0; e + 1 < pairs.size(); e += 2) {
    ++degrees[pairs[e + 1]];
    if (reverse && pairs[e] != pairs[e + 1]) ++degrees[pairs[e]];
  }
}

template <class Index>
Rows<Index> rows_from_edges(std::span<const Index> pairs, std::optional<std::span<const double>> weights, int64_t own,
                            int64_t old, int64_t first, std::span<const int64_t> degrees, std::span<Index> seen,
                            Repeats repeats, bool add_loops) {
  const auto rows = static_cast<int64_t>(degrees.size());
  const auto edges = static_cast<int64_t>(pairs.size() / 2);
  std::vector<int64_t> begins(rows + 1, 0);
  for (int64_t r = 0; r < rows; ++r) begins[r + 1] = begins[r] + degrees[r];
  if (begins[rows] != edges || (weights && static_cast<int64_t>(weights->size()) != edges))
    throw std::invalid_argument("degrees or weights do not fit " + std::to_string(edges) + " edges");

  // Sorted by row: the position of each edge, so that weight and origin follow.
  std::vector<int64_t> next(begins.begin(), begins.end() - 1);
  std::vector<int64_t> sorted(edges);
  for (int64_t e = 0; e < edges; ++e) {
    const int64_t row = static_cast<int64_t>(pairs[2 * e + 1]) - first;
    if (row < 0 || row >= rows || next[row] == begins[row + 1])
      throw std::invalid_argument("edge " + std::to_string(e) + " does not belong to the rows it was given with");
    sorted[next[row]++] = e;
  }

  Rows<Index> out;
  out.degrees.assign(rows, 0);
  out.added.assign(rows, 0);
  out.indices.reserve(edges + (add_loops ? rows : 0));
  if (weights) out.weights.reserve(out.indices.capacity());
  std::vector<double> row_weights;  // of the edges kept of one row
  std::vector<int64_t> counts;      // edges that each of these stands for
  for (int64_t r = 0; r < rows; ++r) {
    const auto vertex = static_cast<Index>(first + r);
    const size_t begin = out.indices.size();
    bool loop = false;
    int64_t own_kept = 0;
    row_weights.clear();
    counts.clear();
    for (int64_t at = begins[r]; at < begins[r + 1]; ++at) {
      const int64_t e = sorted[at];
      const Index source = pairs[2 * e];
      const bool added = e >= own;
      out.duplicates += !added && seen[source] >= 0;
      if (repeats == Repeats::keep) {  // seen: edges that have met no reverse edge yet, less 1
        if (!added) {
          ++seen[source];
        } else if ((e >= old || source == vertex) && seen[source] >= 0) {
          --seen[source];  // this edge of the source is the reverse of that one, or takes the place of an added loop
          continue;
        }
      } else if (const int64_t kept = seen[source]; kept >= 0) {  // seen: where in the row the source stands
        if (weights && (!added || kept >= own_kept)) {
          combine(repeats, row_weights[kept], (*weights)[e]);
          ++counts[kept];
        }
        continue;
      } else {
        seen[source] = static_cast<Index>(out.indices.size() - begin);
      }
      loop |= source == vertex;
      own_kept += !added;
      out.added[r] += added;
      out.loops += added && source == vertex;
      out.indices.push_back(source);
      if (weights) row_weights.push_back((*weights)[e]);
      if (weights) counts.push_back(1);
    }
    for (int64_t at = begins[r]; at < begins[r + 1]; ++at) seen[pairs[2 * sorted[at]]] = -1;
    for (size_t kept = 0; kept < row_weights.size(); ++kept)
      out.weights.push_back(repeats == Repeats::mean ? row_weights[kept] / static_cast<double>(counts[kept])
                                                     : row_weights[kept]);
    if (add_loops && !loop) {
      ++out.loops;
      ++out.added[r];
      out.indices.push_back(vertex);
      if (weights) out.weights.push_back(1.0);
    }
    out.degrees[r] = static_cast<int64_t>(out.indices.size() - begin);
  }
  return out;
}

template void count_in_degrees(std::span<const int32_t>, bool, std::span<int64_t>);
template void count_in_degrees(std::span<const int64_t>, bool, std::span<int64_t>);
template Rows<int32_t> rows_from_edges(std::span<const int32_t>, std::optional<std::span<const double>>, int64_t,
                                       int64_t, int64_t, std::span<const int64_t>, std::span<int32_t>, Repeats, bool);
template Rows<int64_t> rows_from_edges(std::span<const int64_t>, std::optional<std::span<const double>>, int64_t,
                                       int64_t, int64_t, std::span<const int64_t>, std::span<int64_t>, Repeats, bool);
template Csc<int32_t> csc_from_edges(std::span<const int32_t>, std::span<const int32_t>, int64_t, bool);
template Csc<int64_t> csc_from_edges(std::span<const int64_t>, std::span<const int64_t>, int64_t, bool);

}  // namespace gsplit
