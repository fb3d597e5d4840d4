#include "aggregate.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "row_kernels.hpp"

namespace gsplit {
namespace {

constexpr int64_t MIN_THREAD_VALUES = 1 << 16;  // below this a thread costs more than it saves

void require(bool holds, const char* message) {
  if (!holds) throw std::invalid_argument(message);
}

bool rows_inside(std::span<const int32_t> values, int64_t end) {
  uint32_t largest = 0;  // a negative one is larger than any
  for (const int32_t value : values) largest = std::max(largest, static_cast<uint32_t>(value));
  return values.empty() || largest < end;
}

/// Looks at every edge: an index outside would read other memory.
void check_edges(const RowEdges& edges, int64_t sources, int64_t weights) {
  require(!edges.indptr.empty() && edges.indptr.front() == 0, "indptr must begin with 0");
  require(edges.indptr.back() == static_cast<int64_t>(edges.indices.size()), "indptr must end with the edges");
  require(std::is_sorted(edges.indptr.begin(), edges.indptr.end()), "indptr must not fall");
  require(rows_inside(edges.indices, sources), "an edge has a source that is no row");
  require(edges.order.empty() || edges.order.size() == edges.indices.size(), "there must be an order for each edge");
  require(weights < 0 || rows_inside(edges.order, weights), "an edge has a weight that does not exist");
}

template <class T>
void check_sources(const Sources<T>& sources) {
  require(sources.received.rows == 0 || sources.received.width == sources.own.width, "rows differ in width");
}

template <class T>
RowTask<T> task_of(const RowEdges& edges, const Sources<T>& sources) {
  RowTask<T> task{};
  task.indptr = edges.indptr.data();
  task.indices = edges.indices.data();
  task.order = edges.order.empty() ? nullptr : edges.order.data();
  task.own = sources.own.data;
  task.received = sources.received.data;
  task.num_own = sources.own.rows;
  task.own_stride = sources.own.stride;
  task.received_stride = sources.received.stride;
  task.width = sources.own.width;
  task.heads = 1;
  return task;
}

/// Runs work(begin, end) on ranges of rows with about as many edges each.
template <class Work>
void in_ranges(const RowEdges& edges, int64_t width, int threads, Work work) {
  const auto rows = static_cast<int64_t>(edges.indptr.size()) - 1;
  const auto total = static_cast<int64_t>(edges.indices.size()) + rows;
  const int64_t workers = std::clamp<int64_t>(threads, 1, 1 + total * width / MIN_THREAD_VALUES);
  std::vector<int64_t> bounds(workers + 1, rows);
  bounds[0] = 0;
  for (int64_t w = 1, row = 0; w < workers; ++w) {
    while (row < rows && edges.indptr[row] + row < total * w / workers) ++row;
    bounds[w] = row;
  }
  std::vector<std::jthread> pool;
  for (int64_t w = 1; w < workers; ++w) pool.emplace_back(work, bounds[w], bounds[w + 1]);
  work(bounds[0], bounds[1]);
}

/// Kernels by name, the widest first.
std::vector<std::pair<const char*, const RowKernels*>> available() {
  std::vector<std::pair<const char*, const RowKernels*>> found;
#ifdef GSPLIT_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw"))
    found.emplace_back("avx512", &isa_avx512::kernels);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.emplace_back("avx2", &isa_avx2::kernels);
#endif
  found.emplace_back("basic", &isa_basic::kernels);
  return found;
}

const RowKernels*& chosen() {
  static const RowKernels* kernels = available().front().second;
  return kernels;
}

void run_sum(const RowTask<float>& task, int64_t begin, int64_t end) { chosen()->sum_f32(task, begin, end); }
void run_sum(const RowTask<double>& task, int64_t begin, int64_t end) { chosen()->sum_f64(task, begin, end); }
void run_dot(const RowTask<float>& task, int64_t begin, int64_t end) { chosen()->dot_f32(task, begin, end); }
void run_dot(const RowTask<double>& task, int64_t begin, int64_t end) { chosen()->dot_f64(task, begin, end); }

void run(const ActivationTask<float>& task, int64_t begin, int64_t end) { chosen()->activate_f32(task, begin, end); }
void run(const ActivationTask<double>& task, int64_t begin, int64_t end) { chosen()->activate_f64(task, begin, end); }

/// Runs work(worker, begin, end) on as many rows each.
template <class Work>
void shared_out(int64_t rows, int64_t width, int threads, Work work) {
  const int64_t workers = std::clamp<int64_t>(threads, 1, 1 + rows * width / MIN_THREAD_VALUES);
  std::vector<std::jthread> pool;
  for (int64_t w = 1; w < workers; ++w) pool.emplace_back(work, w, rows * w / workers, rows * (w + 1) / workers);
  work(int64_t{0}, int64_t{0}, rows / workers);
}

template <class T>
ActivationTask<T> activation_task(Matrix<const T> x, Activation activation, T drop, uint64_t seed, Matrix<T> out) {
  require(x.rows == out.rows && x.width == out.width, "out is not shaped as x");
  require(drop >= 0 && drop <= 1, "the share that is dropped must be between 0 and 1");
  const double below = static_cast<double>(drop) * 4294967296.0;
  ActivationTask<T> task{};
  task.x = x.data;
  task.x_stride = x.stride;
  task.out = out.data;
  task.out_stride = out.stride;
  task.width = x.width;
  task.activation = static_cast<int>(activation);
  task.drop_below = below >= 4294967295.0 ? UINT32_MAX : static_cast<uint32_t>(below);
  task.scale = drop < 1 ? T(1) / (T(1) - drop) : T(0);
  task.seed = seed;
  return task;
}

template <class T>
T leaky(T value, T slope) {
  return value > 0 ? value : value * slope;
}

/// What the three steps of attention have in common: numbers of rows, edges and heads that fit.
template <class T, class U>
int64_t heads_of(const RowEdges& edges, const Matrix<T>& of_edges, const Matrix<U>& of_rows) {
  require(of_edges.rows == static_cast<int64_t>(edges.indices.size()), "there must be a row of scores for each edge");
  require(of_rows.data == nullptr ||
              (of_rows.rows + 1 == static_cast<int64_t>(edges.indptr.size()) && of_rows.width == of_edges.width),
          "there must be a row of scores for each destination");
  return of_edges.width;
}

}  // namespace

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const auto& [name, kernels] : available()) names.emplace_back(name);
  return names;
}

void use_instruction_set(const std::string& name) {
  for (const auto& [known, kernels] : available()) {
    if (name == known) {
      chosen() = kernels;
      return;
    }
  }
  throw std::invalid_argument("this machine does not run " + name);
}

template <class T>
void sum_rows(const RowEdges& edges, const Sources<T>& sources, const Scaling<T>& scaling, Matrix<const T> start,
              Matrix<T> out, int threads) {
  check_edges(edges, sources.rows(), scaling.weight.data == nullptr ? -1 : scaling.weight.rows);
  check_sources(sources);
  const auto rows = static_cast<int64_t>(edges.indptr.size()) - 1;
  require(out.rows == rows && out.width == sources.own.width, "out does not have the shape of the sums");
  require(start.data == nullptr || (start.rows <= rows && start.width == out.width), "start is not shaped as out");
  require(scaling.factor.empty() || static_cast<int64_t>(scaling.factor.size()) == sources.rows(),
          "there must be a factor for each source");
  if (out.width == 0) return;
  auto task = task_of(edges, sources);
  task.factor = scaling.factor.empty() ? nullptr : scaling.factor.data();
  if (scaling.weight.data != nullptr) {
    require(scaling.weight.width > 0 && out.width % scaling.weight.width == 0, "the heads do not divide the width");
    require(edges.indices.empty() || !edges.order.empty() ||
                scaling.weight.rows == static_cast<int64_t>(edges.indices.size()),
            "there must be a weight for each edge");
    task.weight = scaling.weight.data;
    task.weight_stride = scaling.weight.stride;
    task.heads = scaling.weight.width;
  }
  task.mean = scaling.mean;
  task.start = start.data;
  task.start_rows = start.data == nullptr ? 0 : start.rows;
  task.start_stride = start.stride;
  task.out = out.data;
  task.out_stride = out.stride;
  in_ranges(edges, out.width, threads, [task](int64_t begin, int64_t end) { run_sum(task, begin, end); });
}

template <class T>
void dot_rows(const RowEdges& edges, const Sources<T>& sources, Matrix<const T> left, Matrix<T> out, int threads) {
  check_edges(edges, sources.rows(), -1);
  check_sources(sources);
  require(left.rows + 1 == static_cast<int64_t>(edges.indptr.size()) && left.width == sources.own.width,
          "left does not have a row for each row");
  require(out.rows == static_cast<int64_t>(edges.indices.size()), "there must be a row of out for each edge");
  require(out.width > 0 && left.width % out.width == 0, "the heads do not divide the width");
  auto task = task_of(edges, sources);
  task.heads = out.width;
  task.start = left.data;
  task.start_stride = left.stride;
  task.out = out.data;
  task.out_stride = out.stride;
  in_ranges(edges, left.width, threads, [task](int64_t begin, int64_t end) { run_dot(task, begin, end); });
}

template <class T>
void add_rows(Matrix<T> out, std::span<const int32_t> rows, Matrix<const T> values) {
  require(static_cast<int64_t>(rows.size()) == values.rows && out.width == values.width,
          "there must be a row for each");
  require(rows_inside(rows, out.rows), "a row is outside out");
  constexpr int64_t AHEAD = 8;
  for (int64_t i = 0; i < values.rows; ++i) {
    if (i + AHEAD < values.rows) {
      const auto* ahead = reinterpret_cast<const char*>(out.row(rows[i + AHEAD]));
      for (int64_t b = 0; b < std::min<int64_t>(out.width * sizeof(T), 512); b += 64)
        __builtin_prefetch(ahead + b, 1);
    }
    T* to = out.row(rows[i]);
    const T* from = values.row(i);
    for (int64_t c = 0; c < out.width; ++c) to[c] += from[c];
  }
}

void transpose_edges(const RowEdges& edges, std::span<int32_t> out_indptr, std::span<int32_t> out_rows,
                     std::span<int32_t> out_order) {
  require(!out_indptr.empty(), "out_indptr must have a number more than there are sources");
  check_edges(edges, static_cast<int64_t>(out_indptr.size()) - 1, -1);
  require(out_rows.size() == edges.indices.size(), "there must be a row for each edge");
  require(out_order.empty() || out_order.size() == edges.indices.size(), "there must be an order for each edge");
  // Counts are kept two places on, so that after the edges were placed each stands where its source begins.
  std::fill(out_indptr.begin(), out_indptr.end(), 0);
  const auto sources = static_cast<int64_t>(out_indptr.size()) - 1;
  for (const int32_t source : edges.indices)
    if (source + 2 <= sources) ++out_indptr[source + 2];
  for (int64_t s = 2; s <= sources; ++s) out_indptr[s] += out_indptr[s - 1];
  const auto rows = static_cast<int64_t>(edges.indptr.size()) - 1;
  for (int64_t row = 0; row < rows; ++row) {
    for (int32_t e = edges.indptr[row]; e < edges.indptr[row + 1]; ++e) {
      const int32_t to = out_indptr[edges.indices[e] + 1]++;
      out_rows[to] = static_cast<int32_t>(row);
      if (!out_order.empty()) out_order[to] = e;
    }
  }
}

template <class T>
void activate(Matrix<const T> x, Activation activation, T drop, uint64_t seed, Matrix<T> out, int threads) {
  const auto task = activation_task(x, activation, drop, seed, out);
  shared_out(x.rows, x.width, threads, [task](int64_t, int64_t begin, int64_t end) { run(task, begin, end); });
}

template <class T>
void activate_backward(Matrix<const T> out, Activation activation, T drop, uint64_t seed, Matrix<const T> gradients,
                       Matrix<T> x_gradients, int threads) {
  require(gradients.rows == out.rows && gradients.width == out.width, "gradients are not shaped as out");
  auto task = activation_task(out, activation, drop, seed, x_gradients);
  task.gradients = gradients.data;
  task.gradients_stride = gradients.stride;
  if (task.gradients == nullptr) return;  // there are no rows
  shared_out(out.rows, out.width, threads, [task](int64_t, int64_t begin, int64_t end) { run(task, begin, end); });
}

bool narrow_fits(int64_t outputs, int64_t width) {
  return outputs > 0 && outputs <= chosen()->most_outputs && width >= chosen()->lanes;
}

void project_narrow(Matrix<const float> x, Matrix<const float> weight, std::span<const float> bias, Matrix<float> out,
                    int threads) {
  require(narrow_fits(weight.rows, weight.width), "the product is too wide, or its rows are too short");
  require(x.width == weight.width && out.rows == x.rows && out.width == weight.rows,
          "out is not shaped as the product");
  require(bias.empty() || static_cast<int64_t>(bias.size()) == weight.rows, "there must be a bias for each output");
  const int64_t lanes = chosen()->lanes, padded = (weight.rows + lanes - 1) / lanes * lanes;
  std::vector<float> panel(weight.width * padded), start(padded);
  for (int64_t o = 0; o < weight.rows; ++o)
    for (int64_t k = 0; k < weight.width; ++k) panel[k * padded + o] = weight.row(o)[k];
  std::copy(bias.begin(), bias.end(), start.begin());
  NarrowTask task{};
  task.x = x.data;
  task.x_stride = x.stride;
  task.panel = panel.data();
  task.start = start.data();
  task.out = out.data;
  task.out_stride = out.stride;
  task.width = x.width;
  task.outputs = weight.rows;
  shared_out(x.rows, x.width, threads,
             [&task](int64_t, int64_t begin, int64_t end) { chosen()->project(task, begin, end); });
}

void narrow_gradient(Matrix<const float> gradients, Matrix<const float> x, Matrix<float> out, int threads) {
  require(narrow_fits(gradients.width, x.width), "the product is too wide, or its rows are too short");
  require(gradients.rows == x.rows && out.rows == gradients.width && out.width == x.width,
          "out is not shaped as the product");
  const int64_t lanes = chosen()->lanes, chunks = (x.width + lanes - 1) / lanes, padded = chunks * lanes;
  std::vector<std::vector<float>> sums(std::max(threads, 1));  // one for each thread
  shared_out(x.rows, x.width, threads, [&](int64_t worker, int64_t begin, int64_t end) {
    sums[worker].resize(gradients.width * padded);
    NarrowTask task{};
    task.x = x.data;
    task.x_stride = x.stride;
    task.gradients = gradients.data;
    task.gradients_stride = gradients.stride;
    task.out = sums[worker].data();
    task.out_stride = padded;
    task.width = x.width;
    task.outputs = gradients.width;
    chosen()->narrow_gradient(task, begin, end);
  });
  for (int64_t o = 0; o < out.rows; ++o) {
    for (int64_t k = 0; k < out.width; ++k) {
      const int64_t chunk = k / lanes, first = std::min(chunk * lanes, x.width - lanes);
      float total = 0;
      for (const auto& sum : sums)
        if (!sum.empty()) total += sum[o * padded + chunk * lanes + k - first];
      out.row(o)[k] = total;
    }
  }
}

template <class T>
void attention_scores(const RowEdges& edges, Matrix<const T> source, Matrix<const T> destination, T slope,
                      Matrix<T> out, Matrix<T> own_out) {
  check_edges(edges, source.rows, -1);
  const int64_t heads = heads_of(edges, out, own_out);
  require(source.width == heads && destination.width == heads &&
              destination.rows + 1 == static_cast<int64_t>(edges.indptr.size()),
          "there must be a score for each head");
  require(own_out.data == nullptr || source.rows >= destination.rows, "the destinations must be among the sources");
  std::vector<T> highest(heads);
  for (int64_t row = 0; row < destination.rows; ++row) {
    const T* to = destination.row(row);
    std::fill(highest.begin(), highest.end(), -INFINITY);
    if (own_out.data != nullptr)
      for (int64_t h = 0; h < heads; ++h) highest[h] = own_out.row(row)[h] = leaky(source.row(row)[h] + to[h], slope);
    for (int64_t e = edges.indptr[row]; e < edges.indptr[row + 1]; ++e) {
      const T* from = source.row(edges.indices[e]);
      for (int64_t h = 0; h < heads; ++h) {
        const T score = leaky(from[h] + to[h], slope);
        out.row(e)[h] = score;
        highest[h] = std::max(highest[h], score);
      }
    }
    for (int64_t e = edges.indptr[row]; e < edges.indptr[row + 1]; ++e)
      for (int64_t h = 0; h < heads; ++h) out.row(e)[h] -= highest[h];
    if (own_out.data != nullptr)
      for (int64_t h = 0; h < heads; ++h) own_out.row(row)[h] -= highest[h];
  }
}

template <class T>
void attention_shares(const RowEdges& edges, Matrix<T> powers, Matrix<T> own_powers) {
  check_edges(edges, INT32_MAX, -1);
  const int64_t heads = heads_of(edges, powers, own_powers);
  std::vector<T> total(heads);
  for (size_t row = 0; row + 1 < edges.indptr.size(); ++row) {
    for (int64_t h = 0; h < heads; ++h) total[h] = own_powers.data == nullptr ? T(0) : own_powers.row(row)[h];
    for (int64_t e = edges.indptr[row]; e < edges.indptr[row + 1]; ++e)
      for (int64_t h = 0; h < heads; ++h) total[h] += powers.row(e)[h];
    for (int64_t h = 0; h < heads; ++h) total[h] = T(1) / total[h];
    for (int64_t e = edges.indptr[row]; e < edges.indptr[row + 1]; ++e)
      for (int64_t h = 0; h < heads; ++h) powers.row(e)[h] *= total[h];
    if (own_powers.data != nullptr)
      for (int64_t h = 0; h < heads; ++h) own_powers.row(row)[h] *= total[h];
  }
}

template <class T>
void attention_backward(const RowEdges& edges, Matrix<const T> source, Matrix<const T> destination, T slope,
                        Matrix<const T> shares, Matrix<const T> own_shares, Matrix<T> gradients,
                        Matrix<T> own_gradients, Matrix<T> destination_gradients) {
  check_edges(edges, source.rows, -1);
  const int64_t heads = heads_of(edges, gradients, own_gradients);
  heads_of(edges, shares, own_shares);
  heads_of(edges, shares, destination);
  heads_of(edges, shares, destination_gradients);
  require(source.width == heads && shares.width == heads, "there must be a score for each head");
  require(own_shares.data == nullptr || source.rows >= destination.rows,
          "the destinations must be among the sources");
  require((own_shares.data == nullptr) == (own_gradients.data == nullptr), "own shares need own gradients");
  std::vector<T> sum(heads);
  for (int64_t row = 0; row < destination.rows; ++row) {
    const T* to = destination.row(row);
    T* total = destination_gradients.row(row);
    for (int64_t h = 0; h < heads; ++h) {
      sum[h] = own_shares.data == nullptr ? T(0) : own_shares.row(row)[h] * own_gradients.row(row)[h];
      total[h] = 0;
    }
    for (int64_t e = edges.indptr[row]; e < edges.indptr[row + 1]; ++e)
      for (int64_t h = 0; h < heads; ++h) sum[h] += shares.row(e)[h] * gradients.row(e)[h];
    for (int64_t e = edges.indptr[row]; e < edges.indptr[row + 1]; ++e) {
      const T* from = source.row(edges.indices[e]);
      for (int64_t h = 0; h < heads; ++h) {
        const T through = shares.row(e)[h] * (gradients.row(e)[h] - sum[h]);
        total[h] += gradients.row(e)[h] = from[h] + to[h] > 0 ? through : through * slope;
      }
    }
    if (own_shares.data == nullptr) continue;
    for (int64_t h = 0; h < heads; ++h) {
      const T through = own_shares.row(row)[h] * (own_gradients.row(row)[h] - sum[h]);
      total[h] += own_gradients.row(row)[h] = source.row(row)[h] + to[h] > 0 ? through : through * slope;
    }
  }
}

#define GSPLIT_INSTANTIATE(T)                                                                                        \
  template void activate<T>(Matrix<const T>, Activation, T, uint64_t, Matrix<T>, int);                               \
  template void activate_backward<T>(Matrix<const T>, Activation, T, uint64_t, Matrix<const T>, Matrix<T>, int);     \
  template void sum_rows<T>(const RowEdges&, const Sources<T>&, const Scaling<T>&, Matrix<const T>, Matrix<T>, int); \
  template void add_rows<T>(Matrix<T>, std::span<const int32_t>, Matrix<const T>);                                   \
  template void dot_rows<T>(const RowEdges&, const Sources<T>&, Matrix<const T>, Matrix<T>, int);                    \
  template void attention_scores<T>(const RowEdges&, Matrix<const T>, Matrix<const T>, T, Matrix<T>, Matrix<T>);     \
  template void attention_shares<T>(const RowEdges&, Matrix<T>, Matrix<T>);                                          \
  template void attention_backward<T>(const RowEdges&, Matrix<const T>, Matrix<const T>, T, Matrix<const T>,         \
                                      Matrix<const T>, Matrix<T>, Matrix<T>, Matrix<T>);
GSPLIT_INSTANTIATE(float)
GSPLIT_INSTANTIATE(double)

}  // namespace gsplit
