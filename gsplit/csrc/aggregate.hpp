// Sums over the neighbours of each row, their transposes, the softmax of attention, activation and dropout: what a
// layer computes on a CPU beside its products. Knows no torch; arrays are spans.
//
// A block lists in-edges row by row: the edges of row r are indptr[r] .. indptr[r + 1], and indices[e] is the source
// row of edge e. Sources lie in two pieces of memory, as a trainer has them: the own rows, and behind them those that
// other trainers sent; row i is own[i], or received[i - own rows]. Nobody copies them beside each other.
//
//   forward     out[r] = start_scale[r] * start[r] + scale[r]/degree[r] * sum over e in r of f(e) * row(indices[e])
//               with f(e) = factor[indices[e]] * weight[e]
//
//   backward    the same sum over the transposed block: its rows are the sources
//
// so one kernel does both. The transpose is a counting sort (transpose_edges), made once for each block: PyTorch's
// embedding_bag sorts all edges at every call of its backward. Each row is summed by one thread in the order of its
// edges, a long list by blocks (long_sums.hpp), so sums do not depend on the number of threads (narrow_gradient's do,
// in their last bits).
//
// What bounds it are reads of source rows in random order, so rows that no cache has are fetched some edges ahead,
// and the widths are compile-time numbers of vectors, each a register, so that sums stay there (row_kernels.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bfloat16.hpp"

namespace gsplit {

/// In-edges of R rows, one row after the other.
struct RowEdges {
  std::span<const int32_t> indptr;   // [R + 1]
  std::span<const int32_t> indices;  // [E] source row of each edge
  std::span<const int32_t> order;    // [E] position of each edge's weight, or empty: its own
};

/// A matrix, row by row.
template <class T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t width = 0;
  int64_t stride = 0;  // values from one row to the next

  T* row(int64_t i) const { return data + i * stride; }
};

/// A matrix of bfloat16 or of float32; neither has data where there are no rows.
template <class Narrow, class Wide>
struct Either {
  Either(Matrix<Narrow> of) : narrow(of.data), rows(of.rows), width(of.width), stride(of.stride) {}
  Either(Matrix<Wide> of) : wide(of.data), rows(of.rows), width(of.width), stride(of.stride) {}

  Narrow* narrow = nullptr;
  Wide* wide = nullptr;
  int64_t rows, width, stride;
};
using EitherRows = Either<const BFloat16, const float>;
using EitherOut = Either<BFloat16, float>;

/// Source rows: own ones, then received ones.
template <class T>
struct Sources {
  Matrix<const T> own;
  Matrix<const T> received;

  int64_t rows() const { return own.rows + received.rows; }
};

/// What the rows are multiplied by, all optional.
template <class T>
struct Scaling {
  std::span<const Computed<T>> factor;  // [sources]
  Matrix<const Computed<T>>
      weight;  // [edges, heads]: columns are dealt out to the heads, in equal runs; no data: none
  std::span<const int32_t> degrees;          // [R] sums are divided by them, but not by 0
  std::span<const Computed<T>> scale;        // [R] sums are multiplied by them
  std::span<const Computed<T>> start_scale;  // [rows of the start] these are multiplied by them
};

/// out[r] = start_scale[r] * start[r] + sum over the edges of r, as above. `start` may be `out` itself; rows that it
/// lacks are zero. Sums of rows in bfloat16 are taken in float32, and start and out may be of either.
///
/// Throws std::invalid_argument for shapes that do not fit, and for an edge or a weight outside the arrays.
template <class T, class Start, class Out>
void sum_rows(const RowEdges& edges, const Sources<T>& sources, const Scaling<T>& scaling, Matrix<const Start> start,
              Matrix<Out> out, int threads);

/// out[e, h] = dot product of the columns of head h of row r of `left`, and of source row indices[e], for edges e of
/// r.
template <class T>
void dot_rows(const RowEdges& edges, const Sources<T>& sources, Matrix<const T> left, Matrix<Computed<T>> out,
              int threads);

/// out[rows[i]] += values[i], in order; a row may come several times, and is rounded to its type each time.
template <class T>
void add_rows(Matrix<T> out, std::span<const int32_t> rows, Matrix<const T> values);

/// The edges of every source, in the order of their rows: out_indptr [sources + 1], out_rows [E] the row of each,
/// out_order [E], or empty, its position in `indices`. A counting sort, each thread of a range of rows: the result is
/// the same with any number of them.
void transpose_edges(const RowEdges& edges, std::span<int32_t> out_indptr, std::span<int32_t> out_rows,
                     std::span<int32_t> out_order, int threads);

/// Room for some of the edges of R rows.
struct SplitEdges {
  std::span<int32_t> indptr;   // [R + 1]
  std::span<int32_t> indices;  // [E], of which the first are written
  std::span<int32_t> order;    // likewise, the position that each edge had, or empty
};

/// Parts the edges by source: those below `num_own`, and the others, whose sources count from there; both row by row,
/// in the same order. Returns how many the first part has.
int64_t split_edges(const RowEdges& edges, int64_t num_own, const SplitEdges& own, const SplitEdges& received);

/// Scores of additive attention, minus the highest of the row (a shift that cancels in the softmax):
/// out[e, h] = leaky(source[indices[e], h] + destination[r, h]) - highest; own_out [R, h] of the row itself, or no
/// data. highest_out [R, h], where given, gets the highest; of a row without edges, minus infinity.
template <class T>
void attention_scores(const RowEdges& edges, Matrix<const T> source, Matrix<const T> destination, T slope,
                      Matrix<T> out, Matrix<T> own_out, Matrix<T> highest_out, int threads);

/// Powers to shares: each is divided by the sum over the edges of its row, and own_powers [R, h], where given.
template <class T>
void attention_shares(const RowEdges& edges, Matrix<T> powers, Matrix<T> own_powers, int threads);

/// Gradients of shares to gradients of what went into the LeakyReLU, in place; source and destination as above.
/// `sums` [R, h] of shares times gradients, where given, are over all edges of a row, of which some are elsewhere.
template <class T>
void attention_backward(const RowEdges& edges, Matrix<const T> source, Matrix<const T> destination, T slope,
                        Matrix<const T> shares, Matrix<const T> own_shares, Matrix<T> gradients,
                        Matrix<T> own_gradients, Matrix<T> destination_gradients, Matrix<const T> sums, int threads);

/// What stands behind a layer: an activation, then dropout.
enum class Activation : int { none = 0, relu = 1, elu = 2 };

/// out = dropout(activation(x + bias)), in one pass; of ELU, whose powers `out` holds already, without a bias, and
/// not in bfloat16. A value is dropped where a hash of (seed, row, column) is below `drop`, a share of 1; the others
/// are divided by 1 - drop. The same seed drops the same values, so backward draws again.
template <class T>
void activate(Matrix<const T> x, std::span<const Computed<T>> bias, Activation activation, Computed<T> drop,
              uint64_t seed, Matrix<T> out, int threads);

/// Gradients of x, from those of `out` and from `out` itself; and their sums over the rows, which the bias gets,
/// where there is room for them.
template <class T>
void activate_backward(Matrix<const T> out, Activation activation, Computed<T> drop, uint64_t seed,
                       Matrix<const T> gradients, Matrix<T> x_gradients, std::span<Computed<T>> bias_gradients,
                       int threads);

/// A bit a value, those of a row from a byte on: 0 where the value is 0 or less, as ReLU's backward asks.
template <class T>
void pack_signs(Matrix<const T> x, Matrix<uint8_t> signs, int threads);

/// As activate_backward of ReLU, which has the signs of `out` alone.
template <class T>
void relu_backward(Matrix<const uint8_t> signs, Computed<T> drop, Matrix<const T> gradients, Matrix<T> x_gradients,
                   std::span<Computed<T>> bias_gradients, int threads);

/// Whether project_narrow and narrow_gradient take rows of so many values, and so many outputs: few enough that their
/// sums fit the registers, which is where they are faster than a library for large matrices.
bool narrow_fits(int64_t outputs, int64_t width);

/// Rows of a matrix: all of them, or, where there are ids, row ids[0], ids[1], ... of it.
struct PickedRows {
  EitherRows table;
  std::optional<std::span<const int64_t>> ids;

  int64_t rows() const { return ids ? static_cast<int64_t>(ids->size()) : table.rows; }
};

/// out = x * weight^T + bias for the first rows, as many as out has; weight [outputs, width], bias [outputs] or
/// empty.
struct NarrowProduct {
  Matrix<const float> weight;
  std::span<const float> bias;
  EitherOut out;
};

/// out = gradients^T * x over the first rows, as many as there are gradients: what such a weight gets, [outputs,
/// width].
struct NarrowGradient {
  EitherRows gradients;
  Matrix<float> out;
};

/// Multiplies rows in float32 by one or two narrow matrices; each row is read once. Throws std::invalid_argument for
/// shapes and types that do not fit and for an id outside the table.
void project_narrow(const PickedRows& x, const std::vector<NarrowProduct>& products, int threads);

/// The gradients of one or two narrow matrices; each row is read once. The sums of the threads are added in turn.
void narrow_gradient(const PickedRows& x, const std::vector<NarrowGradient>& gradients, int threads);

/// Instruction sets that the sums over rows were compiled for and this machine runs, the widest first.
std::vector<std::string> instruction_sets();

/// Has sums over rows use one of them from now on, for tests and comparisons; by default it is the widest. Throws
/// std::invalid_argument for another.
void use_instruction_set(const std::string& name);

}  // namespace gsplit
