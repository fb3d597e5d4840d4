#include "norms.hpp"

#include <vector>

#include "aggregate_shared.hpp"

namespace gsplit {
namespace {

constexpr int64_t BLOCK_ROWS = 512;  // whose sums are added up by one thread

void run(const NormTask<float>& task, int64_t begin, int64_t end) { chosen().normalise_f32(task, begin, end); }
void run(const NormTask<BFloat16>& task, int64_t begin, int64_t end) { chosen().normalise_bf16(task, begin, end); }

/// So many values in whole vectors.
int64_t whole_vectors(int64_t width) { return (width + chosen().lanes - 1) / chosen().lanes * chosen().lanes; }

/// A task, and the numbers of columns that it points to.
template <class T>
struct Work {
  NormTask<T> task{};
  std::vector<std::vector<float>> columns;

  Work(Norm norm, Matrix<const T> x) {
    task.rows.x = x.data;
    task.rows.x_stride = x.stride;
    task.rows.rows = x.rows;
    task.rows.width = x.width;
    task.norm = norm;
    columns.reserve(5);
  }

  /// A number for each column in whole vectors; none: the one that is theirs else.
  const float* padded(std::span<const float> values, float otherwise) {
    const auto width = static_cast<size_t>(task.rows.width);
    require(values.empty() || values.size() == width, "there must be a number for each column");
    auto& to = columns.emplace_back(whole_vectors(task.rows.width), 0.0f);
    if (values.empty()) std::fill(to.begin(), to.begin() + task.rows.width, otherwise);
    else std::copy(values.begin(), values.end(), to.begin());
    return to.data();
  }

  void set(const Normaliser& by) {
    require(by.norm == Norm::rms || by.norm == Norm::layer || by.norm == Norm::batch, "unknown normalisation");
    require((by.norm == Norm::batch) != by.mean.empty(), "means are those of a batch");
    task.eps = by.eps;
    task.weight = padded(by.weight, 1);
    task.bias = padded(by.bias, 0);
    if (!by.mean.empty()) task.mean = padded(by.mean, 0);
  }

  /// What stood behind the rows, whose gradients these are.
  void set(const Finished& finished, Matrix<const T> gradients) {
    auto& rows = task.rows;
    const auto& [finish, signs] = finished;
    check(finish);
    require(gradients.rows == rows.rows && gradients.width == rows.width, "gradients are not shaped as x");
    require(finish.activation == Activation::none || (signs.rows == rows.rows && signs.width == (rows.width + 7) / 8),
            "there must be a byte for each 8 values of a row");
    rows.gradients = gradients.data;
    rows.gradients_stride = gradients.stride;
    rows.activation = static_cast<int>(finish.activation);
    rows.scale = finish.drop < 1 ? 1 / (1 - finish.drop) : 0;
    rows.signs = signs.data;
    rows.signs_stride = signs.stride;
  }

  static void check(const Finish& finish) {
    require(finish.activation == Activation::none || finish.activation == Activation::relu,
            "a normalisation's pass has ReLU or no activation; ELU is no part of it");
    require(finish.drop >= 0 && finish.drop <= 1, "the share that is dropped must be between 0 and 1");
    require(finish.activation == Activation::relu || finish.drop == 0, "nothing is dropped without an activation");
  }

  void put_into(Matrix<T> out) {
    require(out.rows == task.rows.rows && out.width == task.rows.width, "out is not shaped as x");
    task.rows.out = out.data;
    task.rows.out_stride = out.stride;
  }

  bool empty() const { return task.rows.rows == 0 || task.rows.width == 0; }

  /// Runs the task on all rows, which have no sums.
  void run_alone(int threads) const {
    if (empty()) return;
    shared_out(task.rows.rows, task.rows.width, threads, [this](int64_t, int64_t begin, int64_t end) {
      auto part = task;
      std::vector<float> room(3 * whole_vectors(task.rows.width));
      part.room = room.data();
      run(part, begin, end);
    });
  }

  /// Runs it on blocks of rows, whose sums are then added up in order: `first` of the first half of columns, and
  /// `second` of the other one.
  void run_summing(std::span<float> first, std::span<float> second, int threads) const {
    const int64_t whole = whole_vectors(task.rows.width), blocks = (task.rows.rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    for (const auto& sums : {first, second})
      require(sums.empty() || static_cast<int64_t>(sums.size()) == task.rows.width,
              "there must be a sum for each column");
    std::vector<double> totals(empty() ? 0 : blocks * 2 * whole);
    if (!empty())
      shared_out(blocks, BLOCK_ROWS * task.rows.width, threads, [&](int64_t, int64_t begin, int64_t end) {
        auto part = task;
        std::vector<float> room(3 * whole), sums(2 * whole);
        part.room = room.data();
        part.sums = sums.data();
        for (int64_t block = begin; block < end; ++block) {
          part.totals = totals.data() + block * 2 * whole;
          run(part, block * BLOCK_ROWS, std::min(task.rows.rows, (block + 1) * BLOCK_ROWS));
        }
      });
    int64_t start = 0;
    for (const auto& sums : {first, second}) {
      for (size_t c = 0; c < sums.size(); ++c) {
        double total = 0;
        for (size_t at = start + c; at < totals.size(); at += 2 * whole) total += totals[at];
        sums[c] = static_cast<float>(total);
      }
      start += whole;
    }
  }
};

}  // namespace

template <class T>
void normalise(const Normaliser& by, Matrix<const T> x, const Finish& finish, Matrix<T> out, Matrix<uint8_t> signs,
               Matrix<const T> skip, int threads) {
  Work<T> work(by.norm, x);
  work.set(by);
  Work<T>::check(finish);
  work.task.rows = activation_task<T>(x, finish.activation, finish.drop, finish.seed, out);
  require(signs.data == nullptr || (signs.rows == x.rows && signs.width == (x.width + 7) / 8),
          "there must be a byte for each 8 values of a row");
  work.task.signs = signs.data;
  work.task.signs_stride = signs.stride;
  require(skip.data == nullptr || (skip.rows == x.rows && skip.width == x.width), "skip is not shaped as x");
  work.task.skip = skip.data;
  work.task.skip_stride = skip.stride;
  work.run_alone(threads);
}

template <class T>
void normalise_backward(const Normaliser& by, Matrix<const T> x, const Finished& finished, Matrix<const T> gradients,
                        Matrix<T> x_gradients, std::span<float> weight_gradients, std::span<float> bias_gradients,
                        int threads) {
  require(by.norm != Norm::batch, "a batch has sums of its own");
  Work<T> work(by.norm, x);
  work.set(by);
  work.set(finished, gradients);
  work.put_into(x_gradients);
  if (weight_gradients.empty() && bias_gradients.empty()) work.run_alone(threads);
  else work.run_summing(weight_gradients, bias_gradients, threads);
}

template <class T>
void batch_sums(Matrix<const T> x, std::span<const float> mean, std::span<float> out, int threads) {
  Work<T> work(Norm::batch, x);
  if (!mean.empty()) work.task.mean = work.padded(mean, 0);
  work.run_summing(out, {}, threads);
}

template <class T>
void batch_backward_sums(Matrix<const T> x, std::span<const float> mean, const Finished& finished,
                         Matrix<const T> gradients, std::span<float> products, std::span<float> sums, int threads) {
  Work<T> work(Norm::batch, x);
  work.task.mean = work.padded(mean, 0);
  work.set(finished, gradients);
  work.run_summing(products, sums, threads);
}

template <class T>
void batch_backward(const Normaliser& by, Matrix<const T> x, const Finished& finished, Matrix<const T> gradients,
                    std::span<const float> shift, std::span<const float> slope, Matrix<T> x_gradients, int threads) {
  Work<T> work(Norm::batch, x);
  work.set(by);
  work.set(finished, gradients);
  work.put_into(x_gradients);
  work.task.shift = work.padded(shift, 0);
  work.task.slope = work.padded(slope, 0);
  work.run_alone(threads);
}

#define GSPLIT_INSTANTIATE(T)                                                                                     \
  template void normalise<T>(const Normaliser&, Matrix<const T>, const Finish&, Matrix<T>, Matrix<uint8_t>,       \
                             Matrix<const T>, int);                                                               \
  template void normalise_backward<T>(const Normaliser&, Matrix<const T>, const Finished&, Matrix<const T>,       \
                                      Matrix<T>, std::span<float>, std::span<float>, int);                        \
  template void batch_sums<T>(Matrix<const T>, std::span<const float>, std::span<float>, int);                    \
  template void batch_backward_sums<T>(Matrix<const T>, std::span<const float>, const Finished&, Matrix<const T>, \
                                       std::span<float>, std::span<float>, int);                                  \
  template void batch_backward<T>(const Normaliser&, Matrix<const T>, const Finished&, Matrix<const T>,           \
                                  std::span<const float>, std::span<const float>, Matrix<T>, int);
GSPLIT_INSTANTIATE(float)
GSPLIT_INSTANTIATE(BFloat16)

}  // namespace gsplit
