// Products of rows with matrices in float32 (products.hpp); included by row_kernels.cpp alone, inside its namespace.
//
// Sums of AT_ONCE rows and GROUP vectors of the result stay in registers, forward; of as many outputs and vectors of
// a weight backward. So each value that is loaded is multiplied some five times, and a core does as many operations
// as it can where rows are in a cache. They mostly are not: meanwhile those of the next block are fetched, and a
// product adds its second term before it writes anything, both of which a library's product cannot
// (docs/development/log.md, "Products in float32").

constexpr int GROUP = MOST_CHUNKS > 8 ? 4 : 2;    // vectors of the result of a row at a time
constexpr int AT_ONCE = MOST_CHUNKS > 8 ? 6 : 5;  // rows, or outputs of a gradient
constexpr int64_t BLOCK_ROWS = 96;                // that are multiplied by all of a weight before others are
constexpr int64_t SUMMED_PANEL = 64;              // rows over which the sums of a gradient stay in registers
constexpr int64_t FETCHING_ROWS = 4;              // of a panel, between which some lines are fetched

using products::Gradient;
using products::Product;
using products::Rows;

inline int64_t vectors(int64_t values) { return (values + WIDE - 1) / WIDE; }

/// Which columns are fetched of the rows a block later, by the pass over some outputs of all: each a share of them.
struct Ahead {
  int64_t share, shares;
};

/// Results of rows row .. row + ROWS in CHUNKS vectors from one output on. Rows a block later are fetched meanwhile,
/// a few lines at a time: a core waits for more than some sixteen.
template <int CHUNKS, int ROWS>
inline void wide_tile(const Product& product, int64_t row, int64_t output, const Ahead& ahead) {
  Wide total[ROWS][CHUNKS];
  for (int r = 0; r < ROWS; ++r)
    for (int c = 0; c < CHUNKS; ++c) total[r][c] = Wide{};
  for (int64_t t = 0; t < product.num_terms; ++t) {
    const auto& [x, packed] = product.terms[t];
    if (row >= x.rows) continue;
    const float* weights = static_cast<const float*>(packed) + output * x.width;
    const float *from[ROWS], *next[ROWS];
    for (int r = 0; r < ROWS; ++r) {
      from[r] = x.wide + x.at(row + r);
      const int64_t later = row + r + BLOCK_ROWS;
      next[r] = x.wide + x.at(later < x.rows ? later : x.rows - 1);
    }
    for (int64_t begin = 0, line = 0; begin < x.width; begin += LINE, ++line) {
      if (line % ahead.shares == ahead.share)
        for (int r = 0; r < ROWS; ++r) __builtin_prefetch(next[r] + begin, 0, 2);
      const int64_t end = begin + LINE < x.width ? begin + LINE : x.width;
      for (int64_t k = begin; k < end; ++k, weights += CHUNKS * WIDE) {
        Wide weight[CHUNKS];
        for (int c = 0; c < CHUNKS; ++c) weight[c] = load(weights + c * WIDE);
        for (int r = 0; r < ROWS; ++r)
          for (int c = 0; c < CHUNKS; ++c) total[r][c] += weight[c] * from[r][k];
      }
    }
  }
  for (int c = 0; c < CHUNKS; ++c) {
    const int64_t at = output + c * WIDE, lanes = product.outputs - at < WIDE ? product.outputs - at : WIDE;
    Wide bias{};
    if (product.bias != nullptr) {
      if (lanes == WIDE) bias = load(product.bias + at);
      else
        for (int64_t lane = 0; lane < lanes; ++lane) bias[lane] = product.bias[at + lane];
    }
    for (int r = 0; r < ROWS; ++r)
      put(product.wide_out + (row + r) * product.out_stride + at, total[r][c] + bias, lanes);
  }
}

/// Where the next rows of another kind begin: terms may have fewer rows than there are results.
inline int64_t alike_until(const Product& product, int64_t row, int64_t end) {
  for (int64_t t = 0; t < product.num_terms; ++t) {
    const int64_t rows = product.terms[t].x.rows;
    if (row < rows && rows < end) end = rows;
  }
  return end;
}

template <int CHUNKS>
void wide_rows(const Product& product, int64_t begin, int64_t end, int64_t output, const Ahead& ahead) {
  constexpr int ROWS = CHUNKS == 1 ? 2 * AT_ONCE : AT_ONCE;
  int64_t row = begin;
  for (; row + ROWS <= end; row += ROWS) wide_tile<CHUNKS, ROWS>(product, row, output, ahead);
  for (; row < end; ++row) wide_tile<CHUNKS, 1>(product, row, output, ahead);
}

void multiply_wide(const Product& product, int64_t begin, int64_t end, void*) {
  const int64_t all = vectors(product.outputs);
  for (int64_t first = begin, stop; first < end; first = stop) {
    stop = alike_until(product, first, first + BLOCK_ROWS < end ? first + BLOCK_ROWS : end);
    Ahead ahead{0, (all + GROUP - 1) / GROUP};
    for (int64_t vector = 0; vector < all; vector += GROUP, ++ahead.share) {
      const int64_t count = all - vector < GROUP ? all - vector : GROUP, output = vector * WIDE;
      if (count == 1) wide_rows<1>(product, first, stop, output, ahead);
      else if (count == 2) wide_rows<2>(product, first, stop, output, ahead);
      else if constexpr (GROUP > 2) {
        if (count == 3) wide_rows<3>(product, first, stop, output, ahead);
        else wide_rows<4>(product, first, stop, output, ahead);
      }
    }
  }
}

/// Lines that are fetched while others are worked on, a few at a time.
struct Lines {
  const float* at[SUMMED_PANEL * 2 * GROUP];
  int64_t count = 0;

  void add(const float* from, int64_t values) {
    for (int64_t k = 0; k < values && count < SUMMED_PANEL * 2 * GROUP; k += LINE) at[count++] = from + k;
  }
};

/// sums[o, column] += the sum over rows of gradients[row, o] * tile[row, column], for OUTS outputs and CHUNKS vectors
/// of columns. A cache of the first level has the tile and the gradients for all outputs, whose share of the lines is
/// fetched.
template <int OUTS, int CHUNKS>
inline void wide_gradient_tile(const Rows& gradients, int64_t begin, int64_t end, int64_t output, const float* tile,
                               float* sums, int64_t stride, const Lines& lines) {
  Wide total[OUTS][CHUNKS];
  for (int o = 0; o < OUTS; ++o)
    for (int c = 0; c < CHUNKS; ++c) total[o][c] = Wide{};
  const float* given = gradients.wide + begin * gradients.stride + output;
  int64_t line = lines.count * output / gradients.width;
  const int64_t stop = lines.count * (output + OUTS) / gradients.width;
  const int64_t each = (stop - line + SUMMED_PANEL / FETCHING_ROWS - 1) / (SUMMED_PANEL / FETCHING_ROWS);
  for (int64_t first = begin; first < end; first += FETCHING_ROWS) {
    for (const int64_t last = line + each < stop ? line + each : stop; line < last; ++line)
      __builtin_prefetch(lines.at[line], 0, 2);
    const int64_t last = first + FETCHING_ROWS < end ? first + FETCHING_ROWS : end;
    for (int64_t row = first; row < last; ++row, given += gradients.stride, tile += CHUNKS * WIDE) {
      Wide value[CHUNKS];
      for (int c = 0; c < CHUNKS; ++c) value[c] = load(tile + c * WIDE);
      for (int o = 0; o < OUTS; ++o)
        for (int c = 0; c < CHUNKS; ++c) total[o][c] += value[c] * given[o];
    }
  }
  for (int o = 0; o < OUTS; ++o) {
    for (int c = 0; c < CHUNKS; ++c) {
      float* to = sums + (output + o) * stride + c * WIDE;
      store(to, load(to) + total[o][c]);
    }
  }
}

/// Copies CHUNKS vectors of columns of rows begin .. end, zeros beyond the last.
template <int CHUNKS>
inline void copy_tile(const Rows& x, int64_t begin, int64_t end, int64_t column, float* tile) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x.wide + x.at(row) + column;
    for (int c = 0; c < CHUNKS; ++c, tile += WIDE) {
      const int64_t left = x.width - column - c * WIDE;
      if (left >= WIDE) {
        store(tile, load(from + c * WIDE));
        continue;
      }
      for (int64_t lane = 0; lane < WIDE; ++lane) tile[lane] = lane < left ? from[c * WIDE + lane] : 0.0f;
    }
  }
}

/// CHUNKS vectors of columns of the panel begin .. end, while those of the next are fetched, and a share of its
/// gradients.
template <int CHUNKS>
void wide_gradient_columns(const Rows& gradients, const Rows& x, int64_t begin, int64_t end, int64_t column,
                           float* tile, float* sums) {
  const int64_t stride = vectors(x.width) * WIDE;
  copy_tile<CHUNKS>(x, begin, end, column, tile);
  Lines lines;
  for (int64_t row = end; row < end + SUMMED_PANEL && row < x.rows; ++row)
    lines.add(x.wide + x.at(row) + column, CHUNKS * WIDE);
  const int64_t later = gradients.rows - end < SUMMED_PANEL ? gradients.rows - end : SUMMED_PANEL;
  const int64_t shares = (vectors(x.width) + GROUP - 1) / GROUP, share = column / (GROUP * WIDE);
  for (int64_t row = later * share / shares; row < later * (share + 1) / shares; ++row)
    lines.add(gradients.wide + (end + row) * gradients.stride, gradients.width);
  int64_t output = 0;
  const auto add = [&]<int OUTS>() {
    for (; output + OUTS <= gradients.width; output += OUTS)
      wide_gradient_tile<OUTS, CHUNKS>(gradients, begin, end, output, tile, sums + column, stride, lines);
  };
  add.template operator()<AT_ONCE>();
  add.template operator()<4>();
  add.template operator()<2>();
  add.template operator()<1>();
}

void wide_gradient(const Gradient& gradient, int64_t begin, int64_t end, void* room) {
  const Rows& given = gradient.gradients;
  auto* tile = static_cast<float*>(room);
  for (int64_t first = begin; first < end; first += SUMMED_PANEL) {
    const int64_t stop = first + SUMMED_PANEL < end ? first + SUMMED_PANEL : end;
    for (int64_t w = 0; w < gradient.num_weights; ++w) {
      const auto& [x, sums] = gradient.weights[w];
      for (int64_t column = 0; column < x.width; column += GROUP * WIDE) {
        const int64_t left = vectors(x.width - column), count = left < GROUP ? left : GROUP;
        if (count == 1) wide_gradient_columns<1>(given, x, first, stop, column, tile, sums);
        else if (count == 2) wide_gradient_columns<2>(given, x, first, stop, column, tile, sums);
        else if constexpr (GROUP > 2) {
          if (count == 3) wide_gradient_columns<3>(given, x, first, stop, column, tile, sums);
          else wide_gradient_columns<4>(given, x, first, stop, column, tile, sums);
        }
      }
    }
    if (gradient.column_sums == nullptr) continue;
    for (int64_t row = first; row < stop; ++row)
      for (int64_t o = 0; o < given.width; ++o) gradient.column_sums[o] += given.wide[row * given.stride + o];
  }
}

int64_t no_product_room(const Product&) { return 0; }
int64_t gradient_tile_bytes(const Gradient&) {
  return SUMMED_PANEL * GROUP * WIDE * static_cast<int64_t>(sizeof(float));
}

/// As groups of vectors [width, vectors], one after the other.
void pack_wide(const float* weight, int64_t outputs, int64_t width, int64_t by_output, int64_t by_input,
               void* packed) {
  auto* to = static_cast<float*>(packed);
  const int64_t all = vectors(outputs);
  for (int64_t first = 0; first < all; first += GROUP) {
    const int64_t begin = first * WIDE, end = (all - first < GROUP ? all : first + GROUP) * WIDE;
    for (int64_t k = 0; k < width; ++k)
      for (int64_t o = begin; o < end; ++o) *to++ = o < outputs ? weight[o * by_output + k * by_input] : 0.0f;
  }
}

int64_t wide_bytes(int64_t outputs, int64_t width) {
  return vectors(outputs) * WIDE * width * static_cast<int64_t>(sizeof(float));
}
