// Python's view of norms.hpp, as that of sums in aggregate_bindings.cpp.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <span>

#include "bindings.hpp"
#include "norms.hpp"

namespace nb = nanobind;

namespace gsplit::python {
namespace {

using Column = std::optional<Array<float>>;

Finish finish_of(const FinishValues& given) {
  const auto& [activation, drop, seed] = given;
  return {static_cast<Activation>(activation), drop, seed};
}

Finished finished_of(const FinishValues& finish, const Maybe<const uint8_t>& signs) {
  return {finish_of(finish), matrix_of(signs)};
}

std::span<float> room_in(const std::optional<Writable<float>>& array) {
  return array ? span_of(*array) : std::span<float>();
}

/// What there is for each type of rows.
template <class T>
void bind_rows(nb::module_& m) {
  m.def(
      "normalise",
      [](Values<const T> x, int norm, float eps, Column weight, Column bias, Column mean, const FinishValues& finish,
         Values<T> out, Maybe<uint8_t> signs, Maybe<const T> skip, int threads) {
        const Normaliser by{static_cast<Norm>(norm), eps, span_of(weight), span_of(bias), span_of(mean)};
        const auto from = matrix_of(x), added = matrix_of(skip);
        const auto to = matrix_of(out);
        const auto passed = matrix_of(signs);
        nb::gil_scoped_release unlocked;
        normalise<T>(by, from, finish_of(finish), to, passed, added, threads);
      },
      nb::arg("x").noconvert(), nb::arg("norm"), nb::arg("eps"), nb::arg("weight").noconvert().none(),
      nb::arg("bias").noconvert().none(), nb::arg("mean").noconvert().none(), nb::arg("finish"),
      nb::arg("out").noconvert(), nb::arg("signs").noconvert().none() = nb::none(),
      nb::arg("skip").noconvert().none() = nb::none(), nb::arg("threads") = 1);
  m.def(
      "normalise_backward",
      [](Values<const T> x, int norm, float eps, Column weight, const FinishValues& finish,
         Maybe<const uint8_t> signs, Values<const T> gradients, Values<T> x_gradients,
         std::optional<Writable<float>> weight_gradients, std::optional<Writable<float>> bias_gradients,
         int threads) {
        const Normaliser by{static_cast<Norm>(norm), eps, span_of(weight), {}, {}};
        const auto from = matrix_of(x), of_out = matrix_of(gradients);
        const auto to = matrix_of(x_gradients);
        const auto finished = finished_of(finish, signs);
        nb::gil_scoped_release unlocked;
        normalise_backward<T>(by, from, finished, of_out, to, room_in(weight_gradients), room_in(bias_gradients),
                              threads);
      },
      nb::arg("x").noconvert(), nb::arg("norm"), nb::arg("eps"), nb::arg("weight").noconvert().none(),
      nb::arg("finish"), nb::arg("signs").noconvert().none(), nb::arg("gradients").noconvert(),
      nb::arg("x_gradients").noconvert(), nb::arg("weight_gradients").noconvert().none(),
      nb::arg("bias_gradients").noconvert().none(), nb::arg("threads") = 1);
  m.def(
      "batch_sums",
      [](Values<const T> x, Column mean, Writable<float> out, int threads) {
        const auto from = matrix_of(x);
        nb::gil_scoped_release unlocked;
        batch_sums<T>(from, span_of(mean), span_of(out), threads);
      },
      nb::arg("x").noconvert(), nb::arg("mean").noconvert().none(), nb::arg("out").noconvert(),
      nb::arg("threads") = 1);
  m.def(
      "batch_backward_sums",
      [](Values<const T> x, Array<float> mean, const FinishValues& finish, Maybe<const uint8_t> signs,
         Values<const T> gradients, Writable<float> products, Writable<float> sums, int threads) {
        const auto from = matrix_of(x), of_out = matrix_of(gradients);
        const auto finished = finished_of(finish, signs);
        nb::gil_scoped_release unlocked;
        batch_backward_sums<T>(from, span_of(mean), finished, of_out, span_of(products), span_of(sums), threads);
      },
      nb::arg("x").noconvert(), nb::arg("mean").noconvert(), nb::arg("finish"), nb::arg("signs").noconvert().none(),
      nb::arg("gradients").noconvert(), nb::arg("products").noconvert(), nb::arg("sums").noconvert(),
      nb::arg("threads") = 1);
  m.def(
      "batch_backward",
      [](Values<const T> x, Array<float> weight, Array<float> mean, const FinishValues& finish,
         Maybe<const uint8_t> signs, Values<const T> gradients, Array<float> shift, Array<float> slope,
         Values<T> x_gradients, int threads) {
        const Normaliser by{Norm::batch, 0, span_of(weight), {}, span_of(mean)};
        const auto from = matrix_of(x), of_out = matrix_of(gradients);
        const auto to = matrix_of(x_gradients);
        const auto finished = finished_of(finish, signs);
        nb::gil_scoped_release unlocked;
        batch_backward<T>(by, from, finished, of_out, span_of(shift), span_of(slope), to, threads);
      },
      nb::arg("x").noconvert(), nb::arg("weight").noconvert(), nb::arg("mean").noconvert(), nb::arg("finish"),
      nb::arg("signs").noconvert().none(), nb::arg("gradients").noconvert(), nb::arg("shift").noconvert(),
      nb::arg("slope").noconvert(), nb::arg("x_gradients").noconvert(), nb::arg("threads") = 1);
}

}  // namespace

void bind_norms(nb::module_& m) {
  bind_rows<float>(m);
  bind_rows<BFloat16>(m);
}

}  // namespace gsplit::python
