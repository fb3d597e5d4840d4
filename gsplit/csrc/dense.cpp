// What a layer computes of each row by itself: activation and dropout, narrow products (aggregate.hpp).
#include "aggregate_shared.hpp"

namespace gsplit {
namespace {

void run(const ActivationTask<float>& task, int64_t begin, int64_t end) { chosen().activate_f32(task, begin, end); }
void run(const ActivationTask<double>& task, int64_t begin, int64_t end) { chosen().activate_f64(task, begin, end); }
void run(const ActivationTask<BFloat16>& task, int64_t begin, int64_t end) {
  chosen().activate_bf16(task, begin, end);
}

}  // namespace

template <class T>
ActivationTask<T> activation_task(Matrix<const T> x, Activation activation, Computed<T> drop, uint64_t seed,
                                  Matrix<T> out) {
  require(x.rows == out.rows && x.width == out.width, "out is not shaped as x");
  require(drop >= 0 && drop <= 1, "the share that is dropped must be between 0 and 1");
  require(!NARROW<T> || activation != Activation::elu, "the slope of ELU is not to be had from rounded values");
  const double below = static_cast<double>(drop) * 4294967296.0;
  ActivationTask<T> task{};
  task.x = x.data;
  task.x_stride = x.stride;
  task.out = out.data;
  task.out_stride = out.stride;
  task.rows = x.rows;
  task.width = x.width;
  task.activation = static_cast<int>(activation);
  task.drop_below = below >= 4294967295.0 ? UINT32_MAX : static_cast<uint32_t>(below);
  task.scale = drop < 1 ? Computed<T>(1) / (Computed<T>(1) - drop) : Computed<T>(0);
  task.seed = seed;
  return task;
}

template <class T>
void activate(Matrix<const T> x, std::span<const Computed<T>> bias, Activation activation, Computed<T> drop,
              uint64_t seed, Matrix<T> out, int threads) {
  require(bias.empty() || static_cast<int64_t>(bias.size()) == x.width, "there must be a bias for each column");
  require(bias.empty() || activation != Activation::elu, "ELU takes no bias");
  auto task = activation_task(x, activation, drop, seed, out);
  task.bias = bias.empty() ? nullptr : bias.data();
  shared_out(x.rows, x.width, threads, [task](int64_t, int64_t begin, int64_t end) { run(task, begin, end); });
}

namespace {

inline float in_full(BFloat16 value) { return widened(value); }
inline float in_full(float value) { return value; }
inline double in_full(double value) { return value; }

/// Runs a task of backward on all rows, and sums up what a bias gets.
template <class T>
void run_backward(const ActivationTask<T>& task, std::span<Computed<T>> bias_gradients, int threads) {
  std::fill(bias_gradients.begin(), bias_gradients.end(), Computed<T>(0));
  if (task.gradients == nullptr) return;  // there are no rows
  const size_t width = bias_gradients.size();
  std::vector<double> totals(width * std::max(threads, 1));  // of each thread
  std::vector<Computed<T>> sums(totals.size());
  shared_out(task.rows, task.width, threads, [&task, &totals, &sums](int64_t worker, int64_t begin, int64_t end) {
    auto part = task;
    part.totals = totals.empty() ? nullptr : totals.data() + task.width * worker;
    part.sums = sums.data() + task.width * worker;
    run(part, begin, end);
  });
  for (size_t c = 0; c < width; ++c) {
    double total = 0;
    for (size_t at = c; at < totals.size(); at += width) total += totals[at];
    bias_gradients[c] = static_cast<Computed<T>>(total);
  }
}

}  // namespace

template <class T>
void activate_backward(Matrix<const T> out, Activation activation, Computed<T> drop, uint64_t seed,
                       Matrix<const T> gradients, Matrix<T> x_gradients, std::span<Computed<T>> bias_gradients,
                       int threads) {
  require(bias_gradients.empty() || static_cast<int64_t>(bias_gradients.size()) == out.width,
          "there must be a gradient of the bias for each column");
  require(gradients.rows == out.rows && gradients.width == out.width, "gradients are not shaped as out");
  auto task = activation_task(out, activation, drop, seed, x_gradients);
  task.gradients = gradients.data;
  task.gradients_stride = gradients.stride;
  run_backward(task, bias_gradients, threads);
}

template <class T>
void pack_signs(Matrix<const T> x, Matrix<uint8_t> signs, int threads) {
  require(signs.rows == x.rows && signs.width == (x.width + 7) / 8,
          "there must be a byte for each 8 values of a row");
  shared_out(x.rows, x.width, threads, [&x, &signs](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* from = x.row(row);
      uint8_t* to = signs.row(row);
      for (int64_t byte = 0; byte < signs.width; ++byte) {
        unsigned bits = 0;
        const int64_t first = byte * 8, count = std::min<int64_t>(8, x.width - first);
        for (int64_t bit = 0; bit < count; ++bit)  // NaN has one, too
          bits |= static_cast<unsigned>(!(in_full(from[first + bit]) <= Computed<T>(0))) << bit;
        to[byte] = static_cast<uint8_t>(bits);
      }
    }
  });
}

template <class T>
void relu_backward(Matrix<const uint8_t> signs, Computed<T> drop, Matrix<const T> gradients, Matrix<T> x_gradients,
                   std::span<Computed<T>> bias_gradients, int threads) {
  require(bias_gradients.empty() || static_cast<int64_t>(bias_gradients.size()) == gradients.width,
          "there must be a gradient of the bias for each column");
  require(signs.rows == gradients.rows && signs.width == (gradients.width + 7) / 8,
          "there must be a byte for each 8 values of a row");
  auto task = activation_task(gradients, Activation::relu, drop, 0, x_gradients);
  task.gradients = gradients.data;
  task.gradients_stride = gradients.stride;
  task.signs = signs.data;
  task.signs_stride = signs.stride;
  run_backward(task, bias_gradients, threads);
}

bool narrow_fits(int64_t outputs, int64_t width) {
  return outputs > 0 && outputs <= chosen().most_outputs && width >= chosen().lanes;
}

namespace {

constexpr int64_t SUMMED_ROWS = 2048;  // 32 panels, over which the sums of a gradient stay in float32

/// Checks rows, and how many of them each of `parts` takes.
template <class Part>
NarrowTask narrow_task(const PickedRows& x, const std::vector<Part>& parts) {
  require(!parts.empty() && parts.size() <= MOST_NARROW, "rows are multiplied by one or two matrices");
  check_ids(x);
  require(x.table.narrow == nullptr, "products in float32 are of rows in float32");
  NarrowTask task{};
  task.x = x.table.wide;
  task.ids = x.ids ? x.ids->data() : nullptr;
  task.width = x.table.width;
  task.x_stride = x.table.stride;
  return task;
}

void check_narrow(const PickedRows& x, int64_t rows, int64_t outputs, bool fits) {
  require(narrow_fits(outputs, x.table.width), "the product is too wide, or its rows are too short");
  require(fits && rows <= x.rows(), "out is not shaped as the product");
}

}  // namespace

void project_narrow(const PickedRows& x, const std::vector<NarrowProduct>& given, int threads) {
  auto products = given;
  const auto task = narrow_task(x, products);
  std::stable_sort(products.begin(), products.end(),
                   [](const auto& one, const auto& other) { return one.out.rows > other.out.rows; });
  const int64_t lanes = chosen().lanes;
  const auto padded = [lanes](int64_t outputs) { return (outputs + lanes - 1) / lanes * lanes; };
  int64_t stride = 0;
  for (const auto& [weight, bias, out] : products) {
    check_narrow(x, out.rows, weight.rows, weight.width == x.table.width && out.width == weight.rows);
    require(bias.empty() || static_cast<int64_t>(bias.size()) == weight.rows, "there must be a bias for each output");
    stride += padded(weight.rows);
  }
  std::vector<float> panel(x.table.width * stride), start(stride);
  int64_t column = 0;
  for (const auto& [weight, bias, out] : products) {
    for (int64_t o = 0; o < weight.rows; ++o)
      for (int64_t k = 0; k < weight.width; ++k) panel[k * stride + column + o] = weight.row(o)[k];
    std::copy(bias.begin(), bias.end(), start.begin() + column);
    column += padded(weight.rows);
  }
  // The first rows take all products; those from where the second ends, the first product alone.
  int64_t from = 0;
  for (size_t taken = products.size(); taken > 0; --taken) {
    auto part = task;
    part.panel = panel.data();
    part.panel_stride = stride;
    part.start = start.data();
    for (size_t p = 0; p < taken; ++p) {
      const auto& out = products[p].out;
      for (int64_t o = 0; o < out.width; o += lanes)
        part.chunks[part.num_chunks++] = {out.wide == nullptr ? nullptr : out.wide + o,
                                          out.narrow == nullptr ? nullptr : out.narrow + o, out.stride,
                                          std::min(lanes, out.width - o)};
    }
    const int64_t rows = products[taken - 1].out.rows - from;
    shared_out(rows, x.table.width, threads, [&part, from](int64_t, int64_t begin, int64_t end) {
      chosen().project(part, from + begin, from + end);
    });
    from += rows;
  }
}

void narrow_gradient(const PickedRows& x, const std::vector<NarrowGradient>& given, int threads) {
  auto wanted = given;
  const auto task = narrow_task(x, wanted);
  std::stable_sort(wanted.begin(), wanted.end(),
                   [](const auto& one, const auto& other) { return one.gradients.rows > other.gradients.rows; });
  const int64_t width = x.table.width, lanes = chosen().lanes, stride = (width + lanes - 1) / lanes * lanes;
  for (const auto& [gradients, out] : wanted)
    check_narrow(x, gradients.rows, gradients.width, out.rows == gradients.width && out.width == width);
  // Sums of each thread, one gradient after the other: of the rows at work, and of those before them.
  std::vector<std::vector<std::vector<float>>> sums(std::max(threads, 1));
  std::vector<std::vector<std::vector<double>>> totals(sums.size());
  for (size_t worker = 0; worker < sums.size(); ++worker) {
    for (const auto& [gradients, out] : wanted) {
      sums[worker].emplace_back(gradients.width * stride);
      totals[worker].emplace_back(gradients.width * stride);
    }
  }
  int64_t from = 0;
  for (size_t taken = wanted.size(); taken > 0; --taken) {
    const int64_t rows = wanted[taken - 1].gradients.rows - from;
    shared_out(rows, width, threads, [&](int64_t worker, int64_t begin, int64_t end) {
      auto part = task;
      for (size_t g = 0; g < taken; ++g) {
        const auto& gradients = wanted[g].gradients;
        auto& sum = sums[worker][g];
        part.gradients[part.num_gradients++] = {gradients.wide,  gradients.narrow, sum.data(),
                                                gradients.width, gradients.stride, stride};
      }
      for (int64_t first = begin; first < end; first += SUMMED_ROWS) {
        chosen().narrow_gradient(part, from + first, from + std::min(end, first + SUMMED_ROWS));
        for (size_t g = 0; g < taken; ++g) {
          auto& sum = sums[worker][g];
          for (size_t i = 0; i < sum.size(); ++i) totals[worker][g][i] += static_cast<double>(sum[i]);
          std::fill(sum.begin(), sum.end(), 0.0f);
        }
      }
    });
    from += rows;
  }
  for (size_t g = 0; g < wanted.size(); ++g) {
    const auto& out = wanted[g].out;
    for (int64_t o = 0; o < out.rows; ++o) {
      for (int64_t k = 0; k < out.width; ++k) {
        const int64_t chunk = k / lanes, first = std::min(chunk * lanes, width - lanes);
        double total = 0;
        for (const auto& of_thread : totals) total += of_thread[g][o * stride + chunk * lanes + k - first];
        out.row(o)[k] = static_cast<float>(total);
      }
    }
  }
}

#define GSPLIT_INSTANTIATE(T)                                                                                        \
  template ActivationTask<T> activation_task<T>(Matrix<const T>, Activation, Computed<T>, uint64_t, Matrix<T>);      \
  template void activate<T>(Matrix<const T>, std::span<const Computed<T>>, Activation, Computed<T>, uint64_t,        \
                            Matrix<T>, int);                                                                         \
  template void activate_backward<T>(Matrix<const T>, Activation, Computed<T>, uint64_t, Matrix<const T>, Matrix<T>, \
                                     std::span<Computed<T>>, int);                                                   \
  template void pack_signs<T>(Matrix<const T>, Matrix<uint8_t>, int);                                                \
  template void relu_backward<T>(Matrix<const uint8_t>, Computed<T>, Matrix<const T>, Matrix<T>,                     \
                                 std::span<Computed<T>>, int);
GSPLIT_INSTANTIATE(float)
GSPLIT_INSTANTIATE(double)
GSPLIT_INSTANTIATE(BFloat16)

}  // namespace gsplit
