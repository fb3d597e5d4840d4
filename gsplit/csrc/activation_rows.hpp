// Activation and dropout of rows, in one pass. Part of row_kernels.cpp, which includes it into its namespace.
constexpr int64_t PIECE = 256;                                         // columns that are hashed at a time
constexpr int DRAWN = MOST_CHUNKS > 8 ? 16 : MOST_CHUNKS > 4 ? 8 : 4;  // and in one vector
constexpr int64_t SUMMED = 64;                                         // rows that are summed in their own type
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
inline void draw(const ActivationTask<T>& task, uint64_t row_seed, int64_t first, int64_t count,
                 Computed<T>* scales) {
  typedef uint32_t Hashes __attribute__((vector_size(DRAWN * sizeof(uint32_t))));
  typedef int32_t Signed __attribute__((vector_size(DRAWN * sizeof(int32_t))));
  using C = Computed<T>;
  typedef C Scales __attribute__((vector_size(DRAWN * sizeof(C)), aligned(alignof(C)), may_alias));
  constexpr uint32_t STEP = 0x9e3779b1u;
  const auto low = static_cast<uint32_t>(row_seed), high = static_cast<uint32_t>(row_seed >> 32);
  Hashes column;
  for (int lane = 0; lane < DRAWN; ++lane) column[lane] = static_cast<uint32_t>(first + lane) * STEP + low;
  const auto below =
      static_cast<int32_t>(task.drop_below >> 1);  // compared with sign: not all machines have the other
  const C scale = task.scale;
  for (int64_t c = 0; c < count; c += DRAWN, column += DRAWN * STEP) {
    Hashes hash = column;
    mix(hash);
    hash ^= high;
    mix(hash);
    const Signed kept = (Signed)(hash >> 1) >= below;
    auto* to = reinterpret_cast<Scales*>(scales + c);
    if constexpr (sizeof(C) == sizeof(int32_t)) *to = (Scales)(kept & __builtin_bit_cast(int32_t, scale));
    else *to = __builtin_convertvector(kept & 1, Scales) * scale;
  }
}

/// Some columns of a row; x of the backward is what forward gave. `bias` is added forward, where it is BIASED.
template <class T, bool BACKWARD, bool DROPS, bool BIASED>
inline void activate_piece(int activation, T scale, const T* __restrict x, const T* __restrict gradients,
                           T* __restrict out, int64_t count, const T* __restrict scales, const T* __restrict bias) {
  if (activation == NONE) {
    for (int64_t c = 0; c < count; ++c) {
      const T given = BACKWARD ? gradients[c] : BIASED ? x[c] + bias[c] : x[c];
      out[c] = given * (DROPS ? scales[c] : T(1));
    }
  } else if (activation == RELU) {
    for (int64_t c = 0; c < count; ++c) {
      const T given = BIASED ? x[c] + bias[c] : x[c], value = BACKWARD ? gradients[c] : given;
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

/// Adds the sums of some rows to the totals, and begins them anew.
template <class C>
inline void add_to_totals(C* sums, int64_t count, double* totals) {
  for (int64_t c = 0; c < count; ++c) {
    totals[c] += static_cast<double>(sums[c]);
    sums[c] = C(0);
  }
}

/// Some columns of rows in the type that they are computed in: as they lie, or a copy that is written back.
template <class T>
struct Piece {
  using C = Computed<T>;
  C values[NARROW<T> ? PIECE : 1];

  const C* read(const T* from, int64_t count) {
    if constexpr (!NARROW<T>) return from;
    else {
      using V = typename Vector<C, DRAWN>::type;
      int64_t c = 0;
      for (; c + DRAWN <= count; c += DRAWN) Lanes<T, DRAWN>::read(from + c, *reinterpret_cast<V*>(values + c));
      for (; c < count; ++c) values[c] = widened(from[c]);
      return values;
    }
  }
  void write(T* to, int64_t count) const {
    if constexpr (NARROW<T>) {
      using V = typename Vector<C, DRAWN>::type;
      int64_t c = 0;
      for (; c + DRAWN <= count; c += DRAWN) Lanes<T, DRAWN>::write(to + c, *reinterpret_cast<const V*>(values + c));
      for (; c < count; ++c) to[c] = narrowed(values[c]);
    }
  }
  C* at(T* out) {
    if constexpr (!NARROW<T>) return out;
    else return values;
  }
};

/// Some columns of a row of signs, from a multiple of 8 on: 1 for what was above 0, else 0.
template <class C>
const C* read_signs(const uint8_t* from, int64_t count, C* to) {
  for (int64_t c = 0; c < count; ++c) to[c] = static_cast<C>((from[c / 8] >> (c % 8)) & 1);
  return to;
}

template <class T, bool BACKWARD, bool DROPS, bool BIASED>
void activate_rows(const ActivationTask<T>& task, int64_t begin, int64_t end) {
  // What ReLU dropped is 0 like what it did not pass, so its backward need not know which values those were.
  const bool draws = DROPS && !(BACKWARD && task.activation == RELU);
  Computed<T> scales[PIECE];
  if (DROPS && !draws)
    for (int64_t c = 0; c < PIECE; ++c) scales[c] = task.scale;
  Piece<T> x_piece, gradients_piece, out_piece;
  Computed<T> signs[BACKWARD ? PIECE : 1];
  for (int64_t row = begin; row < end; ++row) {
    const uint64_t row_seed = draws ? mixed(task.seed, static_cast<uint64_t>(task.first_row + row)) : 0;
    for (int64_t first = 0; first < task.width; first += PIECE) {
      const int64_t count = task.width - first < PIECE ? task.width - first : PIECE;
      if (draws) draw(task, row_seed, first, count, scales);
      T* to = task.out + row * task.out_stride + first;
      Computed<T>* out = out_piece.at(to);
      const Computed<T>* x = BACKWARD && task.signs != nullptr
                                 ? read_signs(task.signs + row * task.signs_stride + first / 8, count, signs)
                                 : x_piece.read(task.x + row * task.x_stride + first, count);
      activate_piece<Computed<T>, BACKWARD, DROPS, BIASED>(
          task.activation, task.scale, x,
          BACKWARD ? gradients_piece.read(task.gradients + row * task.gradients_stride + first, count) : nullptr, out,
          count, scales, BIASED ? task.bias + first : nullptr);
      out_piece.write(to, count);
      if (BACKWARD && task.totals != nullptr) {
        Computed<T>* __restrict sums = task.sums + first;
        for (int64_t c = 0; c < count; ++c) sums[c] += out[c];
      }
    }
    if (BACKWARD && task.totals != nullptr && ((row - begin) % SUMMED == SUMMED - 1 || row == end - 1))
      add_to_totals(task.sums, task.width, task.totals);
  }
}

template <class T>
void activate(const ActivationTask<T>& task, int64_t begin, int64_t end) {
  const bool drops = task.drop_below > 0, biased = task.bias != nullptr;
  if (task.gradients != nullptr) {
    if (drops) activate_rows<T, true, true, false>(task, begin, end);
    else activate_rows<T, true, false, false>(task, begin, end);
  } else if (biased) {
    if (drops) activate_rows<T, false, true, true>(task, begin, end);
    else activate_rows<T, false, false, true>(task, begin, end);
  } else if (drops) activate_rows<T, false, true, false>(task, begin, end);
  else activate_rows<T, false, false, false>(task, begin, end);
}
