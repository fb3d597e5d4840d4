// Compiled for AMX alone, and called where the machine has it (mixed_products.cpp): see tile_products.hpp.
#include "tile_products.hpp"

#include <immintrin.h>

namespace gsplit::tiles {
namespace {

constexpr int64_t TILE_VALUES = SIDE * DEPTH;
constexpr int64_t BLOCK = 2 * SIDE;       // rows that are multiplied at a time
constexpr int64_t ROWS_AHEAD = 2 * BLOCK;  // picked rows that are on their way
constexpr int64_t LINE = 64;

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

inline int64_t at(const Rows& x, int64_t row) { return (x.ids == nullptr ? row : x.ids[row]) * x.stride; }

inline __mmask16 first(int64_t count) { return static_cast<__mmask16>(count >= 16 ? 0xffff : (1u << count) - 1); }

/// 16 values from `column` on, in bfloat16; those beyond the row's end are 0.
inline __m256i sixteen(const Rows& x, int64_t offset, int64_t column) {
  const int64_t left = x.width - column;
  if (left <= 0) return _mm256_setzero_si256();
  const __mmask16 mask = first(left);
  if (x.narrow != nullptr) return _mm256_maskz_loadu_epi16(mask, x.narrow + offset + column);
  return (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x.wide + offset + column));
}

inline void fetch(const Rows& x, int64_t row) {
  const int64_t item = x.narrow != nullptr ? sizeof(BFloat16) : sizeof(float);
  const char* begin = (x.narrow != nullptr ? (const char*)x.narrow : (const char*)x.wide) + at(x, row) * item;
  for (int64_t byte = 0; byte < x.width * item; byte += LINE) _mm_prefetch(begin + byte, _MM_HINT_T1);
}

/// Rows begin .. end as left tiles [2, steps, SIDE, DEPTH], with zeros behind them.
void pack_left(const Rows& x, int64_t begin, int64_t end, BFloat16* packed) {
  const int64_t steps = cover(x.width, DEPTH);
  for (int64_t r = 0; r < BLOCK; ++r) {
    BFloat16* to = packed + (r / SIDE) * steps * TILE_VALUES + (r % SIDE) * DEPTH;
    if (begin + r >= end) {
      for (int64_t s = 0; s < steps; ++s) _mm512_store_si512(to + s * TILE_VALUES, _mm512_setzero_si512());
      continue;
    }
    if (x.ids != nullptr && begin + r + ROWS_AHEAD < x.rows) fetch(x, begin + r + ROWS_AHEAD);
    const int64_t offset = at(x, begin + r);
    for (int64_t s = 0; s < steps; ++s) {
      const __m256i low = sixteen(x, offset, s * DEPTH), high = sixteen(x, offset, s * DEPTH + SIDE);
      _mm512_store_si512(to + s * TILE_VALUES, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
    }
  }
}

/// Writes one tile's row of sums, with the bias, to up to 16 outputs.
inline void write(const Product& product, int64_t row, int64_t output, __m512 sums) {
  const int64_t left = product.outputs - output;
  const __mmask16 mask = first(left);
  if (product.bias != nullptr) sums = _mm512_add_ps(sums, _mm512_maskz_loadu_ps(mask, product.bias + output));
  const int64_t to = row * product.out_stride + output;
  if (product.wide_out != nullptr) _mm512_mask_storeu_ps(product.wide_out + to, mask, sums);
  else _mm256_mask_storeu_epi16(product.out + to, mask, (__m256i)_mm512_cvtneps_pbh(sums));
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

/// Rows begin .. end as right tiles [cover(width, SIDE), steps, SIDE, DEPTH]: row r of one has the pairs of rows 2r and
/// 2r + 1. As left tiles of the transposed rows where TRANSPOSED.
template <bool TRANSPOSED>
void pack_pairs(const Rows& x, int64_t begin, int64_t end, int64_t steps, BFloat16* packed) {
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t from = begin + s * DEPTH;
    if (x.ids != nullptr)
      for (int64_t row = from + DEPTH; row < from + 2 * DEPTH && row < x.rows; ++row) fetch(x, row);
    for (int64_t column = 0; column < x.width; column += SIDE) {
      __m512i pairs[SIDE];
      for (int64_t r = 0; r < SIDE; ++r) {
        const int64_t row = from + 2 * r;
        __m512i low = _mm512_setzero_si512(), high = low;
        if (row < end) low = _mm512_cvtepu16_epi32(sixteen(x, at(x, row), column));
        if (row + 1 < end) high = _mm512_cvtepu16_epi32(sixteen(x, at(x, row + 1), column));
        pairs[r] = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
      }
      if (TRANSPOSED) transpose(pairs);
      BFloat16* to = packed + (column / SIDE * steps + s) * TILE_VALUES;
      for (int64_t r = 0; r < SIDE; ++r) _mm512_store_si512(to + r * DEPTH, pairs[r]);
    }
  }
}

inline int64_t packed_values(const Term& term) { return 2 * cover(term.x.width, DEPTH) * TILE_VALUES; }

}  // namespace

int64_t room_bytes(const Product& product) {
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
      pack_left(x, row, stop < x.rows ? stop : x.rows, next);
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
        const BFloat16* weight = product.terms[t].packed + tile * steps * TILE_VALUES;
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
      for (int64_t r = 0; r < stop - row; ++r) {
        write(product, row + r, tile * SIDE, _mm512_load_ps(sums + r * BLOCK));
        if (both) write(product, row + r, (tile + 1) * SIDE, _mm512_load_ps(sums + r * BLOCK + SIDE));
      }
    }
  }
}

int64_t room_bytes(const Gradient& gradient) {
  const int64_t tiles = cover(gradient.gradients.width, SIDE) + cover(gradient.x.width, SIDE);
  return tiles * (CHUNK / DEPTH) * TILE_VALUES * static_cast<int64_t>(sizeof(BFloat16));
}

void gradient(const Gradient& gradient, int64_t begin, int64_t end, void* room) {
  const Configured configured;
  const int64_t outputs = cover(gradient.gradients.width, SIDE), columns = cover(gradient.x.width, SIDE);
  const int64_t stride = columns * SIDE, stride_bytes = stride * static_cast<int64_t>(sizeof(float));
  auto* left = static_cast<BFloat16*>(room);
  auto* right = left + outputs * (CHUNK / DEPTH) * TILE_VALUES;
  for (int64_t row = begin; row < end; row += CHUNK) {
    const int64_t stop = row + CHUNK < end ? row + CHUNK : end, steps = cover(stop - row, DEPTH);
    pack_pairs<true>(gradient.gradients, row, stop, steps, left);
    pack_pairs<false>(gradient.x, row, stop, steps, right);
    for (int64_t o = 0; o < outputs; o += 2) {
      const bool two_down = o + 1 < outputs;
      for (int64_t k = 0; k < columns; k += 2) {
        const bool two_across = k + 1 < columns;
        float* sums = gradient.sums + o * SIDE * stride + k * SIDE;
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
}

void pack_weight(const float* weight, int64_t outputs, int64_t width, int64_t by_output, int64_t by_input,
                 BFloat16* packed) {
  const int64_t steps = cover(width, DEPTH);
  for (int64_t o = 0; o < cover(outputs, SIDE) * SIDE; ++o) {
    for (int64_t k = 0; k < steps * DEPTH; ++k) {
      const bool there = o < outputs && k < width;
      BFloat16* tile = packed + (o / SIDE * steps + k / DEPTH) * TILE_VALUES;
      tile[k % DEPTH / 2 * DEPTH + o % SIDE * 2 + k % 2] =
          narrowed(there ? weight[o * by_output + k * by_input] : 0.0f);
    }
  }
}

}  // namespace gsplit::tiles
