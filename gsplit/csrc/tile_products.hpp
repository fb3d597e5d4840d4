// Products in bfloat16 by the tiles of AMX: sums of products are float32, and rows are rounded on their way in and
// out.
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

#include "products.hpp"

namespace gsplit::tiles {

extern const products::Kernels kernels;

}  // namespace gsplit::tiles
