// Products in bfloat16 by the tiles of AMX: sums of products are float32, and rows are rounded on their way in and
// out.
//
//   multiply   out[n, o] = bias[o] + sum over terms, k of x[n, k] * weight[o, k]
//   gradient   out[o, k] = sum over n of gradients[n, o] * x[n, k]
//
// A tile holds 16 rows of 64 bytes; one instruction adds to 16 x 16 sums the products of 16 x 32 left and 32 x 16
// right values, of which pairs that follow each other in the sum lie side by side. So weights are packed once a call,
// pair by pair, and rows a block at a time, which stays in the first two caches. Rows in bfloat16 or float32 are the
// same once they are packed, and what is no whole tile is filled with zeros: no row is read beyond its end. Blocks of
// 2 x 2 tiles of sums load each tile of values once for two products.
//
// A library's products of such shapes are as fast, but it compiles a kernel for each number of rows, and mini-batches
// have another one each (docs/development/log.md, "Products in bfloat16").
#pragma once

#include <cstdint>

#include "bfloat16.hpp"

namespace gsplit::tiles {

inline constexpr int64_t SIDE = 16;   // rows of a tile, and of sums its columns
inline constexpr int64_t DEPTH = 32;  // values that a row of a tile has
inline constexpr int64_t MOST_TERMS = 2;
inline constexpr int64_t CHUNK = 512;  // rows whose gradients are packed at a time

/// Number of tiles that cover so many values.
inline int64_t cover(int64_t values, int64_t side) { return (values + side - 1) / side; }

/// Rows of either type.
struct Rows {
  const BFloat16* narrow;
  const float* wide;  // in its place
  int64_t rows;
  int64_t width;
  int64_t stride;
};

/// x * weight^T; rows beyond those of x count 0.
struct Term {
  Rows x;
  const BFloat16* packed;  // [cover(outputs, SIDE), cover(width, DEPTH), SIDE, DEPTH], by pack_weight
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

struct Gradient {
  Rows gradients;
  Rows x;
  float* sums;         // [outputs, width] in whole tiles, added to
  float* column_sums;  // [outputs] in whole half lines, added to those of the gradients; may be null
};

/// Functions for rows begin .. end; `room` is what room_bytes says, at a multiple of 64.
void multiply(const Product& product, int64_t begin, int64_t end, void* room);
void gradient(const Gradient& gradient, int64_t begin, int64_t end, void* room);
int64_t room_bytes(const Product& product);
int64_t room_bytes(const Gradient& gradient);

/// Packs a weight whose value of output o and input k is weight[o * by_output + k * by_input].
void pack_weight(const float* weight, int64_t outputs, int64_t width, int64_t by_output, int64_t by_input,
                 BFloat16* packed);

}  // namespace gsplit::tiles
