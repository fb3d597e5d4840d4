// Compiled for AMX alone, and called where the machine has it (layer_products.cpp): see tile_products.hpp.
#include "tile_products.hpp"

#include <immintrin.h>

namespace gsplit::tiles {
namespace {

using products::cover;
using products::Gradient;
using products::MOST_TERMS;
using products::Product;
using products::Rows;
using products::Term;

constexpr int64_t SIDE = 16;    // rows of a tile, and of sums its columns
constexpr int64_t DEPTH = 32;   // values that a row of a tile has
constexpr int64_t CHUNK = 512;  // rows whose gradients are packed at a time
constexpr int64_t TILE_VALUES = SIDE * DEPTH;
constexpr int64_t BLOCK = 2 * SIDE;  // rows that are multiplied at a time
constexpr int64_t LINE = 64;
constexpr int64_t PICKED_AHEAD = 64;  // rows before one is read that it is fetched

/// All eight tiles whole, while a call lasts.
class Configured {
 public:
  Configured() {
    alignas(64) struct {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    for (int tile = 0; tile < 8; ++tile) {
      config.row_bytes[tile] = 64;
      config.rows[tile] = SIDE;
    }
    _tile_loadconfig(&config);
  }
  ~Configured() { _tile_release(); }
  Configured(const Configured&) = delete;
  Configured& operator=(const Configured&) = delete;
};

inline __mmask32 first(int64_t count) { return count >= DEPTH ? ~0u : (1u << count) - 1; }

/// 32 values in bfloat16, of which those that the mask leaves out are 0 and not read.
inline __m512i half_line(const BFloat16* from, __mmask32 mask) { return _mm512_maskz_loadu_epi16(mask, from); }
inline __m512i half_line(const float* from, __mmask32 mask) {
  const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
  const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> SIDE), from + SIDE);
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/// Calls work(values) with the values of rows in their type.
template <class Work>
inline void in_type(const Rows& x, Work work) {
  if (x.narrow != nullptr) work(x.narrow);
  else work(x.wide);
}

/// Fetches a row that is picked out of a table: the machine cannot guess where it lies.
template <class T>
inline void fetch_picked(const Rows& x, const T* values, int64_t row) {
  if (x.ids == nullptr || row >= x.rows) return;
  for (int64_t k = 0; k < x.width; k += LINE / static_cast<int64_t>(sizeof(T)))
    _mm_prefetch(reinterpret_cast<const char*>(values + x.at(row) + k), _MM_HINT_T0);
}

/// Rows begin .. end as left tiles [2, steps, SIDE, DEPTH], with zeros behind them.
template <class T>
void pack_left(const Rows& x, const T* values, int64_t begin, int64_t end, BFloat16* packed) {
  const int64_t steps = cover(x.width, DEPTH), whole = x.width / DEPTH;
  const __mmask32 rest = first(x.width % DEPTH);
  for (int64_t r = 0; r < BLOCK; ++r) {
    BFloat16* to = packed + (r / SIDE) * steps * TILE_VALUES + (r % SIDE) * DEPTH;
    if (begin + r >= end) {
      for (int64_t s = 0; s < steps; ++s) _mm512_store_si512(to + s * TILE_VALUES, _mm512_setzero_si512());
      continue;
    }
    const T* from = values + x.at(begin + r);
    for (int64_t s = 0; s < whole; ++s) _mm512_store_si512(to + s * TILE_VALUES, half_line(from + s * DEPTH, ~0u));
    if (whole < steps) _mm512_store_si512(to + whole * TILE_VALUES, half_line(from + whole * DEPTH, rest));
  }
}

/// Writes sums of up to 32 outputs of a row, with the bias.
inline void write(const Product& product, int64_t row, int64_t output, __m512 low, __m512 high) {
  const __mmask32 mask = first(product.outputs - output);
  const auto low_mask = static_cast<__mmask16>(mask), high_mask = static_cast<__mmask16>(mask >> SIDE);
  if (product.bias != nullptr) {
    low = _mm512_add_ps(low, _mm512_maskz_loadu_ps(low_mask, product.bias + output));
    high = _mm512_add_ps(high, _mm512_maskz_loadu_ps(high_mask, product.bias + output + SIDE));
  }
  const int64_t to = row * product.out_stride + output;
  if (product.wide_out != nullptr) {
    _mm512_mask_storeu_ps(product.wide_out + to, low_mask, low);
    _mm512_mask_storeu_ps(product.wide_out + to + SIDE, high_mask, high);
  } else {
    _mm512_mask_storeu_epi16(product.out + to, mask, (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
}

/// SIDE x 32-bit values, transposed.
inline void transpose(__m512i (&rows)[SIDE]) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma GCC unroll 4
  for (int step = 1; step < SIDE; step *= 2) {
    // Lane l of the lower row: its own, or, where l has the bit of the step, lane l - step of the upper one.
    const __mmask16 has = _mm512_test_epi32_mask(lanes, _mm512_set1_epi32(step));
    const __m512i back = _mm512_sub_epi32(lanes, _mm512_set1_epi32(step));
    const __m512i on = _mm512_add_epi32(lanes, _mm512_set1_epi32(step));
#pragma GCC unroll 16
    for (int row = 0; row < SIDE; ++row) {
      if (row & step) continue;
      const __m512i lower = rows[row], upper = rows[row + step];
      rows[row] = _mm512_mask_permutexvar_epi32(lower, has, back, upper);
      rows[row + step] = _mm512_mask_permutexvar_epi32(upper, static_cast<__mmask16>(~has), on, lower);
    }
  }
}

/// Adds pairs of values to the sums of their columns.
inline void add_pairs(__m512i pairs, float* sums) {
  const __m512 low = (__m512)_mm512_slli_epi32(pairs, 16);
  const __m512 high = (__m512)_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  _mm512_store_ps(sums, _mm512_add_ps(_mm512_load_ps(sums), _mm512_add_ps(low, high)));
}

/// Rows begin .. end as right tiles [cover(width, SIDE), steps, SIDE, DEPTH]: row r of one has the pairs of rows 2r
/// and 2r + 1. As left tiles of the transposed rows where TRANSPOSED. Sums of the columns are added to where they are
/// asked.
template <bool TRANSPOSED, class T>
void pack_pairs(const Rows& x, const T* values, int64_t begin, int64_t end, int64_t steps, BFloat16* packed,
                float* column_sums) {
  alignas(64) uint16_t order[2][DEPTH];  // of two rows, column by column, the lower and the upper half
  for (int lane = 0; lane < DEPTH; ++lane) {
    order[0][lane] = static_cast<uint16_t>(lane / 2 + (lane % 2) * DEPTH);
    order[1][lane] = static_cast<uint16_t>(order[0][lane] + SIDE);
  }
  const __m512i lower = _mm512_load_si512(order[0]), upper = _mm512_load_si512(order[1]);
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t from = begin + s * DEPTH;
    for (int64_t column = 0; column < x.width; column += DEPTH) {
      const __mmask32 mask = first(x.width - column);
      __m512i low_pairs[SIDE], high_pairs[SIDE];
      for (int64_t r = 0; r < SIDE; ++r) {
        const int64_t row = from + 2 * r;
        const __m512i none = _mm512_setzero_si512();
        if (column == 0) {
          fetch_picked(x, values, row + PICKED_AHEAD);
          fetch_picked(x, values, row + 1 + PICKED_AHEAD);
        }
        const __m512i one = row < end ? half_line(values + x.at(row) + column, mask) : none;
        const __m512i other = row + 1 < end ? half_line(values + x.at(row + 1) + column, mask) : none;
        low_pairs[r] = _mm512_permutex2var_epi16(one, lower, other);
        high_pairs[r] = _mm512_permutex2var_epi16(one, upper, other);
        if (column_sums != nullptr) {
          add_pairs(low_pairs[r], column_sums + column);
          add_pairs(high_pairs[r], column_sums + column + SIDE);
        }
      }
      BFloat16* to = packed + (column / SIDE * steps + s) * TILE_VALUES;
      if (TRANSPOSED) transpose(low_pairs);
      for (int64_t r = 0; r < SIDE; ++r) _mm512_store_si512(to + r * DEPTH, low_pairs[r]);
      if (column + SIDE >= x.width) continue;
      if (TRANSPOSED) transpose(high_pairs);
      for (int64_t r = 0; r < SIDE; ++r) _mm512_store_si512(to + steps * TILE_VALUES + r * DEPTH, high_pairs[r]);
    }
  }
}

inline int64_t packed_values(const Term& term) { return 2 * cover(term.x.width, DEPTH) * TILE_VALUES; }

int64_t product_room(const Product& product) {
  int64_t values = 0;
  for (int64_t t = 0; t < product.num_terms; ++t) values += packed_values(product.terms[t]);
  return values * static_cast<int64_t>(sizeof(BFloat16)) + BLOCK * BLOCK * static_cast<int64_t>(sizeof(float));
}

void multiply(const Product& product, int64_t begin, int64_t end, void* room) {
  const Configured configured;
  auto* sums = static_cast<float*>(room);  // [BLOCK, BLOCK]
  auto* packed = reinterpret_cast<BFloat16*>(sums + BLOCK * BLOCK);
  const int64_t tiles = cover(product.outputs, SIDE);
  for (int64_t row = begin; row < end; row += BLOCK) {
    const int64_t stop = row + BLOCK < end ? row + BLOCK : end;
    BFloat16* left[MOST_TERMS];
    int64_t terms = 0;
    BFloat16* next = packed;
    for (; terms < product.num_terms && row < product.terms[terms].x.rows; ++terms) {
      const Rows& x = product.terms[terms].x;
      left[terms] = next;
      in_type(x, [&](const auto* values) { pack_left(x, values, row, stop < x.rows ? stop : x.rows, next); });
      next += packed_values(product.terms[terms]);
    }
    for (int64_t tile = 0; tile < tiles; tile += 2) {
      const bool both = tile + 1 < tiles;
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      for (int64_t t = 0; t < terms; ++t) {
        const int64_t steps = cover(product.terms[t].x.width, DEPTH);
        const auto* weight = static_cast<const BFloat16*>(product.terms[t].packed) + tile * steps * TILE_VALUES;
        for (int64_t s = 0; s < steps; ++s) {
          _tile_loadd(4, left[t] + s * TILE_VALUES, LINE);
          _tile_loadd(5, left[t] + (steps + s) * TILE_VALUES, LINE);
          _tile_loadd(6, weight + s * TILE_VALUES, LINE);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(1, 5, 6);
          if (both) {
            _tile_loadd(7, weight + (steps + s) * TILE_VALUES, LINE);
            _tile_dpbf16ps(2, 4, 7);
            _tile_dpbf16ps(3, 5, 7);
          }
        }
      }
      constexpr int64_t STRIDE = BLOCK * sizeof(float);
      _tile_stored(0, sums, STRIDE);
      _tile_stored(1, sums + SIDE * BLOCK, STRIDE);
      _tile_stored(2, sums + SIDE, STRIDE);
      _tile_stored(3, sums + SIDE * BLOCK + SIDE, STRIDE);
      const Rows& x = product.terms[0].x;
      for (int64_t r = 0; r < stop - row; ++r) {
        if (tile == 0) in_type(x, [&](const auto* values) { fetch_picked(x, values, row + r + PICKED_AHEAD); });
        write(product, row + r, tile * SIDE, _mm512_load_ps(sums + r * BLOCK),
              _mm512_load_ps(sums + r * BLOCK + SIDE));
      }
    }
  }
}

int64_t gradient_room(const Gradient& gradient) {
  int64_t widest = 0;
  for (int64_t w = 0; w < gradient.num_weights; ++w)
    widest = widest < gradient.weights[w].x.width ? gradient.weights[w].x.width : widest;
  const int64_t tiles = cover(gradient.gradients.width, SIDE) + cover(widest, SIDE);
  return tiles * (CHUNK / DEPTH) * TILE_VALUES * static_cast<int64_t>(sizeof(BFloat16));
}

/// Adds the products of packed gradients and rows, of so many steps, to the sums of a weight.
void add_products(const BFloat16* left, int64_t outputs, const BFloat16* right, int64_t columns, int64_t steps,
                  float* to) {
  const int64_t stride = columns * SIDE, stride_bytes = stride * static_cast<int64_t>(sizeof(float));
  for (int64_t o = 0; o < outputs; o += 2) {
    const bool two_down = o + 1 < outputs;
    for (int64_t k = 0; k < columns; k += 2) {
      const bool two_across = k + 1 < columns;
      float* sums = to + o * SIDE * stride + k * SIDE;
      _tile_loadd(0, sums, stride_bytes);
      if (two_across) _tile_loadd(1, sums + SIDE, stride_bytes);
      if (two_down) _tile_loadd(2, sums + SIDE * stride, stride_bytes);
      if (two_down && two_across) _tile_loadd(3, sums + SIDE * stride + SIDE, stride_bytes);
      for (int64_t s = 0; s < steps; ++s) {
        _tile_loadd(4, left + (o * steps + s) * TILE_VALUES, LINE);
        _tile_loadd(6, right + (k * steps + s) * TILE_VALUES, LINE);
        _tile_dpbf16ps(0, 4, 6);
        if (two_across) {
          _tile_loadd(7, right + ((k + 1) * steps + s) * TILE_VALUES, LINE);
          _tile_dpbf16ps(1, 4, 7);
        }
        if (two_down) {
          _tile_loadd(5, left + ((o + 1) * steps + s) * TILE_VALUES, LINE);
          _tile_dpbf16ps(2, 5, 6);
          if (two_across) _tile_dpbf16ps(3, 5, 7);
        }
      }
      _tile_stored(0, sums, stride_bytes);
      if (two_across) _tile_stored(1, sums + SIDE, stride_bytes);
      if (two_down) _tile_stored(2, sums + SIDE * stride, stride_bytes);
      if (two_down && two_across) _tile_stored(3, sums + SIDE * stride + SIDE, stride_bytes);
    }
  }
}

void gradient(const Gradient& gradient, int64_t begin, int64_t end, void* room) {
  const Configured configured;
  const int64_t outputs = cover(gradient.gradients.width, SIDE);
  auto* left = static_cast<BFloat16*>(room);
  auto* right = left + outputs * (CHUNK / DEPTH) * TILE_VALUES;
  for (int64_t row = begin; row < end; row += CHUNK) {
    const int64_t stop = row + CHUNK < end ? row + CHUNK : end, steps = cover(stop - row, DEPTH);
    in_type(gradient.gradients, [&](const auto* values) {
      pack_pairs<true>(gradient.gradients, values, row, stop, steps, left, gradient.column_sums);
    });
    for (int64_t w = 0; w < gradient.num_weights; ++w) {
      const auto& [x, sums] = gradient.weights[w];
      in_type(x, [&](const auto* values) { pack_pairs<false>(x, values, row, stop, steps, right, nullptr); });
      add_products(left, outputs, right, cover(x.width, SIDE), steps, sums);
    }
  }
}

/// As right tiles [cover(outputs, SIDE), cover(width, DEPTH), SIDE, DEPTH].
void pack_weight(const float* weight, int64_t outputs, int64_t width, int64_t by_output, int64_t by_input,
                 void* packed) {
  const int64_t steps = cover(width, DEPTH);
  for (int64_t o = 0; o < cover(outputs, SIDE) * SIDE; ++o) {
    for (int64_t k = 0; k < steps * DEPTH; ++k) {
      const bool there = o < outputs && k < width;
      auto* tile = static_cast<BFloat16*>(packed) + (o / SIDE * steps + k / DEPTH) * TILE_VALUES;
      tile[k % DEPTH / 2 * DEPTH + o % SIDE * 2 + k % 2] =
          narrowed(there ? weight[o * by_output + k * by_input] : 0.0f);
    }
  }
}

int64_t packed_bytes(int64_t outputs, int64_t width) {
  return cover(outputs, SIDE) * cover(width, DEPTH) * TILE_VALUES * static_cast<int64_t>(sizeof(BFloat16));
}

}  // namespace

extern const products::Kernels kernels;
const products::Kernels kernels{multiply, gradient, product_room, gradient_room, pack_weight, packed_bytes, SIDE};

}  // namespace gsplit::tiles
