// Products of rows in bfloat16 by weights in float32, which are rounded to bfloat16: sums of products are float32.
// Where the machine multiplies so in hardware (tile_products.hpp); elsewhere a library widens rows (gsplit.kernels).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "aggregate.hpp"

namespace gsplit {

/// Whether this machine has the tiles of AMX, and the system lets this process use them, which is asked once.
bool has_tiles();

/// x * weight^T, or x * weight where that is transposed.
struct MixedTerm {
  EitherRows x;
  Matrix<const float> weight;
  bool transposed;
};

/// out = bias + the sum of one or two products; a term with fewer rows than out counts 0 in the others. Each row is
/// computed alike with any number of threads. Throws std::invalid_argument for shapes that do not fit, and on a
/// machine without tiles.
void multiply_mixed(const std::vector<MixedTerm>& terms, std::span<const float> bias, const EitherOut& out,
                    int threads);

/// out = gradients^T * x over the first rows, as many as there are gradients, and the sums of the gradients' columns,
/// where there is room for them; sums of many rows are added in double.
void mixed_gradient(const EitherRows& gradients, const EitherRows& x, Matrix<float> out, std::span<float> column_sums,
                    int threads);

}  // namespace gsplit
