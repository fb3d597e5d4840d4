// Where pairs stand among candidates: how many candidates of a source score above its pair, and how many as much; and
// the best candidates of a source. The score of a source and a candidate is the dot product of their rows.
//
// No score is kept. Candidates are transposed panel by panel, so that each is a lane of a vector, and a block of
// sources is multiplied by a panel; of its scores, which a cache holds, counts are taken, or those that are among the
// best. Each score is summed in one order, that of the columns, whichever function computes it, in whatever tile or
// thread (rank_kernels.hpp). So a candidate whose row equals that of the pair has a score that is equal, too, and
// candidates that a source knows can be taken away again by counting them alone. A product of a library's sums in
// another order than its dot product, which makes ties noise.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "aggregate.hpp"

namespace gsplit {

/// Sources, and the table of rows that they are scored with.
template <class T>
struct Scored {
  Matrix<const T> sources;  // [n, D]
  Matrix<const T> table;    // [N, D]
};

/// A list of rows for each source, one list after the other; -1 stands for none.
struct RowLists {
  std::span<const int64_t> indptr;  // [n + 1]
  std::span<const int64_t> rows;

  std::span<const int64_t> of(int64_t source) const {
    return rows.subspan(indptr[source], indptr[source + 1] - indptr[source]);
  }
};

/// Candidates that all sources share: rows of the table; all where there are none.
using SharedRows = std::optional<std::span<const int64_t>>;

/// Counts of each source, [n] each, which are added to.
struct Counts {
  std::span<int64_t> above;
  std::span<int64_t> equal;
};

/// out[i] = score of source i and row rows[i].
template <class T>
void score_pairs(const Scored<T>& scored, std::span<const int64_t> rows, std::span<T> out, int threads);

/// Counts the candidates whose score is above bounds[i], or no number, and those whose score equals it.
template <class T>
void count_shared(const Scored<T>& scored, std::span<const T> bounds, const SharedRows& candidates, Counts counts,
                  int threads);

/// The same of the candidates that each source has for itself, times `sign`.
template <class T>
void count_listed(const Scored<T>& scored, std::span<const T> bounds, const RowLists& candidates, int64_t sign,
                  Counts counts, int threads);

/// The candidates of the highest scores of each source, the best first; of equal ones that with the lower order.
/// Those that a source has in `left_out`, ascending, are none, nor are scores that are no numbers. best: [n, k] rows
/// of the table, -1 where there are no more; scores: [n, k]. order: [N].
template <class T>
void best_rows(const Scored<T>& scored, const SharedRows& candidates, std::span<const int64_t> order,
               const RowLists& left_out, Matrix<int64_t> best, Matrix<T> scores, int threads);

/// Draws candidates [n, K] of some pairs uniformly from all vertices, by hashes of (key, number of the pair, column)
/// alone. One that its pair has in `left_out`, ascending, is drawn again by the next key, and after the last is -1.
///
/// numbers: [n] of the pairs, below 2^44; K is at most 2^20. vertices: [N] in the order that is drawn from.
void draw_candidates(std::span<const uint64_t> keys, std::span<const int64_t> numbers,
                     std::span<const int64_t> vertices, const RowLists& left_out, Matrix<int64_t> out, int threads);

}  // namespace gsplit
