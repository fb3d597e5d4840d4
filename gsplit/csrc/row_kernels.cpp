// Compiled once for each instruction set, into the namespace GSPLIT_ISA; see row_kernels.hpp.
//
// A row is worked on in tiles whose sums fit the registers: CHUNKS vectors of LANES values, which fill a register
// each (of vectors twice as wide GCC keeps the sums in memory). A width that is no multiple of LANES has its last
// chunk end at its last column, over the one before: the columns that both have get the same sums twice, and nothing
// is masked. So a tile must be at least LANES wide; narrower rows take fewer lanes.
#include "row_kernels.hpp"

namespace gsplit::GSPLIT_ISA {
namespace {

constexpr uintptr_t LINE_BYTES = 64;
constexpr int64_t EDGES_AHEAD = 48;         // whose rows are on their way
constexpr int64_t CACHED_BYTES = 2 << 20;   // so few come from a cache, without being fetched
constexpr int MOST_CHUNKS = GSPLIT_CHUNKS;  // lines that a tile has at most
constexpr int VECTOR_BYTES = MOST_CHUNKS > 8 ? 64 : MOST_CHUNKS > 4 ? 32 : 16;
constexpr int MOST_VECTORS = MOST_CHUNKS * static_cast<int>(LINE_BYTES) / VECTOR_BYTES;  // that a tile has at most

template <class T, int LANES>
struct Vector {
  typedef T type __attribute__((vector_size(LANES * sizeof(T)), aligned(alignof(T)), may_alias));
};
template <class T>
struct Vector<T, 1> {
  using type = T;
};

/// Some values of a row, in the type that they are computed in.
template <class T, int LANES>
struct Lanes {
  using V = typename Vector<T, LANES>::type;

  static void read(const T* from, V& values) { values = *reinterpret_cast<const V*>(from); }
  static void write(T* to, const V& values) { *reinterpret_cast<V*>(to) = values; }
};

template <int LANES>
struct Lanes<BFloat16, LANES> {
  using V = typename Vector<float, LANES>::type;
  using Halves = typename Vector<uint16_t, LANES>::type;
  typedef uint32_t Bits __attribute__((vector_size(LANES * sizeof(uint32_t))));

  static void read(const BFloat16* from, V& values) {
    values = (V)(__builtin_convertvector(*reinterpret_cast<const Halves*>(from), Bits) << 16);
  }
  /// As `narrowed`.
  static void write(BFloat16* to, const V& values) {
    const Bits bits = (Bits)values, rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const Bits number = (Bits)(values == values);
    *reinterpret_cast<Halves*>(to) = __builtin_convertvector((rounded & number) | (~number & 0x7fc0u), Halves);
  }
};

template <>
struct Lanes<BFloat16, 1> {
  static void read(const BFloat16* from, float& value) { value = widened(*from); }
  static void write(BFloat16* to, float value) { *to = narrowed(value); }
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
/// for a few lines on their way, the second for so many that memory is kept busy (docs/development/log.md, "Sums
/// fetch ahead").
/// Always inline: GCC takes a call of a function that does nothing but fetch for one without effect, and drops it.
template <class T>
__attribute__((always_inline)) inline void fetch(const RowTask<T>& task, int64_t edge, int64_t column,
                                                 int64_t width) {
  const auto* begin = reinterpret_cast<const char*>(source(task, task.indices[edge]) + column);
  const auto* end = begin + width * int64_t{sizeof(T)};
  const auto* line = begin - reinterpret_cast<uintptr_t>(begin) % LINE_BYTES;  // a row may begin within one
  for (; line < end; line += LINE_BYTES) __builtin_prefetch(line, 0, 2);
}

/// Edges before this one have their rows fetched, from edges so far ahead of them.
template <class T>
inline int64_t fetched_until(const RowTask<T>& task) {
  return task.source_bytes > CACHED_BYTES ? task.num_edges : 0;
}

template <class T>
inline Computed<T> scale(const RowTask<T>& task, int64_t edge, int64_t head) {
  Computed<T> scale = task.factor == nullptr ? Computed<T>(1) : task.factor[task.indices[edge]];
  if (task.weight != nullptr)
    scale *= task.weight[(task.order == nullptr ? edge : task.order[edge]) * task.weight_stride + head];
  return scale;
}

/// What a source's row is multiplied by: nothing; a number of the source; one of the edge and head at work; one for
/// each head, where a tile has several.
enum class Scaled { NOT, BY_SOURCE, BY_EDGE, BY_HEAD };

/// How a row is cut: the columns of each head into `tiles` as wide as each other but for one column, `width` at most.
struct Tiling {
  int64_t head_width, tiles, width;
};

/// Whether sums begin with what lies where they go.
template <class T>
inline bool adds_to_out(const RowTask<T>& task) {
  if constexpr (NARROW<T>)
    if (task.wide_out != nullptr) return task.wide_start == task.wide_out;
  return task.start == task.out;
}

template <class T, int LANES, int CHUNKS>
struct Tile {
  using V = typename Vector<Computed<T>, LANES>::type;

  static int64_t offset(int chunk, int64_t width) {
    const int64_t at = int64_t{chunk} * LANES;
    return at < width - LANES ? at : width - LANES;
  }

  template <class From>
  __attribute__((always_inline)) static inline V read(const From* from) {
    V values;
    Lanes<From, LANES>::read(from, values);
    return values;
  }

  /// One tile of one row, while rows of later edges are fetched.
  template <Scaled SCALED>
  static inline void sum(const RowTask<T>& task, int64_t row, int64_t head, int64_t column, int64_t width,
                         int64_t last, const int64_t* head_of = nullptr) {
    const int64_t begin = task.indptr[row], end = task.indptr[row + 1];
    if (begin == end && row < task.start_rows && adds_to_out(task) && task.start_scale == nullptr)
      return;  // it is there
    V total[CHUNKS] = {};
    int64_t at[CHUNKS];
    for (int c = 0; c < CHUNKS; ++c) at[c] = column + offset(c, width);
    for (int64_t e = begin; e < end; ++e) {
      if (e + EDGES_AHEAD < last) fetch(task, e + EDGES_AHEAD, column, width);
      const T* values = source(task, task.indices[e]);
      if constexpr (SCALED == Scaled::BY_SOURCE || SCALED == Scaled::BY_EDGE) {
        const Computed<T> by = SCALED == Scaled::BY_SOURCE ? task.factor[task.indices[e]] : scale(task, e, head);
        for (int c = 0; c < CHUNKS; ++c) total[c] += read(values + at[c]) * by;
      } else if constexpr (SCALED == Scaled::BY_HEAD) {
        for (int c = 0; c < CHUNKS; ++c) total[c] += read(values + at[c]) * scale(task, e, head_of[c]);
      } else {
        for (int c = 0; c < CHUNKS; ++c) total[c] += read(values + at[c]);
      }
    }
    if (task.degrees != nullptr && task.degrees[row] > 0) {
      const Computed<T> by = Computed<T>(1) / static_cast<Computed<T>>(task.degrees[row]);
      for (int c = 0; c < CHUNKS; ++c) total[c] *= by;
    }
    if (task.scale != nullptr)
      for (int c = 0; c < CHUNKS; ++c) total[c] *= task.scale[row];
    if (row < task.start_rows) {  // all of it is read before any is written: it may be `out`
      const Computed<T> by = task.start_scale == nullptr ? Computed<T>(1) : task.start_scale[row];
      if (NARROW<T> && task.wide_start != nullptr)
        begin_with(task.wide_start + row * task.start_stride, at, by, total);
      else begin_with(task.start + row * task.start_stride, at, by, total);
    }
    if (NARROW<T> && task.wide_out != nullptr) write(task.wide_out + row * task.out_stride, at, total);
    else write(task.out + row * task.out_stride, at, total);
  }

  template <class Start>
  static inline void begin_with(const Start* start, const int64_t* at, Computed<T> by, V* total) {
    for (int c = 0; c < CHUNKS; ++c) total[c] += read(start + at[c]) * by;
  }

  template <class Out>
  static inline void write(Out* out, const int64_t* at, const V* total) {
    for (int c = 0; c < CHUNKS; ++c) Lanes<Out, LANES>::write(out + at[c], total[c]);
  }

  template <Scaled SCALED>
  static void sum_range(const RowTask<T> task, const Tiling& tiling, int64_t begin, int64_t end) {
    const int64_t last = fetched_until(task);
    if constexpr (SCALED == Scaled::BY_HEAD) {
      int64_t head_of[CHUNKS];
      for (int c = 0; c < CHUNKS; ++c) head_of[c] = offset(c, task.width) / tiling.head_width;
      for (int64_t row = begin; row < end; ++row) sum<SCALED>(task, row, 0, 0, task.width, last, head_of);
      return;
    }
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
  using Tiled = Tile<T, LANES, CHUNKS>;
  if (tiling.width > tiling.head_width) Tiled::template sum_range<Scaled::BY_HEAD>(task, tiling, begin, end);
  else if (task.weight != nullptr) Tiled::template sum_range<Scaled::BY_EDGE>(task, tiling, begin, end);
  else if (task.factor != nullptr) Tiled::template sum_range<Scaled::BY_SOURCE>(task, tiling, begin, end);
  else Tiled::template sum_range<Scaled::NOT>(task, tiling, begin, end);
}

template <class T>
void sum_rows(const RowTask<T>& task, int64_t begin, int64_t end) {
  constexpr int WIDE = VECTOR_BYTES / static_cast<int>(sizeof(Computed<T>)), MOST = WIDE * MOST_VECTORS;
  const int64_t width = task.width / task.heads;
  const int64_t tiles = (width + MOST - 1) / MOST;
  Tiling tiling{width, tiles, (width + tiles - 1) / tiles};
  if (task.heads > 1 && width % WIDE == 0 && task.width <= MOST) tiling = {width, 1, task.width};
  if (width >= WIDE) sum_with<T, WIDE, MOST_VECTORS>(task, tiling, begin, end);
  else if (WIDE > 8 && width >= 8) sum_with<T, 8, 2>(task, tiling, begin, end);
  else if (width >= 4) sum_with<T, 4, 2>(task, tiling, begin, end);
  else sum_with<T, 1, 3>(task, tiling, begin, end);
}

/// sums[c] += the values of column c, of rows that follow each other.
void add_rows(const float* values, int64_t rows, int64_t width, double* sums) {
  using Narrow = typename Vector<float, 8>::type;
  using Doubles = typename Vector<double, 8>::type;
  int64_t c = 0;
  for (; c + 8 <= width; c += 8) {
    auto total = *reinterpret_cast<const Doubles*>(sums + c);
    for (int64_t row = 0; row < rows; ++row)
      total += __builtin_convertvector(*reinterpret_cast<const Narrow*>(values + row * width + c), Doubles);
    *reinterpret_cast<Doubles*>(sums + c) = total;
  }
  for (; c < width; ++c)
    for (int64_t row = 0; row < rows; ++row) sums[c] += static_cast<double>(values[row * width + c]);
}

/// Adds a row to another, and rounds the sums.
void add_row(BFloat16* to, const BFloat16* from, int64_t width) {
  constexpr int LANES = VECTOR_BYTES / static_cast<int>(sizeof(float));
  using V = typename Lanes<BFloat16, LANES>::V;
  int64_t c = 0;
  for (; c + LANES <= width; c += LANES) {
    V sum, more;
    Lanes<BFloat16, LANES>::read(to + c, sum);
    Lanes<BFloat16, LANES>::read(from + c, more);
    Lanes<BFloat16, LANES>::write(to + c, sum + more);
  }
  for (; c < width; ++c) to[c] = narrowed(widened(to[c]) + widened(from[c]));
}

/// Sum over the lanes of a vector, halved again and again; halves are named, or they would go through memory.
template <class T, int LANES>
inline T summed(const typename Vector<T, LANES>::type& v) {
  if constexpr (LANES == 16)
    return summed<T, 8>(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                        __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
  else if constexpr (LANES == 8)
    return summed<T, 4>(__builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7));
  else if constexpr (LANES == 4) return (v[0] + v[2]) + (v[1] + v[3]);
  else return v[0] + v[1];
}

template <class T, int LANES>
inline Computed<T> dot(const T* a, const T* b, int64_t width) {
  Computed<T> total = 0;
  int64_t c = 0;
  if (width >= LANES) {
    typename Vector<Computed<T>, LANES>::type sums = {}, left, right;
    for (; c + LANES <= width; c += LANES) {
      Lanes<T, LANES>::read(a + c, left);
      Lanes<T, LANES>::read(b + c, right);
      sums += left * right;
    }
    total = summed<Computed<T>, LANES>(sums);
  }
  for (; c < width; ++c) {
    Computed<T> left, right;
    Lanes<T, 1>::read(a + c, left);
    Lanes<T, 1>::read(b + c, right);
    total += left * right;
  }
  return total;
}

template <class T>
void dot_rows(const RowTask<T>& task, int64_t begin, int64_t end) {
  constexpr int WIDE = VECTOR_BYTES / static_cast<int>(sizeof(Computed<T>));
  const int64_t width = task.width / task.heads, last = fetched_until(task);
  for (int64_t row = begin; row < end; ++row) {
    const T* left = task.start + row * task.start_stride;
    for (int64_t e = task.indptr[row]; e < task.indptr[row + 1]; ++e) {
      if (e + EDGES_AHEAD < last) fetch(task, e + EDGES_AHEAD, 0, task.width);
      const T* right = source(task, task.indices[e]);
      Computed<T>* out = task.wide_out + e * task.out_stride;
      for (int64_t head = 0; head < task.heads; ++head)
        out[head] = width >= WIDE ? dot<T, WIDE>(left + head * width, right + head * width, width)
                                  : dot<T, 4>(left + head * width, right + head * width, width);
    }
  }
}

#include "activation_rows.hpp"
#include "narrow_products.hpp"
#include "norm_rows.hpp"
#include "rank_kernels.hpp"
#include "wide_products.hpp"
#include "widened_products.hpp"

}  // namespace

extern const RowKernels kernels;
const RowKernels kernels{
    sum_rows<float>,
    sum_rows<double>,
    sum_rows<BFloat16>,
    add_rows,
    add_row,
    dot_rows<float>,
    dot_rows<double>,
    dot_rows<BFloat16>,
    activate<float>,
    activate<double>,
    activate<BFloat16>,
    normalise<float>,
    normalise<BFloat16>,
    project,
    narrow_gradient,
    {multiply_wide, wide_gradient, no_product_room, gradient_tile_bytes, pack_wide, wide_bytes, WIDE},
    {multiply_widened, widened_gradient, widened_product_room, widened_gradient_room, pack_widened, wide_bytes, WIDE},
    {score_panel<float>, score_beside<float>, count_scores<float>},
    {score_panel<double>, score_beside<double>, count_scores<double>},
    WIDE,
    MOST_CHUNKS > 4 ? WIDE* MOST_NARROW_CHUNKS / MOST_NARROW : 0};

}  // namespace gsplit::GSPLIT_ISA
