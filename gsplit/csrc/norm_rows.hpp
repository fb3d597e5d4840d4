// Normalisation of rows, and ReLU and dropout behind it, in one pass; included by row_kernels.cpp alone, inside its
// namespace.
//
// clang-format off
//   forward     n = (x - mean) * factor,  factor = (mean of (x - mean)^2 + eps)^-1/2
//               out = finish(n * weight + bias)
//   backward    g = gradients that finish let through,  weight gets the sum of g * n, bias that of g, and x
//               factor * (g * weight - mean of (g * weight) - n * mean of (g * weight * n))
// clang-format on
//
// with the means of a row; RMSNorm takes 0 for the mean of x and for that of gradients. A row is read once: it stays
// in the first cache for its sums and for what is made of it. Backward takes mean and factor anew, so that nothing is
// kept for it but x, and a bit for each value that says what finish let through. The mean is the first value, and the
// mean of what the others are over it: equal values leave nothing.
//
// A batch's means are of columns, over all rows: they are passes of their own, and what they are is given.
//
// Sums over rows are those of fixed blocks, which norms.cpp adds up in order: they have the same bits with any number
// of threads.

using Mask = typename Vector<int32_t, WIDE>::type;  // all bits of a lane, or none

constexpr int SIGN_BYTES = WIDE / 8;  // of a vector

/// All bits of the first lanes.
inline Mask first_lanes(int64_t count) {
  Mask mask;
  for (int lane = 0; lane < WIDE; ++lane) mask[lane] = lane < count ? -1 : 0;
  return mask;
}

/// A bit for each lane.
inline Mask lane_bits() {
  Mask bits;
  for (int lane = 0; lane < WIDE; ++lane) bits[lane] = 1 << lane;
  return bits;
}

inline Wide picked(const Wide& values, const Mask& mask) { return (Wide)((Mask)values & mask); }

/// Writes the bits of lanes whose mask is set; `values` are there.
inline void write_signs(uint8_t* to, const Mask& mask, int64_t values) {
  const auto bits = static_cast<uint32_t>(summed<int32_t, WIDE>(mask & lane_bits()));
  to[0] = static_cast<uint8_t>(bits);
  if (SIGN_BYTES > 1 && values > 8) to[1] = static_cast<uint8_t>(bits >> 8);
}

inline Mask sign_mask(const uint8_t* from, int64_t values) {
  int32_t bits = from[0];
  if (SIGN_BYTES > 1 && values > 8) bits |= from[1] << 8;
  return (Mask)((lane_bits() & bits) != 0);
}

/// A row in float32 and in whole vectors: as it lies, or copied into a room, with zeros behind it.
template <class T>
inline const float* whole_row(const T* from, int64_t width, int64_t whole, float* room) {
  if constexpr (!NARROW<T>)
    if (width == whole) return from;
  int64_t c = 0;
  for (; c + WIDE <= width; c += WIDE) {
    Wide values;
    Lanes<T, WIDE>::read(from + c, values);
    store(room + c, values);
  }
  for (; c < width; ++c) Lanes<T, 1>::read(from + c, room[c]);
  for (; c < whole; ++c) room[c] = 0;
  return room;
}

/// Sum over a row of value(column), a vector each; of the last one some lanes count.
template <class Value>
inline float sum_over(int64_t whole, const Mask& last, Value value) {
  Wide one{}, other{};
  int64_t c = 0;
  for (; c + 2 * WIDE < whole; c += 2 * WIDE) {
    one += value(c);
    other += value(c + WIDE);
  }
  for (; c + WIDE < whole; c += WIDE) one += value(c);
  return summed<float, WIDE>(one + other + picked(value(c), last));
}

/// The columns of a task.
struct Columns {
  explicit Columns(int64_t values)
      : width(values), whole((values + WIDE - 1) / WIDE * WIDE), of_values(1 / static_cast<float>(values)),
        last(first_lanes(values - whole + WIDE)) {}

  int64_t width, whole;
  float of_values;  // each value's share of a mean
  Mask last;        // lanes of the last vector

  float mean(const float* x) const {
    const float first = x[0];
    return first + of_values * sum_over(whole, last, [=](int64_t c) { return load(x + c) - first; });
  }
};

/// What a row's values are multiplied by, for the sum of their squares.
inline float factor_of(float squares, float of_values, float eps) {
  return 1 / __builtin_sqrtf(squares * of_values + eps);
}

template <class T, Norm NORM, bool FINISHES, bool DROPS>
void normalise_forward(const NormTask<T>& task, int64_t begin, int64_t end) {
  const auto& rows = task.rows;
  const Columns columns(rows.width);
  const float *weight = task.weight, *bias = task.bias, *means = task.mean;
  float *room = task.room, *scales = room + columns.whole;
  for (int64_t row = begin; row < end; ++row) {
    const float* x = whole_row(rows.x + row * rows.x_stride, columns.width, columns.whole, room);
    if (DROPS) draw(rows, mixed(rows.seed, static_cast<uint64_t>(row)), 0, columns.width, scales);
    float mean = 0, factor = 1;
    if (NORM == Norm::layer) mean = columns.mean(x);
    if (NORM != Norm::batch) {
      const float squares = sum_over(columns.whole, columns.last, [=](int64_t c) {
        const Wide centred = load(x + c) - mean;
        return centred * centred;
      });
      factor = factor_of(squares, columns.of_values, task.eps);
    }
    const float* skip = nullptr;
    if (task.skip != nullptr)
      skip = whole_row(task.skip + row * task.skip_stride, columns.width, columns.whole, scales + columns.whole);
    T* out = rows.out + row * rows.out_stride;
    uint8_t* signs = task.signs == nullptr ? nullptr : task.signs + row * task.signs_stride;
    for (int64_t c = 0; c < columns.width; c += WIDE) {
      const int64_t values = columns.width - c < WIDE ? columns.width - c : WIDE;
      const Wide centred = NORM == Norm::batch ? load(x + c) - load(means + c) : load(x + c) - mean;
      Wide result = (NORM == Norm::batch ? centred : centred * factor) * load(weight + c) + load(bias + c);
      if (FINISHES) {
        result = result <= 0.0f ? Wide{} : result;  // NaN stays
        if (DROPS) result *= load(scales + c);
        if (signs != nullptr) {
          const Mask passed = (Mask)(~(result <= 0.0f));
          write_signs(signs + c / 8, values < WIDE ? passed & columns.last : passed, values);
        }
      }
      if (skip != nullptr) result += load(skip + c);
      put(out + c, result, values);
    }
  }
}

/// Gradients of a row, those that ReLU and dropout let through, times what dropout left them.
template <class T, bool FINISHES>
inline const float* gradients_of(const NormTask<T>& task, int64_t row, const Columns& columns, float* room) {
  const auto& rows = task.rows;
  const float* given = whole_row(rows.gradients + row * rows.gradients_stride, columns.width, columns.whole, room);
  if (!FINISHES) return given;
  const uint8_t* signs = rows.signs + row * rows.signs_stride;
  for (int64_t c = 0; c < columns.width; c += WIDE)
    store(room + c, picked(load(given + c) * rows.scale, sign_mask(signs + c / 8, columns.width - c)));
  return room;
}

template <class T, Norm NORM, bool FINISHES>
void normalise_backward(const NormTask<T>& task, int64_t begin, int64_t end) {
  const auto& rows = task.rows;
  const Columns columns(rows.width);
  const int64_t whole = columns.whole;
  const float* weight = task.weight;
  float *of_weight = task.sums, *of_bias = task.sums == nullptr ? nullptr : task.sums + whole;
  for (int64_t row = begin; row < end; ++row) {
    const float* x = whole_row(rows.x + row * rows.x_stride, columns.width, whole, task.room);
    const float* gradients = gradients_of<T, FINISHES>(task, row, columns, task.room + whole);
    const float mean = NORM == Norm::layer ? columns.mean(x) : 0;
    Wide squares{}, sum{}, products{};
    for (int64_t c = 0; c < whole; c += WIDE) {
      const Wide weighted = load(gradients + c) * load(weight + c);
      Wide centred = load(x + c) - mean;
      if (NORM == Norm::layer && c + WIDE == whole) centred = picked(centred, columns.last);
      squares += centred * centred;
      products += weighted * centred;
      if (NORM == Norm::layer) sum += weighted;
    }
    const float factor = factor_of(summed<float, WIDE>(squares), columns.of_values, task.eps);
    const float shift = NORM == Norm::layer ? summed<float, WIDE>(sum) * columns.of_values : 0;
    const float slope = summed<float, WIDE>(products) * columns.of_values * factor * factor;
    T* out = rows.out + row * rows.out_stride;
    for (int64_t c = 0; c < columns.width; c += WIDE) {
      const Wide given = load(gradients + c), centred = load(x + c) - mean;
      const int64_t values = columns.width - c < WIDE ? columns.width - c : WIDE;
      put(out + c, (given * load(weight + c) - shift - centred * slope) * factor, values);
      if (of_weight == nullptr) continue;
      store(of_weight + c, load(of_weight + c) + given * (centred * factor));
      store(of_bias + c, load(of_bias + c) + given);
    }
    if (of_weight != nullptr && ((row - begin) % SUMMED == SUMMED - 1 || row == end - 1))
      add_to_totals(task.sums, 2 * whole, task.totals);
  }
}

/// Sums over rows of each column: of x, or, where there is a mean, of the squares of what x is over it. The sums of x
/// are those of what it is over the first row, and that many times this: else roundings of equal values add up.
template <class T>
void sum_columns(const NormTask<T>& task, int64_t begin, int64_t end) {
  const auto& rows = task.rows;
  const Columns columns(rows.width);
  const int64_t whole = columns.whole;
  const bool squares = task.mean != nullptr;
  const float* over = task.mean;
  float* sums = task.sums;
  if (!squares) {
    const float* first = whole_row(rows.x + begin * rows.x_stride, columns.width, whole, task.room + whole);
    for (int64_t c = 0; c < whole; ++c) task.totals[c] += static_cast<double>(first[c]) * (end - begin);
    over = first;
  }
  for (int64_t row = begin; row < end; ++row) {
    const float* x = whole_row(rows.x + row * rows.x_stride, columns.width, whole, task.room);
    for (int64_t c = 0; c < whole; c += WIDE) {
      const Wide value = load(x + c) - load(over + c);
      store(sums + c, load(sums + c) + (squares ? value * value : value));
    }
    if ((row - begin) % SUMMED == SUMMED - 1 || row == end - 1) add_to_totals(sums, whole, task.totals);
  }
}

/// Backward of the batch's norm, in two passes: the sums of gradients, without factors; then what x gets.
template <class T, bool FINISHES>
void batch_backward(const NormTask<T>& task, int64_t begin, int64_t end) {
  const auto& rows = task.rows;
  const Columns columns(rows.width);
  const int64_t whole = columns.whole;
  const float *mean = task.mean, *weight = task.weight, *shift = task.shift, *slope = task.slope;
  float* sums = task.sums;
  for (int64_t row = begin; row < end; ++row) {
    const float* x = whole_row(rows.x + row * rows.x_stride, columns.width, whole, task.room);
    const float* gradients = gradients_of<T, FINISHES>(task, row, columns, task.room + whole);
    for (int64_t c = 0; c < columns.width; c += WIDE) {
      const Wide given = load(gradients + c), centred = load(x + c) - load(mean + c);
      if (sums != nullptr) {
        store(sums + c, load(sums + c) + given * centred);
        store(sums + whole + c, load(sums + whole + c) + given);
      } else {
        const Wide result = given - load(shift + c) - centred * load(slope + c);
        put(rows.out + row * rows.out_stride + c, result * load(weight + c),
            columns.width - c < WIDE ? columns.width - c : WIDE);
      }
    }
    if (sums != nullptr && ((row - begin) % SUMMED == SUMMED - 1 || row == end - 1))
      add_to_totals(sums, 2 * whole, task.totals);
  }
}

template <class T, bool FINISHES>
void normalise_backward_as(const NormTask<T>& task, int64_t begin, int64_t end) {
  if (task.norm == Norm::rms) normalise_backward<T, Norm::rms, FINISHES>(task, begin, end);
  else if (task.norm == Norm::layer) normalise_backward<T, Norm::layer, FINISHES>(task, begin, end);
  else batch_backward<T, FINISHES>(task, begin, end);
}

template <class T, bool FINISHES, bool DROPS>
void normalise_forward_as(const NormTask<T>& task, int64_t begin, int64_t end) {
  if (task.norm == Norm::rms) normalise_forward<T, Norm::rms, FINISHES, DROPS>(task, begin, end);
  else if (task.norm == Norm::layer) normalise_forward<T, Norm::layer, FINISHES, DROPS>(task, begin, end);
  else normalise_forward<T, Norm::batch, FINISHES, DROPS>(task, begin, end);
}

/// What a task has pointers for: sums of columns, what is normalised, or its backward.
template <class T>
void normalise(const NormTask<T>& task, int64_t begin, int64_t end) {
  const bool finishes = task.rows.activation == RELU;
  if (task.rows.gradients != nullptr) {
    if (finishes) normalise_backward_as<T, true>(task, begin, end);
    else normalise_backward_as<T, false>(task, begin, end);
  } else if (task.sums != nullptr) sum_columns(task, begin, end);
  else if (!finishes) normalise_forward_as<T, false, false>(task, begin, end);
  else if (task.rows.drop_below > 0) normalise_forward_as<T, true, true>(task, begin, end);
  else normalise_forward_as<T, true, false>(task, begin, end);
}
