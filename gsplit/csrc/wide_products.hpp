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
using Ints = typename Vector<int32_t, WIDE>::type;

using products::Gradient;
using products::Product;
using products::Rows;

inline int64_t vectors(int64_t values) { return (values + WIDE - 1) / WIDE; }

/// Results of rows row .. row + ROWS in CHUNKS vectors from one output on.
template <int CHUNKS, int ROWS>
inline void wide_tile(const Product& product, int64_t row, int64_t output) {
  Wide total[ROWS][CHUNKS] = {};
  for (int64_t t = 0; t < product.num_terms; ++t) {
    const auto& [x, packed] = product.terms[t];
    if (row >= x.rows) continue;
    const float* weights = static_cast<const float*>(packed) + output * x.width;
    const float* from[ROWS];
    for (int r = 0; r < ROWS; ++r) from[r] = x.wide + (row + r) * x.stride;
    for (int64_t k = 0; k < x.width; ++k, weights += CHUNKS * WIDE) {
      Wide weight[CHUNKS];
      for (int c = 0; c < CHUNKS; ++c) weight[c] = load(weights + c * WIDE);
      for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < CHUNKS; ++c) total[r][c] += weight[c] * from[r][k];
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

/// What is fetched meanwhile: of the rows a block later, if they come before `end`, a share of the columns.
struct Ahead {
  int64_t end, share, shares;
};

template <int CHUNKS, int ROWS>
inline void fetch_ahead(const Product& product, int64_t first, int64_t output, const Ahead& ahead) {
  const int64_t stop = first + ROWS < ahead.end ? first + ROWS : ahead.end;
  for (int64_t row = first; row < stop; ++row) {
    for (int64_t t = 0; t < product.num_terms; ++t) {
      const Rows& x = product.terms[t].x;
      const int64_t lines = (x.width + LINE - 1) / LINE;
      if (row >= x.rows) continue;
      for (int64_t l = lines * ahead.share / ahead.shares; l < lines * (ahead.share + 1) / ahead.shares; ++l)
        __builtin_prefetch(x.wide + row * x.stride + l * LINE, 0, 2);
    }
    for (int c = 0; c < CHUNKS; ++c)
      __builtin_prefetch(product.wide_out + row * product.out_stride + output + c * WIDE, 1, 2);
  }
}

template <int CHUNKS>
void wide_rows(const Product& product, int64_t begin, int64_t end, int64_t output, const Ahead& ahead) {
  constexpr int ROWS = CHUNKS == 1 ? 2 * AT_ONCE : AT_ONCE;
  int64_t row = begin;
  for (; row + ROWS <= end; row += ROWS) {
    fetch_ahead<CHUNKS, ROWS>(product, row + BLOCK_ROWS, output, ahead);
    wide_tile<CHUNKS, ROWS>(product, row, output);
  }
  for (; row < end; ++row) wide_tile<CHUNKS, 1>(product, row, output);
}

void multiply_wide(const Product& product, int64_t begin, int64_t end, void*) {
  const int64_t all = vectors(product.outputs);
  for (int64_t first = begin, stop; first < end; first = stop) {
    stop = alike_until(product, first, first + BLOCK_ROWS < end ? first + BLOCK_ROWS : end);
    Ahead ahead{product.terms[0].x.rows, 0, (all + GROUP - 1) / GROUP};
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

/// sums[o, column of chunk c] += the sum over rows of gradients[row, o] * x[row, that column], for OUTS outputs.
/// `lasting` masks the last chunk: those of its columns that are not in the chunk before.
template <int OUTS, int CHUNKS>
inline void wide_gradient_tile(const Rows& gradients, const Rows& x, int64_t begin, int64_t end, int64_t output,
                               const int64_t* at, Ints lasting, float* sums, int64_t stride) {
  Wide total[OUTS][CHUNKS] = {};
  const float* given = gradients.wide + begin * gradients.stride + output;
  const float* values = x.wide + begin * x.stride;
  for (int64_t row = begin; row < end; ++row, given += gradients.stride, values += x.stride) {
    Wide value[CHUNKS];
    for (int c = 0; c < CHUNKS; ++c) value[c] = load(values + at[c]);
    value[CHUNKS - 1] = (Wide)((Ints)value[CHUNKS - 1] & lasting);
    for (int o = 0; o < OUTS; ++o)
      for (int c = 0; c < CHUNKS; ++c) total[o][c] += value[c] * given[o];
  }
  for (int o = 0; o < OUTS; ++o) {
    for (int c = 0; c < CHUNKS; ++c) {
      float* to = sums + (output + o) * stride + at[c];
      store(to, load(to) + total[o][c]);
    }
  }
}

template <int OUTS>
void wide_gradient_rows(const Rows& gradients, const Rows& x, int64_t begin, int64_t end, int64_t output,
                        float* sums) {
  const int64_t all = vectors(x.width), stride = all * WIDE;
  const int64_t covered = all * WIDE - x.width;  // columns of the last vector that the one before has
  for (int64_t first = 0; first < all; first += GROUP) {
    const int64_t count = all - first < GROUP ? all - first : GROUP;
    int64_t at[GROUP];
    for (int64_t c = 0; c < count; ++c) at[c] = (first + c) * WIDE;
    Ints lasting = ~Ints{};
    if (first + count == all) {
      at[count - 1] = x.width - WIDE;
      for (int64_t lane = 0; lane < covered; ++lane) lasting[lane] = 0;
    }
    const auto tile = [&]<int CHUNKS>() {
      wide_gradient_tile<OUTS, CHUNKS>(gradients, x, begin, end, output, at, lasting, sums, stride);
    };
    if (count == 1) tile.template operator()<1>();
    else if (count == 2) tile.template operator()<2>();
    else if constexpr (GROUP > 2) {
      if (count == 3) tile.template operator()<3>();
      else tile.template operator()<4>();
    }
  }
}

/// Of rows that are shorter than a vector.
inline void short_gradient(const Rows& gradients, const Rows& x, int64_t begin, int64_t end, float* sums) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t o = 0; o < gradients.width; ++o)
      for (int64_t k = 0; k < x.width; ++k)
        sums[o * WIDE + k] += gradients.wide[row * gradients.stride + o] * x.wide[row * x.stride + k];
}

void wide_gradient(const Gradient& gradient, int64_t begin, int64_t end, void*) {
  const Rows& given = gradient.gradients;
  for (int64_t first = begin; first < end; first += SUMMED_PANEL) {
    const int64_t stop = first + SUMMED_PANEL < end ? first + SUMMED_PANEL : end;
    for (int64_t w = 0; w < gradient.num_weights; ++w) {
      const auto& [x, sums] = gradient.weights[w];
      for (int64_t row = stop; row < stop + SUMMED_PANEL && row < end; ++row)
        for (int64_t k = 0; k < x.width; k += LINE) __builtin_prefetch(x.wide + row * x.stride + k, 0, 2);
      if (x.width < WIDE) {
        short_gradient(given, x, first, stop, sums);
        continue;
      }
      int64_t output = 0;
      for (; output + AT_ONCE <= given.width; output += AT_ONCE)
        wide_gradient_rows<AT_ONCE>(given, x, first, stop, output, sums);
      for (; output + 2 <= given.width; output += 2) wide_gradient_rows<2>(given, x, first, stop, output, sums);
      if (output < given.width) wide_gradient_rows<1>(given, x, first, stop, output, sums);
    }
    if (gradient.column_sums == nullptr) continue;
    for (int64_t row = first; row < stop; ++row)
      for (int64_t o = 0; o < given.width; ++o) gradient.column_sums[o] += given.wide[row * given.stride + o];
  }
}

int64_t no_product_room(const Product&) { return 0; }
int64_t no_gradient_room(const Gradient&) { return 0; }

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
