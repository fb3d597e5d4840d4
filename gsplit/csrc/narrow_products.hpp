// Products of many rows with narrow matrices, in float32, whose results and gradients may be bfloat16; included by
// row_kernels.cpp alone, inside its namespace.
//
// A layer that projects 100 features to 16 multiplies some 400,000 rows by a matrix that fits the first cache. Such a
// product is bound by reading the rows; a library for large matrices copies them into panels first, and takes twice
// as long. So rows are read once for all matrices that they are multiplied by, from wherever they lie: a task may
// pick them out of a table, in any order. Forward, sums of ROWS rows and CHUNKS vectors of the result stay in
// registers. The gradient of a matrix is a product with as few rows and columns, over all rows: its sums stay in
// registers for PANEL rows. Meanwhile the rows after these are fetched into the second cache, a line of each at a
// time, for the machine cannot guess where they lie.

constexpr int64_t PANEL = 64;                         // rows of which a layer's fit the second cache
constexpr int WIDE = MOST_CHUNKS > 8 ? 16 : 8;        // floats of a vector
constexpr int64_t LINE = LINE_BYTES / sizeof(float);  // floats of a line
constexpr int64_t BLOCKS_AHEAD = 4;                   // rows that a projection fetches come so many blocks later
constexpr int REGISTERS = MOST_CHUNKS > 8 ? 24 : 12;  // sums that stay in registers
using Wide = typename Vector<float, WIDE>::type;

inline Wide load(const float* at) { return *reinterpret_cast<const Wide*>(at); }
inline void store(float* at, Wide values) { *reinterpret_cast<Wide*>(at) = values; }

inline const float* row_of(const NarrowTask& task, int64_t row) {
  return task.x + (task.ids == nullptr ? row : task.ids[row]) * task.x_stride;
}

/// The first lanes of a vector of results.
template <class Out>
inline void put(Out* to, const Wide& values, int64_t lanes) {
  if (lanes == WIDE) {
    Lanes<Out, WIDE>::write(to, values);
  } else {
    for (int64_t lane = 0; lane < lanes; ++lane) Lanes<Out, 1>::write(to + lane, values[lane]);
  }
}

/// Results of rows row .. row + ROWS; fetches as many rows some blocks after them, where those come before `end`.
template <int CHUNKS, int ROWS>
inline void project_block(const NarrowTask& task, int64_t row, int64_t end) {
  const float *x[ROWS], *next[ROWS];
  for (int r = 0; r < ROWS; ++r) {
    x[r] = row_of(task, row + r);
    const int64_t later = row + BLOCKS_AHEAD * ROWS + r;
    next[r] = later < end ? row_of(task, later) : x[r];
  }
  Wide total[ROWS][CHUNKS];
  for (int r = 0; r < ROWS; ++r)
    for (int c = 0; c < CHUNKS; ++c) total[r][c] = load(task.start + c * WIDE);
  const float* weights = task.panel;
  for (int64_t from = 0; from < task.width; from += LINE) {
    const int64_t to = from + LINE < task.width ? from + LINE : task.width;
    for (int r = 0; r < ROWS; ++r) __builtin_prefetch(next[r] + from, 0, 2);
    for (int64_t k = from; k < to; ++k, weights += task.panel_stride) {
      Wide weight[CHUNKS];
      for (int c = 0; c < CHUNKS; ++c) weight[c] = load(weights + c * WIDE);
      for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < CHUNKS; ++c) total[r][c] += weight[c] * x[r][k];
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    __builtin_prefetch(next[r] + task.width - 1, 0, 2);  // a row may begin within a line, and end in one more
    for (int c = 0; c < CHUNKS; ++c) {
      const NarrowChunk& chunk = task.chunks[c];
      const int64_t at = (row + r) * chunk.out_stride;
      if (chunk.narrow_out != nullptr) put(chunk.narrow_out + at, total[r][c], chunk.lanes);
      else put(chunk.out + at, total[r][c], chunk.lanes);
    }
  }
}

template <int CHUNKS>
void project_rows(const NarrowTask& task, int64_t begin, int64_t end) {
  constexpr int ROWS = CHUNKS > 2 ? REGISTERS * 2 / 3 / CHUNKS : REGISTERS / 2 / CHUNKS;
  int64_t row = begin;
  for (; row + ROWS <= end; row += ROWS) project_block<CHUNKS, ROWS>(task, row, end);
  for (; row < end; ++row) project_block<CHUNKS, 1>(task, row, end);
}

void project(const NarrowTask& task, int64_t begin, int64_t end) {
  static_assert(MOST_NARROW_CHUNKS == 4);
  if (task.num_chunks == 1) project_rows<1>(task, begin, end);
  else if (task.num_chunks == 2) project_rows<2>(task, begin, end);
  else if (task.num_chunks == 3) project_rows<3>(task, begin, end);
  else project_rows<4>(task, begin, end);
}

/// Rows whose gradients are summed, and the rows after them, of which each pass over the former fetches some lines.
struct Panel {
  const float* x[PANEL];
  const float* next[PANEL];
  int64_t begin, rows;
  int64_t passes, pass;  // how many there are, and how many were made
};

/// out[o, chunk c] += the sum over rows of gradients[row, o] * x[row, chunk c], for OUTS rows and CHUNKS chunks.
template <class G, int OUTS, int CHUNKS>
inline void gradient_tile(const NarrowTask& task, const NarrowGradients& of, const G* given, Panel& panel,
                          int64_t first_out, int64_t first_chunk) {
  Wide total[OUTS][CHUNKS] = {};
  int64_t at[CHUNKS];
  for (int c = 0; c < CHUNKS; ++c) {
    const int64_t from = (first_chunk + c) * WIDE;
    at[c] = from < task.width - WIDE ? from : task.width - WIDE;
  }
  const int64_t fetch_from = task.width * panel.pass / panel.passes;
  const int64_t fetch_to = task.width * (panel.pass + 1) / panel.passes;
  ++panel.pass;
  for (int64_t row = 0; row < panel.rows; ++row) {
    for (int64_t k = fetch_from; k < fetch_to; k += LINE) __builtin_prefetch(panel.next[row] + k, 0, 2);
    float gradients[OUTS];
    for (int o = 0; o < OUTS; ++o)
      Lanes<G, 1>::read(given + (panel.begin + row) * of.gradients_stride + first_out + o, gradients[o]);
    Wide values[CHUNKS];
    for (int c = 0; c < CHUNKS; ++c) values[c] = load(panel.x[row] + at[c]);
    for (int o = 0; o < OUTS; ++o)
      for (int c = 0; c < CHUNKS; ++c) total[o][c] += values[c] * gradients[o];
  }
  for (int o = 0; o < OUTS; ++o) {
    for (int c = 0; c < CHUNKS; ++c) {
      float* to = of.out + (first_out + o) * of.out_stride + (first_chunk + c) * WIDE;
      store(to, load(to) + total[o][c]);
    }
  }
}

template <int OUTS, class G>
void gradient_rows(const NarrowTask& task, const NarrowGradients& of, const G* given, Panel& panel,
                   int64_t first_out) {
  const int64_t chunks = (task.width + WIDE - 1) / WIDE;
  int64_t chunk = 0;
  for (; chunk + 3 <= chunks; chunk += 3) gradient_tile<G, OUTS, 3>(task, of, given, panel, first_out, chunk);
  if (chunks - chunk == 2) gradient_tile<G, OUTS, 2>(task, of, given, panel, first_out, chunk);
  if (chunks - chunk == 1) gradient_tile<G, OUTS, 1>(task, of, given, panel, first_out, chunk);
}

constexpr int OUTS_AT_ONCE = REGISTERS / 3;

template <class G>
void gradient_panel(const NarrowTask& task, const NarrowGradients& of, const G* given, Panel& panel) {
  int64_t out = 0;
  for (; out + OUTS_AT_ONCE <= of.outputs; out += OUTS_AT_ONCE)
    gradient_rows<OUTS_AT_ONCE>(task, of, given, panel, out);
  for (; out < of.outputs; ++out) gradient_rows<1>(task, of, given, panel, out);
}

/// Each out has whole chunks of zeros for each output; where the width is no multiple of a chunk, the last one holds
/// the last columns, some of which the one before has, too.
void narrow_gradient(const NarrowTask& task, int64_t begin, int64_t end) {
  const int64_t tiles = (task.width + 3 * WIDE - 1) / (3 * WIDE);
  Panel panel;
  panel.passes = 0;
  for (int64_t g = 0; g < task.num_gradients; ++g)
    panel.passes += tiles * (task.gradients[g].outputs / OUTS_AT_ONCE + task.gradients[g].outputs % OUTS_AT_ONCE);
  for (panel.begin = begin; panel.begin < end; panel.begin += PANEL) {
    panel.rows = end - panel.begin < PANEL ? end - panel.begin : PANEL;
    panel.pass = 0;
    for (int64_t row = 0; row < panel.rows; ++row) {
      const int64_t next = panel.begin + PANEL + row;
      panel.x[row] = row_of(task, panel.begin + row);
      panel.next[row] = next < end ? row_of(task, next) : panel.x[row];
    }
    for (int64_t g = 0; g < task.num_gradients; ++g) {
      const NarrowGradients& of = task.gradients[g];
      if (of.narrow != nullptr) gradient_panel(task, of, of.narrow, panel);
      else gradient_panel(task, of, of.gradients, panel);
    }
  }
}
