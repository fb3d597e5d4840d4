// What a layer makes of its rows: products by one or two weights, added up, an activation and dropout, in one pass
// forward, and in one backward. Products are taken in float32, or of values rounded to bfloat16, whose sums are
// float32: by tiles where there are any, else by vectors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "aggregate.hpp"

namespace gsplit {

/// Whether this machine has the tiles of AMX, and the system lets this process use them, which is asked once.
bool has_tiles();

/// Whether products in float32 are faster here than a library's.
bool has_wide_products();

/// What products are of: values in float32, or values rounded to bfloat16.
enum class Products { float32, bfloat16 };

/// x * weight^T, or x * weight where that is transposed.
struct LayerTerm {
  EitherRows x;
  Matrix<const float> weight;
  bool transposed;
};

/// What stands behind the products, in their pass: an activation and dropout, as `activate` has them, without a bias.
struct Finish {
  Activation activation;
  float drop;
  uint64_t seed;
};

/// out = finish(bias + the sum of one or two products); a term with fewer rows than out counts 0 in the others. Each
/// row is computed alike with any number of threads; what is finished is rounded to its type before. Throws
/// std::invalid_argument for shapes and types that do not fit.
void multiply(Products by, const std::vector<LayerTerm>& terms, std::span<const float> bias,
              const std::optional<Finish>& finish, const EitherOut& out, int threads);

/// What a term gets of the gradients of the products' sum: of weight^T [outputs, width] and of x. No data where it
/// gets none; then the weight may be missing, too.
struct LayerBack {
  EitherRows x;
  Matrix<const float> weight;
  Matrix<float> weight_gradients;
  EitherOut x_gradients;
};

/// Backward of `multiply` without transposed weights: weight_gradients = gradients^T * x over the first rows, as many
/// as there are gradients, x_gradients = gradients * weight; and the sums of the gradients' columns, where there is
/// room for them. Gradients of what was finished, `out`, go through that first. All of it in one pass over the
/// gradients; sums of many rows are added in double.
void multiply_backward(Products by, const EitherRows& gradients, const std::optional<Finish>& finish,
                       const EitherRows& out, const std::vector<LayerBack>& terms, std::span<float> column_sums,
                       int threads);

/// As project_narrow, of any number of outputs; of rows in float32, or in bfloat16 or rounded to it. A cache has some
/// rows for all products of them.
void project_picked(Products by, const PickedRows& x, const std::vector<NarrowProduct>& products, int threads);

/// As narrow_gradient, of any number of outputs, of rows and gradients in float32, or in bfloat16 or rounded to it.
void picked_gradient(Products by, const PickedRows& x, const std::vector<NarrowGradient>& gradients, int threads);

}  // namespace gsplit
