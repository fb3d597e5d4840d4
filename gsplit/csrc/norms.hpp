// Normalisation of rows, with ReLU and dropout behind it, in one pass forward and in one backward (norm_rows.hpp says
// how): RMSNorm and LayerNorm, of a row by itself; of a batch with sums over rows between the passes, which trainers
// add up. Rows are float32 or bfloat16, what is computed of them float32. Everything has the same bits with any
// number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "aggregate.hpp"
#include "layer_products.hpp"
#include "row_kernels.hpp"

namespace gsplit {

/// What rows are normalised by, and with.
struct Normaliser {
  Norm norm;
  float eps;                      // not of a batch
  std::span<const float> weight;  // [width], or empty: 1; of a batch multiplied by its factors
  std::span<const float> bias;    // [width], or empty: 0
  std::span<const float> mean;    // [width] of a batch
};

/// What stood behind the rows, and what of them it let through: a bit a value, where it has an activation.
struct Finished {
  Finish finish;
  Matrix<const uint8_t> signs;
};

/// out = finish(normalised x) + skip, which may have no data; `signs` [rows, width / 8 rounded up], or no data, get a
/// bit a value, 0 where what finish gave is 0 or less. An activation is ReLU; without one nothing is dropped. Throws
/// std::invalid_argument for other finishes, and for shapes that do not fit.
template <class T>
void normalise(const Normaliser& by, Matrix<const T> x, const Finish& finish, Matrix<T> out, Matrix<uint8_t> signs,
               Matrix<const T> skip, int threads);

/// What x, weight and bias get of the gradients of `out`; x's may be written over x. There is no room for what is not
/// wanted of the others. Not of a batch.
template <class T>
void normalise_backward(const Normaliser& by, Matrix<const T> x, const Finished& finished, Matrix<const T> gradients,
                        Matrix<T> x_gradients, std::span<float> weight_gradients, std::span<float> bias_gradients,
                        int threads);

/// Sums over rows of each column: of x, or, where there is a mean [width], of the squares of x - mean.
template <class T>
void batch_sums(Matrix<const T> x, std::span<const float> mean, std::span<float> out, int threads);

/// Sums over rows of each column: of the gradients that finish let through, and of these times x - mean.
template <class T>
void batch_backward_sums(Matrix<const T> x, std::span<const float> mean, const Finished& finished,
                         Matrix<const T> gradients, std::span<float> products, std::span<float> sums, int threads);

/// x_gradients = weight * (gradients that finish let through - shift - (x - mean) * slope), which may be written over
/// x.
template <class T>
void batch_backward(const Normaliser& by, Matrix<const T> x, const Finished& finished, Matrix<const T> gradients,
                    std::span<const float> shift, std::span<const float> slope, Matrix<T> x_gradients, int threads);

}  // namespace gsplit
