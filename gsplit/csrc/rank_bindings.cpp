// Python's view of ranks.hpp: arrays of NumPy become spans, and the GIL is released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings.hpp"
#include "ranks.hpp"

namespace nb = nanobind;

namespace gsplit::python {
namespace {

template <class T>
using Table = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
Matrix<T> table_of(const Table<T>& array) {
  const auto width = static_cast<int64_t>(array.shape(1));
  return {array.data(), static_cast<int64_t>(array.shape(0)), width, width};
}

SharedRows shared_of(const std::optional<Array<int64_t>>& rows) {
  return rows ? SharedRows(span_of(*rows)) : std::nullopt;
}

template <class T>
void bind_scores(nb::module_& m) {
  m.def(
      "score_pairs",
      [](Table<const T> sources, Table<const T> table, Array<int64_t> rows, Writable<T> out, int threads) {
        const Scored<T> scored{table_of(sources), table_of(table)};
        nb::gil_scoped_release unlocked;
        score_pairs<T>(scored, span_of(rows), span_of(out), threads);
      },
      nb::arg("sources").noconvert(), nb::arg("table").noconvert(), nb::arg("rows").noconvert(),
      nb::arg("out").noconvert(), nb::arg("threads"));
  m.def(
      "count_shared",
      [](Table<const T> sources, Table<const T> table, Array<T> bounds, std::optional<Array<int64_t>> candidates,
         Writable<int64_t> above, Writable<int64_t> equal, int threads) {
        const Scored<T> scored{table_of(sources), table_of(table)};
        nb::gil_scoped_release unlocked;
        count_shared<T>(scored, span_of(bounds), shared_of(candidates), {span_of(above), span_of(equal)}, threads);
      },
      nb::arg("sources").noconvert(), nb::arg("table").noconvert(), nb::arg("bounds").noconvert(),
      nb::arg("candidates").noconvert().none(), nb::arg("above").noconvert(), nb::arg("equal").noconvert(),
      nb::arg("threads"));
  m.def(
      "count_listed",
      [](Table<const T> sources, Table<const T> table, Array<T> bounds, Array<int64_t> indptr, Array<int64_t> rows,
         int64_t sign, Writable<int64_t> above, Writable<int64_t> equal, int threads) {
        const Scored<T> scored{table_of(sources), table_of(table)};
        nb::gil_scoped_release unlocked;
        count_listed<T>(scored, span_of(bounds), {span_of(indptr), span_of(rows)}, sign,
                        {span_of(above), span_of(equal)}, threads);
      },
      nb::arg("sources").noconvert(), nb::arg("table").noconvert(), nb::arg("bounds").noconvert(),
      nb::arg("indptr").noconvert(), nb::arg("rows").noconvert(), nb::arg("sign"), nb::arg("above").noconvert(),
      nb::arg("equal").noconvert(), nb::arg("threads"));
  m.def(
      "best_rows",
      [](Table<const T> sources, Table<const T> table, std::optional<Array<int64_t>> candidates, Array<int64_t> order,
         Array<int64_t> indptr, Array<int64_t> left_out, Table<int64_t> best, Table<T> scores, int threads) {
        const Scored<T> scored{table_of(sources), table_of(table)};
        nb::gil_scoped_release unlocked;
        best_rows<T>(scored, shared_of(candidates), span_of(order), {span_of(indptr), span_of(left_out)},
                     table_of(best), table_of(scores), threads);
      },
      nb::arg("sources").noconvert(), nb::arg("table").noconvert(), nb::arg("candidates").noconvert().none(),
      nb::arg("order").noconvert(), nb::arg("indptr").noconvert(), nb::arg("left_out").noconvert(),
      nb::arg("best").noconvert(), nb::arg("scores").noconvert(), nb::arg("threads"));
}

}  // namespace

void bind_ranks(nb::module_& m) {
  bind_scores<float>(m);
  bind_scores<double>(m);
  m.def(
      "draw_candidates",
      [](Array<uint64_t> keys, Array<int64_t> numbers, Array<int64_t> vertices, Array<int64_t> indptr,
         Array<int64_t> left_out, Table<int64_t> out, int threads) {
        nb::gil_scoped_release unlocked;
        draw_candidates(span_of(keys), span_of(numbers), span_of(vertices), {span_of(indptr), span_of(left_out)},
                        table_of(out), threads);
      },
      nb::arg("keys").noconvert(), nb::arg("numbers").noconvert(), nb::arg("vertices").noconvert(),
      nb::arg("indptr").noconvert(), nb::arg("left_out").noconvert(), nb::arg("out").noconvert(), nb::arg("threads"));
}

}  // namespace gsplit::python
