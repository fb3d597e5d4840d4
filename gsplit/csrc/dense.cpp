// What a layer computes of each row by itself: activation and dropout, narrow products (aggregate.hpp).
#include "aggregate_shared.hpp"

namespace gsplit {
namespace {

void run(const ActivationTask<float>& task, int64_t begin, int64_t end) { chosen().activate_f32(task, begin, end); }
void run(const ActivationTask<double>& task, int64_t begin, int64_t end) { chosen().activate_f64(task, begin, end); }

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

}  // namespace

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
  return outputs > 0 && outputs <= chosen().most_outputs && width >= chosen().lanes;
}

void project_narrow(Matrix<const float> x, Matrix<const float> weight, std::span<const float> bias, Matrix<float> out,
                    int threads) {
  require(narrow_fits(weight.rows, weight.width), "the product is too wide, or its rows are too short");
  require(x.width == weight.width && out.rows == x.rows && out.width == weight.rows,
          "out is not shaped as the product");
  require(bias.empty() || static_cast<int64_t>(bias.size()) == weight.rows, "there must be a bias for each output");
  const int64_t lanes = chosen().lanes, padded = (weight.rows + lanes - 1) / lanes * lanes;
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
             [&task](int64_t, int64_t begin, int64_t end) { chosen().project(task, begin, end); });
}

void narrow_gradient(Matrix<const float> gradients, Matrix<const float> x, Matrix<float> out, int threads) {
  require(narrow_fits(gradients.width, x.width), "the product is too wide, or its rows are too short");
  require(gradients.rows == x.rows && out.rows == gradients.width && out.width == x.width,
          "out is not shaped as the product");
  const int64_t lanes = chosen().lanes, chunks = (x.width + lanes - 1) / lanes, padded = chunks * lanes;
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
    chosen().narrow_gradient(task, begin, end);
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

#define GSPLIT_INSTANTIATE(T)                                                          \
  template void activate<T>(Matrix<const T>, Activation, T, uint64_t, Matrix<T>, int); \
  template void activate_backward<T>(Matrix<const T>, Activation, T, uint64_t, Matrix<const T>, Matrix<T>, int);
GSPLIT_INSTANTIATE(float)
GSPLIT_INSTANTIATE(double)

}  // namespace gsplit
