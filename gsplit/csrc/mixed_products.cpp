#include "mixed_products.hpp"

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

#ifdef GSPLIT_TILES

namespace {

constexpr int64_t SUMMED_ROWS = 2048;  // over which the sums of a gradient stay in float32
constexpr size_t LINE = 64;

bool asked_for_tiles() {
  constexpr unsigned BFLOAT16 = 1u << 22, TILE = 1u << 24;  // in edx of leaf 7
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (edx & BFLOAT16) == 0 || (edx & TILE) == 0) return false;
  if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
    return false;
  constexpr int REQUEST = 0x1023, TILE_DATA = 18;  // ARCH_REQ_XCOMP_PERM; Linux grants their memory to who asks
  return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
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

tiles::Rows rows_of(const EitherRows& x) { return {x.narrow, x.wide, x.rows, x.width, x.stride}; }

void require_tiles() { require(has_tiles(), "this machine has no products in bfloat16"); }

}  // namespace

bool has_tiles() {
  static const bool there = asked_for_tiles();
  return there;
}

void multiply_mixed(const std::vector<MixedTerm>& terms, std::span<const float> bias, const EitherOut& out,
                    int threads) {
  require_tiles();
  require(!terms.empty() && terms.size() <= tiles::MOST_TERMS, "one or two products are added");
  tiles::Product product{};
  product.outputs = out.width;
  product.out = out.narrow;
  product.wide_out = out.wide;
  product.out_stride = out.stride;
  require(bias.empty() || static_cast<int64_t>(bias.size()) == product.outputs,
          "there must be a bias for each output");
  product.bias = bias.empty() ? nullptr : bias.data();
  std::vector<Aligned<BFloat16>> packed;
  int64_t width = 0;
  for (const auto& [x, weight, transposed] : terms) {
    const int64_t outputs = transposed ? weight.width : weight.rows, inputs = transposed ? weight.rows : weight.width;
    const tiles::Rows given = rows_of(x);
    require(outputs == product.outputs && inputs == given.width, "a weight does not have the shape of the product");
    packed.emplace_back(tiles::cover(outputs, tiles::SIDE) * tiles::cover(inputs, tiles::DEPTH) * tiles::SIDE *
                        tiles::DEPTH);
    tiles::pack_weight(weight.data, outputs, inputs, transposed ? 1 : weight.stride, transposed ? weight.stride : 1,
                       packed.back().data());
    product.terms[product.num_terms++] = {given, packed.back().data()};
    width += inputs;
  }
  require(product.terms[0].x.rows >= out.rows, "out has more rows than the first product");
  if (product.outputs == 0) return;
  if (product.num_terms == 2 && product.terms[1].x.rows > out.rows) product.terms[1].x.rows = out.rows;
  shared_out(out.rows, width, threads, [&product](int64_t, int64_t begin, int64_t end) {
    const Aligned<char> room(tiles::room_bytes(product));
    tiles::multiply(product, begin, end, room.data());
  });
}

void mixed_gradient(const EitherRows& gradients, const EitherRows& x, Matrix<float> out, std::span<float> column_sums,
                    int threads) {
  require_tiles();
  tiles::Gradient task{rows_of(gradients), rows_of(x), nullptr, nullptr};
  const int64_t rows = task.gradients.rows, outputs = task.gradients.width, width = task.x.width;
  require(rows <= task.x.rows, "there are more gradients than rows");
  require(out.rows == outputs && out.width == width, "out is not shaped as the weight");
  require(column_sums.empty() || static_cast<int64_t>(column_sums.size()) == outputs,
          "there must be a sum for each output");
  const int64_t stride = tiles::cover(width, tiles::SIDE) * tiles::SIDE;
  const int64_t count = tiles::cover(outputs, tiles::SIDE) * tiles::SIDE * stride;
  const int64_t all = count + (column_sums.empty() ? 0 : tiles::cover(outputs, tiles::DEPTH) * tiles::DEPTH);
  std::vector<std::vector<double>> totals(std::max(threads, 1));  // of each thread
  shared_out(rows, width, threads, [&](int64_t worker, int64_t begin, int64_t end) {
    const Aligned<float> sums(all);
    const Aligned<char> room(tiles::room_bytes(task));
    auto part = task;
    part.sums = sums.data();
    part.column_sums = column_sums.empty() ? nullptr : sums.data() + count;
    totals[worker].resize(all);
    for (int64_t first = begin; first < end; first += SUMMED_ROWS) {
      std::fill(part.sums, part.sums + all, 0.0f);
      tiles::gradient(part, first, std::min(end, first + SUMMED_ROWS), room.data());
      for (int64_t i = 0; i < all; ++i) totals[worker][i] += static_cast<double>(part.sums[i]);
    }
  });
  const auto total = [&totals](int64_t at) {
    double sum = 0;
    for (const auto& of_thread : totals) sum += of_thread.empty() ? 0 : of_thread[at];
    return static_cast<float>(sum);
  };
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t k = 0; k < width; ++k) out.row(o)[k] = total(o * stride + k);
  for (size_t o = 0; o < column_sums.size(); ++o) column_sums[o] = total(count + static_cast<int64_t>(o));
}

#else

bool has_tiles() { return false; }

void multiply_mixed(const std::vector<MixedTerm>&, std::span<const float>, const EitherOut&, int) {
  require(false, "this machine has no products in bfloat16");
}

void mixed_gradient(const EitherRows&, const EitherRows&, Matrix<float>, std::span<float>, int) {
  require(false, "this machine has no products in bfloat16");
}

#endif

}  // namespace gsplit
