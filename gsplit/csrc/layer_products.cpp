#include "layer_products.hpp"

#include <cstdlib>
#include <memory>

#include "aggregate_shared.hpp"
#include "tile_products.hpp"

#ifdef GSPLIT_TILES
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace gsplit {
namespace {

constexpr int64_t SUMMED_ROWS = 2048;   // over which the sums of a gradient stay in float32
constexpr int64_t FINISHED_ROWS = 192;  // that are finished while a cache has them
constexpr int64_t BACKWARD_ROWS = 512;  // whose gradients a cache has for all that is made of them
constexpr int64_t PICKED_ROWS = 96;     // that a cache has for all that they are multiplied by
constexpr size_t LINE = 64;

bool asked_for_tiles() {
#ifdef GSPLIT_TILES
  constexpr unsigned BFLOAT16 = 1u << 22, TILE = 1u << 24;  // in edx of leaf 7
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (edx & BFLOAT16) == 0 || (edx & TILE) == 0) return false;
  if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
    return false;
  constexpr int REQUEST = 0x1023, TILE_DATA = 18;  // ARCH_REQ_XCOMP_PERM; Linux grants their memory to who asks
  return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
  return false;
#endif
}

const products::Kernels& kernels_of(Products by) {
  if (by == Products::float32) return chosen().wide;
#ifdef GSPLIT_TILES
  if (has_tiles() && has_wide_products()) return tiles::kernels;
#endif
  return chosen().widened;
}

/// Memory at a multiple of a line.
template <class T>
class Aligned {
 public:
  explicit Aligned(int64_t count) {
    const size_t lines = (static_cast<size_t>(count) * sizeof(T) + LINE - 1) / LINE;
    data_.reset(static_cast<T*>(std::aligned_alloc(LINE, std::max<size_t>(lines, 1) * LINE)));
    if (data_ == nullptr) throw std::bad_alloc();
  }
  T* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T[], Free> data_;
};

products::Rows rows_of(const EitherRows& x) { return {x.narrow, x.wide, x.rows, x.width, x.stride}; }

/// A weight, or, where it is transposed already, what it was.
Aligned<char> pack(const products::Kernels& kernels, Matrix<const float> weight, bool transposed) {
  const int64_t outputs = transposed ? weight.width : weight.rows, inputs = transposed ? weight.rows : weight.width;
  Aligned<char> packed(kernels.packed_bytes(outputs, inputs));
  kernels.pack_weight(weight.data, outputs, inputs, transposed ? 1 : weight.stride, transposed ? weight.stride : 1,
                      packed.data());
  return packed;
}

void run(const ActivationTask<float>& task) { chosen().activate_f32(task, 0, task.rows); }
void run(const ActivationTask<BFloat16>& task) { chosen().activate_bf16(task, 0, task.rows); }

/// Finishes `count` rows from `first` on, in place.
template <class T>
void finish_rows(const Finish& finish, T* rows, int64_t first, int64_t count, int64_t width, int64_t stride) {
  const Matrix<T> to{rows + first * stride, count, width, stride};
  auto task = activation_task<T>({to.data, count, width, stride}, finish.activation, finish.drop, finish.seed, to);
  task.first_row = first;
  run(task);
}

/// Gradients of `count` rows from `first` on before they were finished, of those after that.
template <class T>
void unfinish_rows(const Finish& finish, const T* out, int64_t out_stride, const T* gradients, int64_t stride,
                   int64_t first, int64_t count, int64_t width, T* room) {
  auto task = activation_task<T>({out + first * out_stride, count, width, out_stride}, finish.activation, finish.drop,
                                 finish.seed, {room, count, width, width});
  task.first_row = first;
  task.gradients = gradients + first * stride;
  task.gradients_stride = stride;
  run(task);
}

using Totals = std::vector<std::vector<double>>;  // of each thread

/// One pass over gradients, which weights and rows get theirs of.
struct Backward {
  const products::Kernels& kernels;
  products::Rows gradients;
  std::optional<Finish> finish;
  products::Rows out;
  std::vector<products::Rows> weights;  // the rows that weights were multiplied by
  std::vector<Matrix<float>> weight_gradients;
  std::vector<Aligned<char>> packed;  // weights that rows get gradients by
  std::vector<EitherOut> x_gradients;
  bool columns;  // whether their sums are asked for

  int64_t sides(int64_t values, int64_t side) const { return products::cover(values, side) * side; }

  /// Where the sums of each weight begin, and those of the columns, which come last; then how many there are.
  std::vector<int64_t> starts() const {
    std::vector<int64_t> starts{0};
    const int64_t side = kernels.side, down = sides(gradients.width, side);
    for (const auto& x : weights) starts.push_back(starts.back() + down * sides(x.width, side));
    starts.push_back(starts.back() + (columns ? sides(gradients.width, 2 * side) : 0));
    return starts;
  }

  void run(int64_t width, int threads, std::span<float> column_sums) const {
    const auto at = starts();
    Totals totals(std::max(threads, 1));
    shared_out(gradients.rows, width, threads,
               [&](int64_t worker, int64_t begin, int64_t end) { rows(begin, end, at, totals[worker]); });
    put(totals, at, column_sums);
  }

  /// Writes what all threads summed up.
  void put(const Totals& totals, const std::vector<int64_t>& at, std::span<float> column_sums) const {
    const auto total = [&totals](int64_t i) {
      double sum = 0;
      for (const auto& of_thread : totals) sum += of_thread.empty() ? 0 : of_thread[i];
      return static_cast<float>(sum);
    };
    for (size_t w = 0; w < weights.size(); ++w) {
      const auto& to = weight_gradients[w];
      const int64_t stride = sides(to.width, kernels.side);
      for (int64_t o = 0; o < to.rows; ++o)
        for (int64_t k = 0; k < to.width; ++k) to.row(o)[k] = total(at[w] + o * stride + k);
    }
    for (size_t o = 0; o < column_sums.size(); ++o)
      column_sums[o] = total(at[weights.size()] + static_cast<int64_t>(o));
  }

  void rows(int64_t begin, int64_t end, const std::vector<int64_t>& at, std::vector<double>& totals) const {
    totals.resize(at.back());
    const Aligned<float> sums(at.back());
    products::Gradient part{gradients, {}, 0, columns ? sums.data() + at[weights.size()] : nullptr};
    for (size_t w = 0; w < weights.size(); ++w) part.weights[part.num_weights++] = {weights[w], sums.data() + at[w]};
    const Aligned<char> gradient_room(kernels.gradient_room(part));
    products::Product product{};
    product.terms[0].x = gradients;
    product.num_terms = 1;
    for (const auto& to : x_gradients) product.outputs = std::max(product.outputs, to.width);
    const Aligned<char> product_room(kernels.product_room(product));
    const Aligned<float> unfinished(finish ? BACKWARD_ROWS * gradients.width : 0);
    for (int64_t first = begin; first < end; first += SUMMED_ROWS) {
      std::fill(sums.data(), sums.data() + at.back(), 0.0f);
      for (int64_t row = first; row < std::min(end, first + SUMMED_ROWS); row += BACKWARD_ROWS) {
        const int64_t count = std::min({end, first + SUMMED_ROWS, row + BACKWARD_ROWS}) - row;
        part.gradients = finish ? before_finish(row, count, unfinished.data()) : gradients.from(row);
        for (size_t w = 0; w < weights.size(); ++w) part.weights[w].x = weights[w].from(row);
        if (columns || part.num_weights > 0) kernels.gradient(part, 0, count, gradient_room.data());
        for (size_t t = 0; t < x_gradients.size(); ++t) {
          const auto& to = x_gradients[t];
          product.terms[0] = {part.gradients, packed[t].data()};
          product.outputs = to.width;
          product.out = to.narrow == nullptr ? nullptr : to.narrow + row * to.stride;
          product.wide_out = to.wide == nullptr ? nullptr : to.wide + row * to.stride;
          product.out_stride = to.stride;
          kernels.multiply(product, 0, count, product_room.data());
        }
      }
      for (int64_t i = 0; i < at.back(); ++i) totals[i] += static_cast<double>(sums.data()[i]);
    }
  }

  /// Gradients of rows from one on, of what was finished then; `room` is for as many in float32.
  products::Rows before_finish(int64_t row, int64_t count, float* room) const {
    const int64_t width = gradients.width;
    if (gradients.narrow == nullptr) {
      unfinish_rows(*finish, out.wide, out.stride, gradients.wide, gradients.stride, row, count, width, room);
      return {nullptr, room, count, width, width};
    }
    auto* narrow = reinterpret_cast<BFloat16*>(room);
    unfinish_rows(*finish, out.narrow, out.stride, gradients.narrow, gradients.stride, row, count, width, narrow);
    return {narrow, nullptr, count, width, width};
  }
};

void check_kind(Products by, bool narrow) {
  require(by == Products::bfloat16 || !narrow, "products in float32 are of rows in float32");
}

/// Before threads begin, where nothing may be thrown.
void check_finish(const std::optional<Finish>& finish) {
  if (!finish) return;
  require(finish->activation != Activation::elu, "ELU is no part of a product's pass");
  require(finish->drop >= 0 && finish->drop <= 1, "the share that is dropped must be between 0 and 1");
}

}  // namespace

bool has_tiles() {
  static const bool there = asked_for_tiles();
  return there;
}

bool has_wide_products() { return chosen().lanes > 8; }

void multiply(Products by, const std::vector<LayerTerm>& terms, std::span<const float> bias,
              const std::optional<Finish>& finish, const EitherOut& out, int threads) {
  const auto& kernels = kernels_of(by);
  require(!terms.empty() && terms.size() <= products::MOST_TERMS, "one or two products are added");
  check_kind(by, out.narrow != nullptr);
  check_finish(finish);
  products::Product product{};
  product.outputs = out.width;
  product.out = out.narrow;
  product.wide_out = out.wide;
  product.out_stride = out.stride;
  require(bias.empty() || static_cast<int64_t>(bias.size()) == product.outputs,
          "there must be a bias for each output");
  product.bias = bias.empty() ? nullptr : bias.data();
  std::vector<Aligned<char>> packed;
  int64_t width = 0;
  for (const auto& [x, weight, transposed] : terms) {
    const int64_t outputs = transposed ? weight.width : weight.rows, inputs = transposed ? weight.rows : weight.width;
    require(outputs == product.outputs && inputs == x.width, "a weight does not have the shape of the product");
    check_kind(by, x.narrow != nullptr);
    packed.push_back(pack(kernels, weight, transposed));
    product.terms[product.num_terms++] = {rows_of(x), packed.back().data()};
    width += inputs;
  }
  require(product.terms[0].x.rows >= out.rows, "out has more rows than the first product");
  if (product.outputs == 0) return;
  if (product.num_terms == 2 && product.terms[1].x.rows > out.rows) product.terms[1].x.rows = out.rows;
  shared_out(out.rows, width, threads, [&](int64_t, int64_t begin, int64_t end) {
    const Aligned<char> room(kernels.product_room(product));
    if (!finish) return kernels.multiply(product, begin, end, room.data());
    for (int64_t row = begin; row < end; row += FINISHED_ROWS) {
      const int64_t stop = std::min(end, row + FINISHED_ROWS);
      kernels.multiply(product, row, stop, room.data());
      if (out.narrow != nullptr) finish_rows(*finish, out.narrow, row, stop - row, out.width, out.stride);
      else finish_rows(*finish, out.wide, row, stop - row, out.width, out.stride);
    }
  });
}

void multiply_backward(Products by, const EitherRows& gradients, const std::optional<Finish>& finish,
                       const EitherRows& out, const std::vector<LayerBack>& terms, std::span<float> column_sums,
                       int threads) {
  const auto& kernels = kernels_of(by);
  require(!terms.empty() && terms.size() <= products::MOST_TERMS, "one or two products were added");
  const products::Rows given = rows_of(gradients), finished = rows_of(out);
  const int64_t outputs = given.width;
  check_kind(by, given.narrow != nullptr);
  check_finish(finish);
  require(!finish || (finished.rows == given.rows && finished.width == outputs &&
                      (finished.narrow == nullptr) == (given.narrow == nullptr)),
          "gradients of what was finished are not shaped as it");
  require(column_sums.empty() || static_cast<int64_t>(column_sums.size()) == outputs,
          "there must be a sum for each output");
  Backward work{kernels, given, finish, finished, {}, {}, {}, {}, !column_sums.empty()};
  int64_t width = 0;
  for (const auto& [x, weight, weight_gradients, x_gradients] : terms) {
    require(given.rows <= x.rows, "there are more gradients than rows");
    check_kind(by, x.narrow != nullptr || x_gradients.narrow != nullptr);
    width += x.width;
    if (weight_gradients.data != nullptr) {
      require(weight_gradients.rows == outputs && weight_gradients.width == x.width,
              "out is not shaped as the weight");
      work.weights.push_back(rows_of(x));
      work.weight_gradients.push_back(weight_gradients);
    }
    if (x_gradients.rows == 0) continue;
    require(weight.rows == outputs && weight.width == x.width && x_gradients.width == x.width &&
                x_gradients.rows == given.rows,
            "a weight does not have the shape of the product");
    work.packed.push_back(pack(kernels, weight, true));
    work.x_gradients.push_back(x_gradients);
  }
  work.run(width, threads, column_sums);
}

namespace {

/// Checks rows that `parts` are to be made of.
template <class Part>
products::Rows rows_of(const PickedRows& x, const std::vector<Part>& parts) {
  require(!parts.empty() && parts.size() <= products::MOST_TERMS, "rows are multiplied by one or two weights");
  check_ids(x);
  products::Rows rows = rows_of(x.table);
  if (!x.ids) return rows;
  rows.rows = static_cast<int64_t>(x.ids->size());
  rows.ids = x.ids->data();
  return rows;
}

/// Adds what each weight gets of rows begin .. end to the totals of a thread; a cache has rows for all of them.
void add_gradients(const std::vector<Backward>& works, int64_t begin, int64_t end, std::vector<Totals>& totals,
                   int64_t worker) {
  const auto& kernels = works[0].kernels;
  std::vector<Aligned<float>> sums;
  std::vector<Aligned<char>> rooms;
  std::vector<products::Gradient> parts;
  for (const auto& work : works) {
    const int64_t count = work.starts().back();
    sums.emplace_back(count);
    std::fill(sums.back().data(), sums.back().data() + count, 0.0f);
    parts.push_back({work.gradients, {{work.weights[0], sums.back().data()}}, 1, nullptr});
    rooms.emplace_back(kernels.gradient_room(parts.back()));
  }
  for (int64_t row = begin; row < end; row += PICKED_ROWS)
    for (size_t w = 0; w < works.size(); ++w)
      if (const int64_t stop = std::min({end, row + PICKED_ROWS, works[w].gradients.rows}); row < stop)
        kernels.gradient(parts[w], row, stop, rooms[w].data());
  for (size_t w = 0; w < works.size(); ++w) {
    auto& total = totals[w][worker];
    total.resize(works[w].starts().back());
    for (size_t i = 0; i < total.size(); ++i) total[i] += static_cast<double>(sums[w].data()[i]);
  }
}

}  // namespace

void project_picked(Products by, const PickedRows& x, const std::vector<NarrowProduct>& given, int threads) {
  const auto& kernels = kernels_of(by);
  const products::Rows rows = rows_of(x, given);
  std::vector<Aligned<char>> packed;
  std::vector<products::Product> products;
  int64_t most = 0;
  for (const auto& [weight, bias, out] : given) {
    require(weight.width == rows.width && out.width == weight.rows && out.rows <= rows.rows,
            "out is not shaped as the product");
    require(bias.empty() || static_cast<int64_t>(bias.size()) == weight.rows, "there must be a bias for each output");
    check_kind(by, rows.narrow != nullptr || out.narrow != nullptr);
    packed.push_back(pack(kernels, weight, false));
    auto& product = products.emplace_back();
    product.terms[product.num_terms++] = {rows, packed.back().data()};
    product.bias = bias.empty() ? nullptr : bias.data();
    product.outputs = out.width;
    product.out = out.narrow;
    product.wide_out = out.wide;
    product.out_stride = out.stride;
    most = std::max(most, out.rows);
  }
  shared_out(most, rows.width, threads, [&](int64_t, int64_t begin, int64_t end) {
    int64_t bytes = 0;
    for (const auto& product : products) bytes = std::max(bytes, kernels.product_room(product));
    const Aligned<char> room(bytes);
    for (int64_t row = begin; row < end; row += PICKED_ROWS)
      for (size_t p = 0; p < products.size(); ++p)
        if (const int64_t stop = std::min({end, row + PICKED_ROWS, given[p].out.rows}); row < stop)
          kernels.multiply(products[p], row, stop, room.data());
  });
}

void picked_gradient(Products by, const PickedRows& x, const std::vector<NarrowGradient>& given, int threads) {
  const auto& kernels = kernels_of(by);
  const products::Rows rows = rows_of(x, given);
  std::vector<Backward> works;
  int64_t most = 0;
  for (const auto& [gradients, out] : given) {
    require(gradients.rows <= rows.rows && out.rows == gradients.width && out.width == rows.width,
            "out is not shaped as the weight");
    check_kind(by, rows.narrow != nullptr || gradients.narrow != nullptr);
    works.push_back({kernels, rows_of(gradients), std::nullopt, {}, {rows}, {out}, {}, {}, false});
    most = std::max(most, gradients.rows);
  }
  std::vector<Totals> totals(works.size(), Totals(std::max(threads, 1)));
  shared_out(most, rows.width, threads, [&](int64_t worker, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += SUMMED_ROWS)
      add_gradients(works, row, std::min(end, row + SUMMED_ROWS), totals, worker);
  });
  for (size_t w = 0; w < works.size(); ++w) works[w].put(totals[w], works[w].starts(), {});
}

}  // namespace gsplit
