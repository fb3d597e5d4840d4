// Compiled once for each instruction set, into the namespace GSPLIT_ISA; see row_kernels.hpp.
//
// A row is worked on in tiles whose sums fit the registers: CHUNKS vectors of LANES values. A width that is no
// multiple of LANES has its last chunk end at its last column, over the one before: the columns that both have get
// the same sums twice, and nothing is masked. So a tile must be at least LANES wide; narrower rows take fewer lanes.
#include "row_kernels.hpp"

namespace gsplit::GSPLIT_ISA {
namespace {

constexpr int64_t LINE_BYTES = 64;
constexpr int64_t EDGES_AHEAD = 48;         // whose rows are on their way
constexpr int MOST_CHUNKS = GSPLIT_CHUNKS;  // a tile has at most so many

template <class T, int LANES>
struct Vector {
  typedef T type __attribute__((vector_size(LANES * sizeof(T)), aligned(alignof(T)), may_alias));
};
template <class T>
struct Vector<T, 1> {
  using type = T;
};

/// A source's row. It takes no branch: which kind comes next is not to be predicted.
template <class T>
inline const T* source(const RowTask<T>& task, int64_t i) {
  const bool own = i < task.num_own;
  const T* rows = own ? task.own : task.received;
  const int64_t stride = own ? task.own_stride : task.received_stride;
  return rows + (i - (own ? 0 : task.num_own)) * stride;
}

/// Fetches some columns of the row of an edge that comes soon, no nearer than the second cache: the first has room
/// for a few lines on their way, the second for so many that memory is kept busy (docs/log.md, "Sums fetch ahead").
/// Always inline: GCC takes a call of a function that does nothing but fetch for one without effect, and drops it.
template <class T>
__attribute__((always_inline)) inline void fetch(const RowTask<T>& task, int64_t edge, int64_t column,
                                                 int64_t width) {
  const auto* begin = reinterpret_cast<const char*>(source(task, task.indices[edge]) + column);
  const auto* end = begin + width * int64_t{sizeof(T)};
  for (const auto* at = begin; at < end; at += LINE_BYTES) __builtin_prefetch(at, 0, 2);
}

template <class T>
inline T scale(const RowTask<T>& task, int64_t edge, int64_t head) {
  T scale = task.factor == nullptr ? T(1) : task.factor[task.indices[edge]];
  if (task.weight != nullptr)
    scale *= task.weight[(task.order == nullptr ? edge : task.order[edge]) * task.weight_stride + head];
  return scale;
}

/// How a row is cut: the columns of each head into `tiles` as wide as each other but for one column, `width` at most.
struct Tiling {
  int64_t head_width, tiles, width;
};

template <class T, int LANES, int CHUNKS>
struct Tile {
  using V = typename Vector<T, LANES>::type;

  static int64_t offset(int chunk, int64_t width) {
    const int64_t at = int64_t{chunk} * LANES;
    return at < width - LANES ? at : width - LANES;
  }

  /// One tile of one row, while rows of later edges are fetched.
  template <bool SCALED>
  static inline void sum(const RowTask<T>& task, int64_t row, int64_t head, int64_t column, int64_t width,
                         int64_t last) {
    const int64_t begin = task.indptr[row], end = task.indptr[row + 1];
    V total[CHUNKS] = {};
    int64_t at[CHUNKS];
    for (int c = 0; c < CHUNKS; ++c) at[c] = column + offset(c, width);
    for (int64_t e = begin; e < end; ++e) {
      if (e + EDGES_AHEAD < last) fetch(task, e + EDGES_AHEAD, column, width);
      const T* values = source(task, task.indices[e]);
      if constexpr (SCALED) {
        const T by = scale(task, e, head);
        for (int c = 0; c < CHUNKS; ++c) total[c] += *reinterpret_cast<const V*>(values + at[c]) * by;
      } else {
        for (int c = 0; c < CHUNKS; ++c) total[c] += *reinterpret_cast<const V*>(values + at[c]);
      }
    }
    if (task.mean && end > begin) {
      const T by = T(1) / static_cast<T>(end - begin);
      for (int c = 0; c < CHUNKS; ++c) total[c] *= by;
    }
    if (row < task.start_rows) {  // all of it is read before any is written: it may be `out`
      const T* start = task.start + row * task.start_stride;
      for (int c = 0; c < CHUNKS; ++c) total[c] += *reinterpret_cast<const V*>(start + at[c]);
    }
    T* out = task.out + row * task.out_stride;
    for (int c = 0; c < CHUNKS; ++c) *reinterpret_cast<V*>(out + at[c]) = total[c];
  }

  template <bool SCALED>
  static void sum_range(const RowTask<T> task, const Tiling& tiling, int64_t begin, int64_t end) {
    const int64_t last = task.indptr[end];
    if (task.heads == 1 && tiling.tiles == 1) {
      for (int64_t row = begin; row < end; ++row) sum<SCALED>(task, row, 0, 0, tiling.width, last);
      return;
    }
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t head = 0; head < task.heads; ++head) {
        for (int64_t tile = 0; tile < tiling.tiles; ++tile) {
          const int64_t from = tile * tiling.head_width / tiling.tiles;
          const int64_t width = (tile + 1) * tiling.head_width / tiling.tiles - from;
          const int64_t column = head * tiling.head_width + from;
          sum<SCALED>(task, row, head, column, width, last);
        }
      }
    }
  }
};

template <class T, int LANES, int CHUNKS>
void sum_with(const RowTask<T>& task, const Tiling& tiling, int64_t begin, int64_t end) {
  const int64_t chunks = (tiling.width + LANES - 1) / LANES;
  if constexpr (CHUNKS > 1) {
    if (chunks < CHUNKS) return sum_with<T, LANES, CHUNKS - 1>(task, tiling, begin, end);
  }
  if (task.factor != nullptr || task.weight != nullptr)
    Tile<T, LANES, CHUNKS>::template sum_range<true>(task, tiling, begin, end);
  else Tile<T, LANES, CHUNKS>::template sum_range<false>(task, tiling, begin, end);
}

template <class T>
void sum_rows(const RowTask<T>& task, int64_t begin, int64_t end) {
  constexpr int WIDE = static_cast<int>(LINE_BYTES / sizeof(T));
  const int64_t width = task.width / task.heads;
  const int64_t tiles = (width + WIDE * MOST_CHUNKS - 1) / (WIDE * MOST_CHUNKS);
  const Tiling tiling{width, tiles, (width + tiles - 1) / tiles};
  if (width >= WIDE) sum_with<T, WIDE, MOST_CHUNKS>(task, tiling, begin, end);
  else if (WIDE > 8 && width >= 8) sum_with<T, 8, 2>(task, tiling, begin, end);
  else if (width >= 4) sum_with<T, 4, 2>(task, tiling, begin, end);
  else sum_with<T, 1, 3>(task, tiling, begin, end);
}

template <class T>
void dot_rows(const RowTask<T>& task, int64_t begin, int64_t end) {
  constexpr int64_t LANES = LINE_BYTES / sizeof(T);
  using V = typename Vector<T, LANES>::type;
  const int64_t width = task.width / task.heads, last = task.indptr[end];
  for (int64_t row = begin; row < end; ++row) {
    const T* left = task.start + row * task.start_stride;
    for (int64_t e = task.indptr[row]; e < task.indptr[row + 1]; ++e) {
      if (e + EDGES_AHEAD < last) fetch(task, e + EDGES_AHEAD, 0, task.width);
      const T* right = source(task, task.indices[e]);
      for (int64_t head = 0; head < task.heads; ++head) {
        const T *a = left + head * width, *b = right + head * width;
        T total = 0;
        int64_t c = 0;
        if (width >= LANES) {
          V sums = {};
          for (; c + LANES <= width; c += LANES)
            sums += *reinterpret_cast<const V*>(a + c) * *reinterpret_cast<const V*>(b + c);
          for (int64_t lane = 0; lane < LANES; ++lane) total += sums[lane];
        }
        for (; c < width; ++c) total += a[c] * b[c];
        task.out[e * task.out_stride + head] = total;
      }
    }
  }
}

constexpr int64_t PIECE = 256;                                         // columns that are hashed at a time
constexpr int DRAWN = MOST_CHUNKS > 8 ? 16 : MOST_CHUNKS > 4 ? 8 : 4;  // and in one vector
constexpr int NONE = 0, RELU = 1;

/// The end of MurmurHash3, on every lane.
template <class Hashes>
inline void mix(Hashes& h) {
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  h ^= h >> 16;
}

/// splitmix64, of a seed and a number.
inline uint64_t mixed(uint64_t seed, uint64_t number) {
  uint64_t h = seed + (number + 1) * 0x9e3779b97f4a7c15u;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
  return h ^ (h >> 31);
}

/// scales[c] = scale, or 0 where column first + c of the row is dropped, for whole runs of DRAWN columns.
template <class T>
inline void draw(const ActivationTask<T>& task, uint64_t row_seed, int64_t first, int64_t count, T* scales) {
  typedef uint32_t Hashes __attribute__((vector_size(DRAWN * sizeof(uint32_t))));
  typedef int32_t Signed __attribute__((vector_size(DRAWN * sizeof(int32_t))));
  typedef T Scales __attribute__((vector_size(DRAWN * sizeof(T)), aligned(alignof(T)), may_alias));
  Hashes column{};
  for (int lane = 0; lane < DRAWN; ++lane) column[lane] = static_cast<uint32_t>(first + lane);
  const auto low = static_cast<uint32_t>(row_seed), high = static_cast<uint32_t>(row_seed >> 32);
  const auto below =
      static_cast<int32_t>(task.drop_below >> 1);  // compared with sign: not all machines have the other
  const T scale = task.scale;
  for (int64_t c = 0; c < count; c += DRAWN, column += DRAWN) {
    Hashes hash = column * 0x9e3779b1u + low;
    mix(hash);
    hash ^= high;
    mix(hash);
    const Signed kept = ((Signed)(hash >> 1) >= below) & 1;
    *reinterpret_cast<Scales*>(scales + c) = __builtin_convertvector(kept, Scales) * scale;
  }
}

/// Some columns of a row; x of the backward is what forward gave.
template <class T, bool BACKWARD, bool DROPS>
inline void activate_piece(int activation, T scale, const T* __restrict x, const T* __restrict gradients,
                           T* __restrict out, int64_t count, const T* __restrict scales) {
  if (activation == NONE) {
    for (int64_t c = 0; c < count; ++c) out[c] = (BACKWARD ? gradients[c] : x[c]) * (DROPS ? scales[c] : T(1));
  } else if (activation == RELU) {
    for (int64_t c = 0; c < count; ++c) {
      const T given = x[c], value = BACKWARD ? gradients[c] : given;
      const T passed = given <= T(0) ? T(0) : value;  // NaN stays
      out[c] = passed * (DROPS ? scales[c] : T(1));
    }
  } else if (BACKWARD) {  // ELU's slope below 0 is e^x, which is its value plus 1
    const T unscale = scale > T(0) ? T(1) / scale : T(0);
    for (int64_t c = 0; c < count; ++c) {
      const T given = x[c], value = gradients[c];
      const T below = (DROPS ? given * unscale : given) + T(1);
      const T slope = given > T(0) ? T(1) : below;
      out[c] = value * slope * (DROPS ? scales[c] : T(1));
    }
  } else {  // out holds e^x - 1 already
    for (int64_t c = 0; c < count; ++c) {
      const T given = x[c], below = out[c];
      const T value = given <= T(0) ? below : given;
      out[c] = value * (DROPS ? scales[c] : T(1));
    }
  }
}

template <class T, bool BACKWARD, bool DROPS>
void activate_rows(const ActivationTask<T>& task, int64_t begin, int64_t end) {
  T scales[PIECE];
  for (int64_t row = begin; row < end; ++row) {
    const uint64_t row_seed = DROPS ? mixed(task.seed, static_cast<uint64_t>(row)) : 0;
    for (int64_t first = 0; first < task.width; first += PIECE) {
      const int64_t count = task.width - first < PIECE ? task.width - first : PIECE;
      if (DROPS) draw(task, row_seed, first, count, scales);
      activate_piece<T, BACKWARD, DROPS>(task.activation, task.scale, task.x + row * task.x_stride + first,
                                         BACKWARD ? task.gradients + row * task.gradients_stride + first : nullptr,
                                         task.out + row * task.out_stride + first, count, scales);
    }
  }
}

template <class T>
void activate(const ActivationTask<T>& task, int64_t begin, int64_t end) {
  const bool drops = task.drop_below > 0;
  if (task.gradients == nullptr) {
    if (drops) activate_rows<T, false, true>(task, begin, end);
    else activate_rows<T, false, false>(task, begin, end);
  } else if (drops) activate_rows<T, true, true>(task, begin, end);
  else activate_rows<T, true, false>(task, begin, end);
}

#include "narrow_products.hpp"

}  // namespace

extern const RowKernels kernels;
const RowKernels kernels{sum_rows<float>,
                         sum_rows<double>,
                         dot_rows<float>,
                         dot_rows<double>,
                         activate<float>,
                         activate<double>,
                         project,
                         narrow_gradient,
                         WIDE,
                         MOST_CHUNKS > 4 ? WIDE* NARROW_CHUNKS : 0};

}  // namespace gsplit::GSPLIT_ISA
