// Python's view of aggregate.hpp: matrices of NumPy or torch become pointers and strides, and the GIL is released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "aggregate.hpp"
#include "bindings.hpp"

namespace nb = nanobind;

namespace gsplit::python {
namespace {

template <class T>
using Values = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Maybe = std::optional<Values<T>>;

template <class T>
Matrix<T> matrix_of(const Values<T>& array) {
  const auto rows = static_cast<int64_t>(array.shape(0)), width = static_cast<int64_t>(array.shape(1));
  if (width > 1 && rows > 0 && array.stride(1) != 1) throw nb::value_error("a row must be contiguous");
  return {array.data(), rows, width, rows > 1 ? array.stride(0) : width};
}

template <class T>
Matrix<T> matrix_of(const Maybe<T>& array) {
  return array ? matrix_of(*array) : Matrix<T>{};
}

RowEdges edges_of(const Array<int32_t>& indptr, const Array<int32_t>& indices,
                  const std::optional<Array<int32_t>>& order = {}) {
  return {span_of(indptr), span_of(indices), span_of(order)};
}

template <class T>
void bind_values(nb::module_& m) {
  m.def(
      "sum_rows",
      [](Array<int32_t> indptr, Array<int32_t> indices, Values<const T> own, Maybe<const T> received, Values<T> out,
         Maybe<const T> start, std::optional<Array<T>> factor, Maybe<const T> weight,
         std::optional<Array<int32_t>> order, bool mean, int threads) {
        const Sources<T> sources{matrix_of(own), matrix_of(received)};
        const Scaling<T> scaling{span_of(factor), matrix_of(weight), mean};
        const auto from = matrix_of(start);
        const auto to = matrix_of(out);
        nb::gil_scoped_release unlocked;
        sum_rows<T>(edges_of(indptr, indices, order), sources, scaling, from, to, threads);
      },
      nb::arg("indptr"), nb::arg("indices"), nb::arg("own"), nb::arg("received").none(), nb::arg("out"),
      nb::arg("start").none() = nb::none(), nb::arg("factor").none() = nb::none(),
      nb::arg("weight").none() = nb::none(), nb::arg("order").none() = nb::none(), nb::arg("mean") = false,
      nb::arg("threads") = 1);
  m.def(
      "add_rows",
      [](Values<T> out, Array<int32_t> rows, Values<const T> values) {
        const auto to = matrix_of(out);
        const auto from = matrix_of(values);
        nb::gil_scoped_release unlocked;
        add_rows<T>(to, span_of(rows), from);
      },
      nb::arg("out"), nb::arg("rows"), nb::arg("values"));
  m.def(
      "dot_rows",
      [](Array<int32_t> indptr, Array<int32_t> indices, Values<const T> own, Maybe<const T> received,
         Values<const T> left, Values<T> out, int threads) {
        const Sources<T> sources{matrix_of(own), matrix_of(received)};
        const auto of_rows = matrix_of(left);
        const auto to = matrix_of(out);
        nb::gil_scoped_release unlocked;
        dot_rows<T>(edges_of(indptr, indices), sources, of_rows, to, threads);
      },
      nb::arg("indptr"), nb::arg("indices"), nb::arg("own"), nb::arg("received").none(), nb::arg("left"),
      nb::arg("out"), nb::arg("threads") = 1);
  m.def(
      "activate",
      [](Values<const T> x, int activation, T drop, uint64_t seed, Values<T> out, int threads) {
        const auto from = matrix_of(x);
        const auto to = matrix_of(out);
        nb::gil_scoped_release unlocked;
        activate<T>(from, static_cast<Activation>(activation), drop, seed, to, threads);
      },
      nb::arg("x"), nb::arg("activation"), nb::arg("drop"), nb::arg("seed"), nb::arg("out"), nb::arg("threads") = 1);
  m.def(
      "activate_backward",
      [](Values<const T> out, int activation, T drop, uint64_t seed, Values<const T> gradients, Values<T> x_gradients,
         int threads) {
        const auto given = matrix_of(out), of_out = matrix_of(gradients);
        const auto to = matrix_of(x_gradients);
        nb::gil_scoped_release unlocked;
        activate_backward<T>(given, static_cast<Activation>(activation), drop, seed, of_out, to, threads);
      },
      nb::arg("out"), nb::arg("activation"), nb::arg("drop"), nb::arg("seed"), nb::arg("gradients"),
      nb::arg("x_gradients"), nb::arg("threads") = 1);
  m.def(
      "attention_scores",
      [](Array<int32_t> indptr, Array<int32_t> indices, Values<const T> source, Values<const T> destination, T slope,
         Values<T> out, Maybe<T> own_out) {
        const auto from = matrix_of(source), to = matrix_of(destination);
        const auto scores = matrix_of(out), own_scores = matrix_of(own_out);
        nb::gil_scoped_release unlocked;
        attention_scores<T>(edges_of(indptr, indices), from, to, slope, scores, own_scores);
      },
      nb::arg("indptr"), nb::arg("indices"), nb::arg("source"), nb::arg("destination"), nb::arg("slope"),
      nb::arg("out"), nb::arg("own_out").none());
  m.def(
      "attention_shares",
      [](Array<int32_t> indptr, Array<int32_t> indices, Values<T> powers, Maybe<T> own_powers) {
        const auto of_edges = matrix_of(powers), own = matrix_of(own_powers);
        nb::gil_scoped_release unlocked;
        attention_shares<T>(edges_of(indptr, indices), of_edges, own);
      },
      nb::arg("indptr"), nb::arg("indices"), nb::arg("powers"), nb::arg("own_powers").none());
  m.def(
      "attention_backward",
      [](Array<int32_t> indptr, Array<int32_t> indices, Values<const T> source, Values<const T> destination, T slope,
         Values<const T> shares, Maybe<const T> own_shares, Values<T> gradients, Maybe<T> own_gradients,
         Values<T> destination_gradients) {
        const auto from = matrix_of(source), to = matrix_of(destination);
        const auto given = matrix_of(shares), own_given = matrix_of(own_shares);
        const auto changed = matrix_of(gradients), own_changed = matrix_of(own_gradients);
        const auto of_destinations = matrix_of(destination_gradients);
        nb::gil_scoped_release unlocked;
        attention_backward<T>(edges_of(indptr, indices), from, to, slope, given, own_given, changed, own_changed,
                              of_destinations);
      },
      nb::arg("indptr"), nb::arg("indices"), nb::arg("source"), nb::arg("destination"), nb::arg("slope"),
      nb::arg("shares"), nb::arg("own_shares").none(), nb::arg("gradients"), nb::arg("own_gradients").none(),
      nb::arg("destination_gradients"));
}

}  // namespace

void bind_aggregate(nb::module_& m) {
  bind_values<float>(m);
  bind_values<double>(m);
  m.def("narrow_fits", &narrow_fits, nb::arg("outputs"), nb::arg("width"));
  m.def(
      "project_narrow",
      [](Values<const float> x, Values<const float> weight, std::optional<Array<float>> bias, Values<float> out,
         int threads) {
        const auto rows = matrix_of(x), weights = matrix_of(weight);
        const auto to = matrix_of(out);
        nb::gil_scoped_release unlocked;
        project_narrow(rows, weights, span_of(bias), to, threads);
      },
      nb::arg("x"), nb::arg("weight"), nb::arg("bias").none(), nb::arg("out"), nb::arg("threads") = 1);
  m.def(
      "narrow_gradient",
      [](Values<const float> gradients, Values<const float> x, Values<float> out, int threads) {
        const auto given = matrix_of(gradients), rows = matrix_of(x);
        const auto to = matrix_of(out);
        nb::gil_scoped_release unlocked;
        narrow_gradient(given, rows, to, threads);
      },
      nb::arg("gradients"), nb::arg("x"), nb::arg("out"), nb::arg("threads") = 1);
  m.def("instruction_sets", &instruction_sets);
  m.def("use_instruction_set", &use_instruction_set, nb::arg("name"));
  m.def(
      "transpose_edges",
      [](Array<int32_t> indptr, Array<int32_t> indices, Writable<int32_t> out_indptr, Writable<int32_t> out_rows,
         std::optional<Writable<int32_t>> out_order) {
        nb::gil_scoped_release unlocked;
        transpose_edges(edges_of(indptr, indices), span_of(out_indptr), span_of(out_rows),
                        out_order ? span_of(*out_order) : std::span<int32_t>());
      },
      nb::arg("indptr"), nb::arg("indices"), nb::arg("out_indptr"), nb::arg("out_rows"),
      nb::arg("out_order").none() = nb::none());
}

}  // namespace gsplit::python
