// Building adjacency in memory: edge lists to CSC. Counting sort by destination, then a sort and a clean-up within
// each row, so the time is linear but for the short row sorts and the result does not depend on the order of the
// input.
//
// Imported graphs are built in ranges of rows instead, so that the edges need not fit in memory, and their rows
// keep the order of the input: a stable counting sort, and no sort within the rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gsplit {

template <class Index>
struct Csc {
  std::vector<int64_t> indptr;  // [N + 1]
  std::vector<Index> indices;   // [E], ascending within each row, without duplicates
};

/// In-neighbours from edges (source, destination); both directions of each edge when `symmetric`. Self-loops
/// and duplicates are dropped. Throws std::invalid_argument for an id outside [0, n).
template <class Index>
Csc<Index> csc_from_edges(std::span<const Index> sources, std::span<const Index> destinations, int64_t n,
                          bool symmetric);

/// A range of rows of the adjacency, made from the edges that end there.
template <class Index>
struct Rows {
  std::vector<int64_t> degrees;  // [rows]
  std::vector<Index> indices;    // [edges kept], in order of first appearance within each row
  std::vector<double> weights;   // [edges kept]; empty without weights
  std::vector<int64_t> added;    // [rows] edges at the end of each row that are not the source's
  int64_t duplicates = 0;        // edges of the source that repeat another one
  int64_t loops = 0;             // edges not of the source that are self-loops
};

/// Adds to `degrees` one for each edge at its destination, and when `reverse` also one at its source unless it
/// is a self-loop. `pairs` is [2 * edges]: source, destination, source, ...; ids must be within `degrees`.
template <class Index>
void count_in_degrees(std::span<const Index> pairs, bool reverse, std::span<int64_t> degrees);

/// What becomes of edges that repeat another: one edge with the weight of the first or last of them, the sum, mean or
/// greatest of their weights, or all of them.
enum class Repeats { first, sum, mean, max, last, keep };

/// The rows `first .. first + degrees.size()` from `pairs` as above, a stable counting sort. `degrees` counts the
/// edges of each row; `weights` [edges] or none. Weights of repeated edges are combined in double precision, in their
/// order. The edges from `own` on were added to the source before, and those from `old` on are reverse edges; they
/// follow all others. One is left out where the source has that edge; with Repeats::keep the k-th reverse edge where
/// the source has a k-th one, and of those added before a self-loop alone. `seen` is [N] and holds -1, before and
/// after. With `add_loops` a row without a self-loop gets one at its end, of weight 1. Throws std::invalid_argument
/// for an edge that does not belong.
template <class Index>
Rows<Index> rows_from_edges(std::span<const Index> pairs, std::optional<std::span<const double>> weights, int64_t own,
                            int64_t old, int64_t first, std::span<const int64_t> degrees, std::span<Index> seen,
                            Repeats repeats, bool add_loops);

}  // namespace gsplit
