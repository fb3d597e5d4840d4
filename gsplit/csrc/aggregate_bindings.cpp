// Python's view of aggregate.hpp: matrices of NumPy or torch become pointers and strides, and the GIL is released.
// No array is converted: what is written would be a copy that nobody sees.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <span>

#include "aggregate.hpp"
#include "bindings.hpp"
#include "layer_products.hpp"

namespace nb = nanobind;

namespace gsplit::python {
namespace {

RowEdges edges_of(const Array<int32_t>& indptr, const Array<int32_t>& indices,
                  const std::optional<Array<int32_t>>& order = {}) {
  return {span_of(indptr), span_of(indices), span_of(order)};
}

/// Values in bfloat16 or in float32.
template <class Narrow, class Wide>
using EitherValues = std::variant<Values<Narrow>, Values<Wide>>;
using RowValues = EitherValues<const BFloat16, const float>;
using OutValues = EitherValues<BFloat16, float>;

/// Weight, bias and result of a product.
using ProductArrays = std::tuple<Values<const float>, std::optional<Array<float>>, OutValues>;
/// indptr, indices and order of a part of edges.
using SplitArrays = std::tuple<Writable<int32_t>, Writable<int32_t>, std::optional<Writable<int32_t>>>;
/// Gradients of a product's result, and what its weight gets.
using GradientArrays = std::tuple<RowValues, Values<float>>;
/// Rows, a weight, and whether that is transposed.
using TermArrays = std::tuple<RowValues, Values<const float>, bool>;
/// Rows, a weight, and room for the gradients of both.
using BackArrays = std::tuple<RowValues, Maybe<const float>, Maybe<float>, std::optional<OutValues>>;

using python::matrix_of;

template <class Narrow, class Wide>
Either<Narrow, Wide> matrix_of(const EitherValues<Narrow, Wide>& array) {
  if (const auto* narrow = std::get_if<Values<Narrow>>(&array)) return matrix_of(*narrow);
  return matrix_of(std::get<Values<Wide>>(array));
}

std::optional<Finish> finish_of(const std::optional<FinishValues>& given) {
  if (!given) return std::nullopt;
  const auto& [activation, drop, seed] = *given;
  return Finish{static_cast<Activation>(activation), drop, seed};
}

Products products_named(const std::string& name) {
  if (name == "bfloat16") return Products::bfloat16;
  if (name == "float32") return Products::float32;
  throw std::invalid_argument("products are narrow, bfloat16 or float32, not " + name);
}

PickedRows picked(const RowValues& x, const std::optional<Array<int64_t>>& ids) {
  return {matrix_of(x), ids ? std::optional{span_of(*ids)} : std::nullopt};
}

template <class T, class Start, class Out>
void bind_sum(nb::module_& m) {
  m.def(
      "sum_rows",
      [](Array<int32_t> indptr, Array<int32_t> indices, Values<const T> own, Maybe<const T> received, Values<Out> out,
         Maybe<const Start> start, std::optional<Array<Computed<T>>> factor, Maybe<const Computed<T>> weight,
         std::optional<Array<int32_t>> order, std::optional<Array<int32_t>> degrees,
         std::optional<Array<Computed<T>>> scale, std::optional<Array<Computed<T>>> start_scale, int threads) {
        const Sources<T> sources{matrix_of(own), matrix_of(received)};
        const Scaling<T> scaling{span_of(factor), matrix_of(weight), span_of(degrees), span_of(scale),
                                 span_of(start_scale)};
        const auto from = matrix_of(start);
        const auto to = matrix_of(out);
        nb::gil_scoped_release unlocked;
        sum_rows(edges_of(indptr, indices, order), sources, scaling, from, to, threads);
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("own").noconvert(),
      nb::arg("received").noconvert().none(), nb::arg("out").noconvert(),
      nb::arg("start").noconvert().none() = nb::none(), nb::arg("factor").noconvert().none() = nb::none(),
      nb::arg("weight").noconvert().none() = nb::none(), nb::arg("order").noconvert().none() = nb::none(),
      nb::arg("degrees").noconvert().none() = nb::none(), nb::arg("scale").noconvert().none() = nb::none(),
      nb::arg("start_scale").noconvert().none() = nb::none(), nb::arg("threads") = 1);
}

/// What there is for each type of rows.
template <class T>
void bind_rows(nb::module_& m) {
  m.def(
      "dot_rows",
      [](Array<int32_t> indptr, Array<int32_t> indices, Values<const T> own, Maybe<const T> received,
         Values<const T> left, Values<Computed<T>> out, int threads) {
        const Sources<T> sources{matrix_of(own), matrix_of(received)};
        const auto of_rows = matrix_of(left);
        const auto to = matrix_of(out);
        nb::gil_scoped_release unlocked;
        dot_rows<T>(edges_of(indptr, indices), sources, of_rows, to, threads);
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("own").noconvert(),
      nb::arg("received").noconvert().none(), nb::arg("left").noconvert(), nb::arg("out").noconvert(),
      nb::arg("threads") = 1);
  m.def(
      "activate",
      [](Values<const T> x, int activation, Computed<T> drop, uint64_t seed, Values<T> out,
         std::optional<Array<Computed<T>>> bias, int threads) {
        const auto from = matrix_of(x);
        const auto to = matrix_of(out);
        nb::gil_scoped_release unlocked;
        activate<T>(from, span_of(bias), static_cast<Activation>(activation), drop, seed, to, threads);
      },
      nb::arg("x").noconvert(), nb::arg("activation"), nb::arg("drop"), nb::arg("seed"), nb::arg("out").noconvert(),
      nb::arg("bias").noconvert().none() = nb::none(), nb::arg("threads") = 1);
  m.def(
      "activate_backward",
      [](Values<const T> out, int activation, Computed<T> drop, uint64_t seed, Values<const T> gradients,
         Values<T> x_gradients, std::optional<Writable<Computed<T>>> bias_gradients, int threads) {
        const auto given = matrix_of(out), of_out = matrix_of(gradients);
        const auto to = matrix_of(x_gradients);
        nb::gil_scoped_release unlocked;
        const auto of_bias = bias_gradients ? span_of(*bias_gradients) : std::span<Computed<T>>();
        activate_backward<T>(given, static_cast<Activation>(activation), drop, seed, of_out, to, of_bias, threads);
      },
      nb::arg("out").noconvert(), nb::arg("activation"), nb::arg("drop"), nb::arg("seed"),
      nb::arg("gradients").noconvert(), nb::arg("x_gradients").noconvert(),
      nb::arg("bias_gradients").noconvert().none() = nb::none(), nb::arg("threads") = 1);
  m.def(
      "pack_signs",
      [](Values<const T> x, Values<uint8_t> signs, int threads) {
        const auto from = matrix_of(x);
        const auto to = matrix_of(signs);
        nb::gil_scoped_release unlocked;
        pack_signs<T>(from, to, threads);
      },
      nb::arg("x").noconvert(), nb::arg("signs").noconvert(), nb::arg("threads") = 1);
  m.def(
      "relu_backward",
      [](Values<const uint8_t> signs, Computed<T> drop, Values<const T> gradients, Values<T> x_gradients,
         std::optional<Writable<Computed<T>>> bias_gradients, int threads) {
        const auto given = matrix_of(signs);
        const auto of_out = matrix_of(gradients);
        const auto to = matrix_of(x_gradients);
        nb::gil_scoped_release unlocked;
        const auto of_bias = bias_gradients ? span_of(*bias_gradients) : std::span<Computed<T>>();
        relu_backward<T>(given, drop, of_out, to, of_bias, threads);
      },
      nb::arg("signs").noconvert(), nb::arg("drop"), nb::arg("gradients").noconvert(),
      nb::arg("x_gradients").noconvert(), nb::arg("bias_gradients").noconvert().none() = nb::none(),
      nb::arg("threads") = 1);
}

/// What there is for each type of rows and of their gradients.
template <class T>
void bind_added(nb::module_& m) {
  m.def(
      "add_rows",
      [](Values<T> out, Array<int32_t> rows, Values<const T> values) {
        const auto to = matrix_of(out);
        const auto from = matrix_of(values);
        nb::gil_scoped_release unlocked;
        add_rows<T>(to, span_of(rows), from);
      },
      nb::arg("out").noconvert(), nb::arg("rows").noconvert(), nb::arg("values").noconvert());
}

/// What there is for each type that is computed in.
template <class T>
void bind_values(nb::module_& m) {
  m.def(
      "attention_scores",
      [](Array<int32_t> indptr, Array<int32_t> indices, Values<const T> source, Values<const T> destination, T slope,
         Values<T> out, Maybe<T> own_out, Maybe<T> highest_out, int threads) {
        const auto from = matrix_of(source), to = matrix_of(destination);
        const auto scores = matrix_of(out), own_scores = matrix_of(own_out), highest = matrix_of(highest_out);
        nb::gil_scoped_release unlocked;
        attention_scores<T>(edges_of(indptr, indices), from, to, slope, scores, own_scores, highest, threads);
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("source").noconvert(),
      nb::arg("destination").noconvert(), nb::arg("slope"), nb::arg("out").noconvert(),
      nb::arg("own_out").noconvert().none(), nb::arg("highest_out").noconvert().none() = nb::none(),
      nb::arg("threads") = 1);
  m.def(
      "attention_shares",
      [](Array<int32_t> indptr, Array<int32_t> indices, Values<T> powers, Maybe<T> own_powers, int threads) {
        const auto of_edges = matrix_of(powers), own = matrix_of(own_powers);
        nb::gil_scoped_release unlocked;
        attention_shares<T>(edges_of(indptr, indices), of_edges, own, threads);
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("powers").noconvert(),
      nb::arg("own_powers").noconvert().none(), nb::arg("threads") = 1);
  m.def(
      "attention_backward",
      [](Array<int32_t> indptr, Array<int32_t> indices, Values<const T> source, Values<const T> destination, T slope,
         Values<const T> shares, Maybe<const T> own_shares, Values<T> gradients, Maybe<T> own_gradients,
         Values<T> destination_gradients, Maybe<const T> sums, int threads) {
        const auto from = matrix_of(source), to = matrix_of(destination);
        const auto given = matrix_of(shares), own_given = matrix_of(own_shares);
        const auto changed = matrix_of(gradients), own_changed = matrix_of(own_gradients);
        const auto of_destinations = matrix_of(destination_gradients);
        const auto of_rows = matrix_of(sums);
        nb::gil_scoped_release unlocked;
        attention_backward<T>(edges_of(indptr, indices), from, to, slope, given, own_given, changed, own_changed,
                              of_destinations, of_rows, threads);
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("source").noconvert(),
      nb::arg("destination").noconvert(), nb::arg("slope"), nb::arg("shares").noconvert(),
      nb::arg("own_shares").noconvert().none(), nb::arg("gradients").noconvert(),
      nb::arg("own_gradients").noconvert().none(), nb::arg("destination_gradients").noconvert(),
      nb::arg("sums").noconvert().none() = nb::none(), nb::arg("threads") = 1);
}

}  // namespace

void bind_aggregate(nb::module_& m) {
  bind_sum<float, float, float>(m);
  bind_sum<double, double, double>(m);
  bind_sum<BFloat16, BFloat16, BFloat16>(m);
  bind_sum<BFloat16, float, BFloat16>(m);
  bind_sum<BFloat16, BFloat16, float>(m);
  bind_sum<BFloat16, float, float>(m);
  bind_rows<float>(m);
  bind_rows<double>(m);
  bind_rows<BFloat16>(m);
  bind_added<float>(m);
  bind_added<double>(m);
  bind_added<BFloat16>(m);
  bind_values<float>(m);
  bind_values<double>(m);
  m.def("narrow_fits", &narrow_fits, nb::arg("outputs"), nb::arg("width"));
  m.def(
      "project_rows",
      [](RowValues x, std::optional<Array<int64_t>> ids, const std::vector<ProductArrays>& products, std::string by,
         int threads) {
        std::vector<NarrowProduct> wanted;
        for (const auto& [weight, bias, out] : products)
          wanted.push_back({matrix_of(weight), span_of(bias), matrix_of(out)});
        const auto rows = picked(x, ids);
        nb::gil_scoped_release unlocked;
        if (by == "narrow") project_narrow(rows, wanted, threads);
        else project_picked(products_named(by), rows, wanted, threads);
      },
      nb::arg("x").noconvert(), nb::arg("ids").noconvert().none(), nb::arg("products").noconvert(), nb::kw_only(),
      nb::arg("by"), nb::arg("threads") = 1);
  m.def(
      "rows_gradient",
      [](RowValues x, std::optional<Array<int64_t>> ids, const std::vector<GradientArrays>& gradients, std::string by,
         int threads) {
        std::vector<NarrowGradient> wanted;
        for (const auto& [given, out] : gradients) wanted.push_back({matrix_of(given), matrix_of(out)});
        const auto rows = picked(x, ids);
        nb::gil_scoped_release unlocked;
        if (by == "narrow") narrow_gradient(rows, wanted, threads);
        else picked_gradient(products_named(by), rows, wanted, threads);
      },
      nb::arg("x").noconvert(), nb::arg("ids").noconvert().none(), nb::arg("gradients").noconvert(), nb::kw_only(),
      nb::arg("by"), nb::arg("threads") = 1);
  m.def("has_tiles", &has_tiles);
  m.def("has_wide_products", &has_wide_products);
  m.def(
      "multiply",
      [](const std::vector<TermArrays>& terms, std::optional<Array<float>> bias, OutValues out,
         std::optional<FinishValues> finish, const std::string& by, int threads) {
        std::vector<LayerTerm> wanted;
        for (const auto& [x, weight, transposed] : terms)
          wanted.push_back({matrix_of(x), matrix_of(weight), transposed});
        const auto to = matrix_of(out);
        const auto behind = finish_of(finish);
        nb::gil_scoped_release unlocked;
        multiply(products_named(by), wanted, span_of(bias), behind, to, threads);
      },
      nb::arg("terms").noconvert(), nb::arg("bias").noconvert().none(), nb::arg("out").noconvert(),
      nb::arg("finish").none() = nb::none(), nb::kw_only(), nb::arg("by"), nb::arg("threads") = 1);
  m.def(
      "multiply_backward",
      [](RowValues gradients, const std::vector<BackArrays>& terms, std::optional<Writable<float>> column_sums,
         std::optional<FinishValues> finish, std::optional<RowValues> out, const std::string& by, int threads) {
        std::vector<LayerBack> wanted;
        for (const auto& [x, weight, weight_gradients, x_gradients] : terms)
          wanted.push_back({matrix_of(x), matrix_of(weight), matrix_of(weight_gradients),
                            x_gradients ? matrix_of(*x_gradients) : EitherOut(Matrix<float>{})});
        const auto given = matrix_of(gradients);
        const auto finished = out ? matrix_of(*out) : EitherRows(Matrix<const float>{});
        const auto behind = finish_of(finish);
        nb::gil_scoped_release unlocked;
        const auto sums = column_sums ? span_of(*column_sums) : std::span<float>();
        multiply_backward(products_named(by), given, behind, finished, wanted, sums, threads);
      },
      nb::arg("gradients").noconvert(), nb::arg("terms").noconvert(),
      nb::arg("column_sums").noconvert().none() = nb::none(), nb::arg("finish").none() = nb::none(),
      nb::arg("out").noconvert().none() = nb::none(), nb::kw_only(), nb::arg("by"), nb::arg("threads") = 1);
  m.def("instruction_sets", &instruction_sets);
  m.def("use_instruction_set", &use_instruction_set, nb::arg("name"));
  m.def(
      "transpose_edges",
      [](Array<int32_t> indptr, Array<int32_t> indices, Writable<int32_t> out_indptr, Writable<int32_t> out_rows,
         std::optional<Writable<int32_t>> out_order, int threads) {
        nb::gil_scoped_release unlocked;
        transpose_edges(edges_of(indptr, indices), span_of(out_indptr), span_of(out_rows),
                        out_order ? span_of(*out_order) : std::span<int32_t>(), threads);
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("out_indptr").noconvert(),
      nb::arg("out_rows").noconvert(), nb::arg("out_order").noconvert().none() = nb::none(), nb::arg("threads") = 1);
  m.def(
      "split_edges",
      [](Array<int32_t> indptr, Array<int32_t> indices, int64_t num_own, const SplitArrays& own,
         const SplitArrays& received) {
        const auto part_of = [](const SplitArrays& arrays) -> SplitEdges {
          const auto& [starts, sources, order] = arrays;
          return {span_of(starts), span_of(sources), order ? span_of(*order) : std::span<int32_t>()};
        };
        const auto first = part_of(own), second = part_of(received);
        nb::gil_scoped_release unlocked;
        return split_edges(edges_of(indptr, indices), num_own, first, second);
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("num_own"), nb::arg("own").noconvert(),
      nb::arg("received").noconvert());
}

}  // namespace gsplit::python
