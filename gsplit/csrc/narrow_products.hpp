// Products of long matrices with narrow ones, in float32; included by row_kernels.cpp alone, inside its namespace.
//
// A layer that projects 100 features to 16 multiplies some 400,000 rows by a matrix that fits the first cache. Such a
// product is bound by reading the rows once; a library for large matrices copies them into panels first, and takes
// twice as long. Here sums of ROWS rows and CHUNKS vectors of the result stay in registers. The gradient of the
// weights is a product with as few rows and columns, over all rows: its sums stay in registers for PANEL rows.

constexpr int64_t PANEL = 64;                         // rows of which a layer's fit the first cache
constexpr int WIDE = MOST_CHUNKS > 8 ? 16 : 8;        // floats of a vector
constexpr int NARROW_CHUNKS = 2;                      // vectors of a row of the result, at most
constexpr int REGISTERS = MOST_CHUNKS > 8 ? 24 : 12;  // sums that stay in registers
using Wide = typename Vector<float, WIDE>::type;

inline Wide load(const float* at) { return *reinterpret_cast<const Wide*>(at); }
inline void store(float* at, Wide values) { *reinterpret_cast<Wide*>(at) = values; }

template <int CHUNKS, int ROWS>
inline void project_block(const NarrowTask& task, const float* x, float* out) {
  Wide total[ROWS][CHUNKS];
  for (int r = 0; r < ROWS; ++r)
    for (int c = 0; c < CHUNKS; ++c) total[r][c] = load(task.start + c * WIDE);
  const float* weights = task.panel;
  for (int64_t k = 0; k < task.width; ++k, weights += CHUNKS * WIDE) {
    Wide weight[CHUNKS];
    for (int c = 0; c < CHUNKS; ++c) weight[c] = load(weights + c * WIDE);
    for (int r = 0; r < ROWS; ++r) {
      const float value = x[r * task.x_stride + k];
      for (int c = 0; c < CHUNKS; ++c) total[r][c] += weight[c] * value;
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    float* to = out + r * task.out_stride;
    for (int c = 0; c < CHUNKS; ++c) {
      const int64_t left = task.outputs - c * WIDE;
      if (left >= WIDE) store(to + c * WIDE, total[r][c]);
      else
        for (int64_t lane = 0; lane < left; ++lane) to[c * WIDE + lane] = total[r][c][lane];
    }
  }
}

template <int CHUNKS>
void project_rows(const NarrowTask& task, int64_t begin, int64_t end) {
  constexpr int ROWS = REGISTERS / 2 / CHUNKS;
  int64_t row = begin;
  for (; row + ROWS <= end; row += ROWS) {
    const float* x = task.x + row * task.x_stride;
    if (row + 2 * ROWS <= end)  // the next block: so many rows at once are too many for what the machine guesses
      for (int64_t at = ROWS * task.x_stride; at < 2 * ROWS * task.x_stride; at += LINE_BYTES / sizeof(float))
        __builtin_prefetch(x + at);
    project_block<CHUNKS, ROWS>(task, x, task.out + row * task.out_stride);
  }
  for (; row < end; ++row)
    project_block<CHUNKS, 1>(task, task.x + row * task.x_stride, task.out + row * task.out_stride);
}

void project(const NarrowTask& task, int64_t begin, int64_t end) {
  if (task.outputs <= WIDE) project_rows<1>(task, begin, end);
  else project_rows<2>(task, begin, end);
}

/// out[o, chunk c] += the sum over rows of gradients[row, o] * x[row, chunk c], for OUTS rows and CHUNKS chunks.
template <int OUTS, int CHUNKS>
inline void gradient_tile(const NarrowTask& task, int64_t begin, int64_t end, int64_t first_out,
                          int64_t first_chunk) {
  Wide total[OUTS][CHUNKS] = {};
  int64_t at[CHUNKS];
  for (int c = 0; c < CHUNKS; ++c) {
    const int64_t from = (first_chunk + c) * WIDE;
    at[c] = from < task.width - WIDE ? from : task.width - WIDE;
  }
  for (int64_t row = begin; row < end; ++row) {
    const float* x = task.x + row * task.x_stride;
    const float* gradients = task.gradients + row * task.gradients_stride + first_out;
    Wide values[CHUNKS];
    for (int c = 0; c < CHUNKS; ++c) values[c] = load(x + at[c]);
    for (int o = 0; o < OUTS; ++o)
      for (int c = 0; c < CHUNKS; ++c) total[o][c] += values[c] * gradients[o];
  }
  for (int o = 0; o < OUTS; ++o) {
    for (int c = 0; c < CHUNKS; ++c) {
      float* to = task.out + (first_out + o) * task.out_stride + (first_chunk + c) * WIDE;
      store(to, load(to) + total[o][c]);
    }
  }
}

template <int OUTS>
void gradient_rows(const NarrowTask& task, int64_t begin, int64_t end, int64_t first_out) {
  const int64_t chunks = (task.width + WIDE - 1) / WIDE;
  int64_t chunk = 0;
  for (; chunk + 3 <= chunks; chunk += 3) gradient_tile<OUTS, 3>(task, begin, end, first_out, chunk);
  if (chunks - chunk == 2) gradient_tile<OUTS, 2>(task, begin, end, first_out, chunk);
  if (chunks - chunk == 1) gradient_tile<OUTS, 1>(task, begin, end, first_out, chunk);
}

/// task.out has whole chunks of zeros for each output; where the width is no multiple of a chunk, the last one holds
/// the last columns, some of which the one before has, too.
void narrow_gradient(const NarrowTask& task, int64_t begin, int64_t end) {
  constexpr int OUTS = REGISTERS / 3;
  for (int64_t from = begin; from < end; from += PANEL) {
    const int64_t to = from + PANEL < end ? from + PANEL : end;
    int64_t out = 0;
    for (; out + OUTS <= task.outputs; out += OUTS) gradient_rows<OUTS>(task, from, to, out);
    for (; out < task.outputs; ++out) gradient_rows<1>(task, from, to, out);
  }
}
