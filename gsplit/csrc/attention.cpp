// The softmax of attention over the edges of each row, forward and backward (aggregate.hpp).
#include <cmath>

#include "aggregate_shared.hpp"
#include "long_sums.hpp"

namespace gsplit {
namespace {

constexpr int64_t AHEAD = 32;  // edges whose scores are on their way

/// LeakyReLU's factors of negative and positive numbers: looked up, because a branch on random signs is mispredicted.
template <class T>
struct Slopes {
  T by_sign[2];
  T of(T value) const { return by_sign[value > 0]; }
  T leaky(T value) const { return value * of(value); }
};

/// What the three steps of attention have in common: numbers of rows, edges and heads that fit.
template <class T, class U>
int64_t heads_of(const RowEdges& edges, const Matrix<T>& of_edges, const Matrix<U>& of_rows) {
  require(of_edges.rows == static_cast<int64_t>(edges.indices.size()), "there must be a row of scores for each edge");
  require(of_rows.data == nullptr ||
              (of_rows.rows + 1 == static_cast<int64_t>(edges.indptr.size()) && of_rows.width == of_edges.width),
          "there must be a row of scores for each destination");
  return of_edges.width;
}

}  // namespace

template <class T>
void attention_scores(const RowEdges& edges, Matrix<const T> source, Matrix<const T> destination, T slope,
                      Matrix<T> out, Matrix<T> own_out, Matrix<T> highest_out, int threads) {
  check_edges(edges, source.rows, -1);
  const int64_t heads = heads_of(edges, out, own_out);
  heads_of(edges, out, highest_out);
  require(source.width == heads && destination.width == heads &&
              destination.rows + 1 == static_cast<int64_t>(edges.indptr.size()),
          "there must be a score for each head");
  require(own_out.data == nullptr || source.rows >= destination.rows, "the destinations must be among the sources");
  const Slopes<T> slopes{{slope, T(1)}};
  const int64_t last = edges.indptr.back();
  side_by_side(equal_ranges(edges, heads, threads), [&](size_t, int64_t begin, int64_t end) {
    std::vector<T> highest(heads);
    for (int64_t row = begin; row < end; ++row) {
      const T* to = destination.row(row);
      std::fill(highest.begin(), highest.end(), -INFINITY);
      if (own_out.data != nullptr)
        for (int64_t h = 0; h < heads; ++h)
          highest[h] = own_out.row(row)[h] = slopes.leaky(source.row(row)[h] + to[h]);
      for (int64_t e = edges.indptr[row]; e < edges.indptr[row + 1]; ++e) {
        if (e + AHEAD < last) __builtin_prefetch(source.row(edges.indices[e + AHEAD]));
        const T* from = source.row(edges.indices[e]);
        for (int64_t h = 0; h < heads; ++h) {
          const T score = slopes.leaky(from[h] + to[h]);
          out.row(e)[h] = score;
          highest[h] = std::max(highest[h], score);
        }
      }
      for (int64_t e = edges.indptr[row]; e < edges.indptr[row + 1]; ++e)
        for (int64_t h = 0; h < heads; ++h) out.row(e)[h] -= highest[h];
      if (own_out.data != nullptr)
        for (int64_t h = 0; h < heads; ++h) own_out.row(row)[h] -= highest[h];
      if (highest_out.data != nullptr) std::copy(highest.begin(), highest.end(), highest_out.row(row));
    }
  });
}

template <class T>
void attention_shares(const RowEdges& edges, Matrix<T> powers, Matrix<T> own_powers, int threads) {
  check_edges(edges, INT32_MAX, -1);
  const int64_t heads = heads_of(edges, powers, own_powers);
  side_by_side(equal_ranges(edges, heads, threads), [&](size_t, int64_t begin, int64_t end) {
    HeadSums<T> total(heads);
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t h = 0; h < heads; ++h) total[h] = own_powers.data == nullptr ? T(0) : own_powers.row(row)[h];
      total.add(edges.indptr[row], edges.indptr[row + 1], [&](int64_t e, T* sums) {
        for (int64_t h = 0; h < heads; ++h) sums[h] += powers.row(e)[h];
      });
      for (int64_t h = 0; h < heads; ++h) total[h] = T(1) / total[h];
      for (int64_t e = edges.indptr[row]; e < edges.indptr[row + 1]; ++e)
        for (int64_t h = 0; h < heads; ++h) powers.row(e)[h] *= total[h];
      if (own_powers.data != nullptr)
        for (int64_t h = 0; h < heads; ++h) own_powers.row(row)[h] *= total[h];
    }
  });
}

template <class T>
void attention_backward(const RowEdges& edges, Matrix<const T> source, Matrix<const T> destination, T slope,
                        Matrix<const T> shares, Matrix<const T> own_shares, Matrix<T> gradients,
                        Matrix<T> own_gradients, Matrix<T> destination_gradients, Matrix<const T> sums, int threads) {
  check_edges(edges, source.rows, -1);
  const int64_t heads = heads_of(edges, gradients, own_gradients);
  heads_of(edges, shares, own_shares);
  heads_of(edges, shares, destination);
  heads_of(edges, shares, destination_gradients);
  heads_of(edges, shares, sums);
  require(source.width == heads && shares.width == heads, "there must be a score for each head");
  require(own_shares.data == nullptr || source.rows >= destination.rows,
          "the destinations must be among the sources");
  require((own_shares.data == nullptr) == (own_gradients.data == nullptr), "own shares need own gradients");
  const Slopes<T> slopes{{slope, T(1)}};
  const int64_t last = edges.indptr.back();
  side_by_side(equal_ranges(edges, heads, threads), [&](size_t, int64_t begin, int64_t end) {
    HeadSums<T> sum(heads), total(heads);
    for (int64_t row = begin; row < end; ++row) {
      const T* to = destination.row(row);
      for (int64_t h = 0; h < heads; ++h) {
        sum[h] = own_shares.data == nullptr ? T(0) : own_shares.row(row)[h] * own_gradients.row(row)[h];
        total[h] = 0;
      }
      const int64_t first = edges.indptr[row], stop = edges.indptr[row + 1];
      if (sums.data == nullptr)
        sum.add(first, stop, [&](int64_t e, T* of_edges) {
          for (int64_t h = 0; h < heads; ++h) of_edges[h] += shares.row(e)[h] * gradients.row(e)[h];
        });
      else
        for (int64_t h = 0; h < heads; ++h) sum[h] = sums.row(row)[h];
      total.add(first, stop, [&](int64_t e, T* of_edges) {
        if (e + AHEAD < last) __builtin_prefetch(source.row(edges.indices[e + AHEAD]));
        const T* from = source.row(edges.indices[e]);
        for (int64_t h = 0; h < heads; ++h) {
          const T through = shares.row(e)[h] * (gradients.row(e)[h] - sum[h]);
          of_edges[h] += gradients.row(e)[h] = through * slopes.of(from[h] + to[h]);
        }
      });
      for (int64_t h = 0; h < heads; ++h) {
        if (own_shares.data != nullptr) {
          const T through = own_shares.row(row)[h] * (own_gradients.row(row)[h] - sum[h]);
          total[h] += own_gradients.row(row)[h] = through * slopes.of(source.row(row)[h] + to[h]);
        }
        destination_gradients.row(row)[h] = total[h];
      }
    }
  });
}

#define GSPLIT_INSTANTIATE(T)                                                                                   \
  template void attention_scores<T>(const RowEdges&, Matrix<const T>, Matrix<const T>, T, Matrix<T>, Matrix<T>, \
                                    Matrix<T>, int);                                                            \
  template void attention_shares<T>(const RowEdges&, Matrix<T>, Matrix<T>, int);                                \
  template void attention_backward<T>(const RowEdges&, Matrix<const T>, Matrix<const T>, T, Matrix<const T>,    \
                                      Matrix<const T>, Matrix<T>, Matrix<T>, Matrix<T>, Matrix<const T>, int);
GSPLIT_INSTANTIATE(float)
GSPLIT_INSTANTIATE(double)

}  // namespace gsplit
