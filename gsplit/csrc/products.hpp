// Products of rows by weights, and what weights get of gradients: what a kernel for them is given. There are two
// kinds, chosen at run time: the tiles of AMX (tile_products.cpp), whose products are of values in bfloat16, and
// vectors of float32 (wide_products.hpp); layer_products.cpp makes of either what a layer does.
//
//   multiply   out[n, o] = bias[o] + sum over terms, k of x[n, k] * weight[o, k]
//   gradient   out[o, k] = sum over n of gradients[n, o] * x[n, k], for one or two x of the same gradients
#pragma once

#include <cstdint>

#include "bfloat16.hpp"

namespace gsplit::products {

inline constexpr int64_t MOST_TERMS = 2;

/// Rows in bfloat16 or in float32: those of a matrix, or, where there are ids, rows ids[0], ids[1], ... of it.
struct Rows {
  const BFloat16* narrow;
  const float* wide;  // in its place
  int64_t rows;
  int64_t width;
  int64_t stride;
  const int64_t* ids = nullptr;

  /// Where a row begins.
  int64_t at(int64_t row) const { return (ids == nullptr ? row : ids[row]) * stride; }

  /// The rows of a matrix from one on.
  Rows from(int64_t row) const {
    return {narrow == nullptr ? nullptr : narrow + row * stride, wide == nullptr ? nullptr : wide + row * stride,
            rows - row, width, stride};
  }
};

/// x * weight^T; rows beyond those of x count 0.
struct Term {
  Rows x;
  const void* packed;  // the weight, by pack_weight
};

struct Product {
  Term terms[MOST_TERMS];
  int64_t num_terms;
  const float* bias;  // [outputs], may be null
  int64_t outputs;
  BFloat16* out;
  float* wide_out;  // in its place
  int64_t out_stride;
};

/// What a weight gets of gradients.
struct WeightGradient {
  Rows x;
  float* sums;  // [outputs, width], in whole multiples of `side` each way, added to
};

struct Gradient {
  Rows gradients;
  WeightGradient weights[MOST_TERMS];
  int64_t num_weights;
  float* column_sums;  // [outputs] in whole multiples of two sides, added to those of the gradients; may be null
};

/// Functions for rows begin .. end; `room` has as many bytes as its function says, at a multiple of 64.
struct Kernels {
  void (*multiply)(const Product& product, int64_t begin, int64_t end, void* room);
  void (*gradient)(const Gradient& gradient, int64_t begin, int64_t end, void* room);
  int64_t (*product_room)(const Product& product);
  int64_t (*gradient_room)(const Gradient& gradient);
  /// Packs a weight whose value of output o and input k is weight[o * by_output + k * by_input].
  void (*pack_weight)(const float* weight, int64_t outputs, int64_t width, int64_t by_output, int64_t by_input,
                      void* packed);
  int64_t (*packed_bytes)(int64_t outputs, int64_t width);
  int64_t side;
};

/// Number of sides that cover so many values.
inline int64_t cover(int64_t values, int64_t side) { return (values + side - 1) / side; }

}  // namespace gsplit::products
