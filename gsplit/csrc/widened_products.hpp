// Products of values in bfloat16 where there are no tiles of AMX (products.hpp): rows are rounded to it, as tiles
// round them, and widened a block at a time into memory that a cache holds, where the products in float32 find them.
// So a layer is one pass on every machine, and what it takes and gives is the same but for the order of sums.
// Included by row_kernels.cpp alone, inside its namespace, after wide_products.hpp.

constexpr int64_t WIDENED_ROWS = 48;   // that are widened at a time
constexpr int64_t WIDENED_PANEL = 32;  // of a gradient; sums are the same however whole ones are cut

/// Rows begin .. begin + count of x in float32, rounded to bfloat16, written to `room`, which is moved behind them.
inline Rows widened_rows(const Rows& x, int64_t begin, int64_t count, float*& room) {
  const Rows block{nullptr, room, count, x.width, x.width};
  for (int64_t row = 0; row < count; ++row, room += x.width) {
    if (x.narrow != nullptr) {
      const BFloat16* from = x.narrow + x.at(begin + row);
      for (int64_t k = 0; k < x.width; ++k) room[k] = widened(from[k]);
    } else {
      const float* from = x.wide + x.at(begin + row);
      for (int64_t k = 0; k < x.width; ++k) room[k] = widened(narrowed(from[k]));
    }
  }
  return block;
}

void multiply_widened(const Product& product, int64_t begin, int64_t end, void* room) {
  for (int64_t first = begin; first < end; first += WIDENED_ROWS) {
    const int64_t count = end - first < WIDENED_ROWS ? end - first : WIDENED_ROWS;
    auto* at = static_cast<float*>(room);
    Product block = product;
    for (int64_t t = 0; t < product.num_terms; ++t) {
      const Rows& x = product.terms[t].x;
      const int64_t left = x.rows - first;
      block.terms[t].x = widened_rows(x, first, left < 0 ? 0 : left < count ? left : count, at);
    }
    if (product.wide_out != nullptr) {
      block.wide_out = product.wide_out + first * product.out_stride;
      multiply_wide(block, 0, count, nullptr);
      continue;
    }
    block.wide_out = at;
    block.out_stride = product.outputs;
    multiply_wide(block, 0, count, nullptr);
    for (int64_t row = 0; row < count; ++row, at += product.outputs) {
      BFloat16* to = product.out + (first + row) * product.out_stride;
      for (int64_t o = 0; o < product.outputs; ++o) to[o] = narrowed(at[o]);
    }
  }
}

void widened_gradient(const Gradient& gradient, int64_t begin, int64_t end, void* room) {
  auto* const tile = static_cast<float*>(room);
  for (int64_t first = begin; first < end; first += WIDENED_PANEL) {
    const int64_t count = end - first < WIDENED_PANEL ? end - first : WIDENED_PANEL;
    float* at = tile + SUMMED_PANEL * GROUP * WIDE;
    Gradient block = gradient;
    block.gradients = widened_rows(gradient.gradients, first, count, at);
    for (int64_t w = 0; w < gradient.num_weights; ++w)
      block.weights[w].x = widened_rows(gradient.weights[w].x, first, count, at);
    wide_gradient(block, 0, count, tile);
  }
}

int64_t widened_product_room(const Product& product) {
  int64_t width = product.outputs;
  for (int64_t t = 0; t < product.num_terms; ++t) width += product.terms[t].x.width;
  return WIDENED_ROWS * width * static_cast<int64_t>(sizeof(float));
}

int64_t widened_gradient_room(const Gradient& gradient) {
  int64_t width = gradient.gradients.width;
  for (int64_t w = 0; w < gradient.num_weights; ++w) width += gradient.weights[w].x.width;
  return gradient_tile_bytes(gradient) + WIDENED_PANEL * width * static_cast<int64_t>(sizeof(float));
}

/// As pack_wide, of values rounded to bfloat16.
void pack_widened(const float* weight, int64_t outputs, int64_t width, int64_t by_output, int64_t by_input,
                  void* packed) {
  pack_wide(weight, outputs, width, by_output, by_input, packed);
  auto* values = static_cast<float*>(packed);
  for (int64_t i = 0; i < vectors(outputs) * WIDE * width; ++i) values[i] = widened(narrowed(values[i]));
}
