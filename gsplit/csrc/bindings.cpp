// Python's view of the core. Nothing is computed here: arrays become spans, the GIL is released, C++ does the
// work, and vectors that C++ made become NumPy arrays that own them.
#include "bindings.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "board.hpp"
#include "components.hpp"
#include "gather.hpp"
#include "graph.hpp"
#include "mail.hpp"
#include "shuffle.hpp"
#include "signals.hpp"
#include "stream.hpp"
#include "symmetric.hpp"

namespace nb = nanobind;

namespace {

using gsplit::python::Array;
using gsplit::python::span_of;
using gsplit::python::Writable;

template <class T, class Allocator>
nb::ndarray<nb::numpy, T, nb::ndim<1>> to_numpy(std::vector<T, Allocator>&& values) {
  using Values = std::vector<T, Allocator>;
  auto* owned = new Values(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Values*>(p); });
  return nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner);
}

template <class Index>
nb::tuple csc_to_numpy(gsplit::Csc<Index>&& csc) {
  return nb::make_tuple(to_numpy(std::move(csc.indptr)), to_numpy(std::move(csc.indices)));
}

template <class Out, class Index>
nb::tuple symmetrize(Array<int64_t> indptr, Array<Index> indices, std::optional<Array<uint32_t>> weights) {
  gsplit::Symmetric<Out> graph;
  {
    nb::gil_scoped_release unlocked;
    graph = gsplit::symmetrize<Out>(span_of(indptr), span_of(indices),
                                    weights ? span_of(*weights) : std::span<const uint32_t>());
  }
  return nb::make_tuple(to_numpy(std::move(graph.indptr)), to_numpy(std::move(graph.indices)),
                        weights ? nb::cast(to_numpy(std::move(graph.weights))) : nb::none());
}

template <class Index>
void bind_graph(nb::module_& m) {
  m.def(
      "csc_from_edges",
      [](Array<Index> sources, Array<Index> destinations, int64_t n, bool symmetric) {
        gsplit::Csc<Index> csc;
        {
          nb::gil_scoped_release unlocked;
          csc = gsplit::csc_from_edges(span_of(sources), span_of(destinations), n, symmetric);
        }
        return csc_to_numpy(std::move(csc));
      },
      nb::arg("sources"), nb::arg("destinations"), nb::arg("n"), nb::arg("symmetric"));
  m.def("symmetrize_wide", &symmetrize<int64_t, Index>, nb::arg("indptr"), nb::arg("indices"),
        nb::arg("weights").none() = nb::none());
  m.def(
      "count_in_degrees",
      [](Array<Index> pairs, bool reverse, Writable<int64_t> degrees) {
        nb::gil_scoped_release unlocked;
        gsplit::count_in_degrees(span_of(pairs), reverse, std::span<int64_t>(degrees.data(), degrees.size()));
      },
      nb::arg("pairs"), nb::arg("reverse"), nb::arg("degrees"));
  m.def(
      "rows_from_edges",
      [](Array<Index> pairs, std::optional<Array<double>> weights, int64_t own, int64_t old, int64_t first,
         Array<int64_t> degrees, Writable<Index> seen, gsplit::Repeats repeats, bool add_loops) {
        gsplit::Rows<Index> rows;
        {
          nb::gil_scoped_release unlocked;
          std::optional<std::span<const double>> given;
          if (weights) given = span_of(*weights);
          rows = gsplit::rows_from_edges(span_of(pairs), given, own, old, first, span_of(degrees),
                                         std::span<Index>(seen.data(), seen.size()), repeats, add_loops);
        }
        return nb::make_tuple(to_numpy(std::move(rows.degrees)), to_numpy(std::move(rows.indices)),
                              to_numpy(std::move(rows.weights)), to_numpy(std::move(rows.added)), rows.duplicates,
                              rows.loops);
      },
      nb::arg("pairs"), nb::arg("weights").none(), nb::arg("own"), nb::arg("old"), nb::arg("first"),
      nb::arg("degrees"), nb::arg("seen"), nb::arg("repeats"), nb::arg("add_loops"));
  m.def(
      "walk_edges",
      [](Array<int64_t> indptr, Array<Index> indices, int64_t begin, int64_t end, Writable<Index> component,
         Writable<Index> last) {
        gsplit::WalkedEdges walked;
        {
          nb::gil_scoped_release unlocked;
          walked =
              gsplit::walk_edges(span_of(indptr), span_of(indices), begin, end, span_of(component), span_of(last));
        }
        return nb::make_tuple(walked.self_loops, walked.repeated, walked.one_way);
      },
      nb::arg("indptr"), nb::arg("indices"), nb::arg("begin"), nb::arg("end"), nb::arg("component"), nb::arg("last"));
}

template <class Index>
void bind_stream(nb::module_& m) {
  m.def(
      "stream_range",
      [](Array<int64_t> indptr, Array<Index> indices, std::optional<Array<uint32_t>> edge_weight,
         std::optional<Array<int64_t>> vertex_weight, std::optional<Array<int32_t>> target_weight,
         std::optional<Array<uint8_t>> movable, Writable<int32_t> group, Writable<int64_t> load,
         Writable<int64_t> target_load, Writable<int64_t> gain, int64_t limit, int64_t target_limit, bool everywhere,
         int64_t strain, uint64_t seed, int64_t begin, int64_t end) {
        nb::gil_scoped_release unlocked;
        const gsplit::StreamGraph<Index> graph{span_of(indptr),        span_of(indices),       span_of(edge_weight),
                                               span_of(vertex_weight), span_of(target_weight), span_of(movable)};
        return gsplit::stream_range(graph, {span_of(group), span_of(load), span_of(target_load), span_of(gain)},
                                    {limit, target_limit, everywhere, strain, seed}, begin, end);
      },
      nb::arg("indptr"), nb::arg("indices"), nb::arg("edge_weight").none(), nb::arg("vertex_weight").none(),
      nb::arg("target_weight").none(), nb::arg("movable").none(), nb::arg("group"), nb::arg("load"),
      nb::arg("target_load"), nb::arg("gain"), nb::arg("limit"), nb::arg("target_limit"), nb::arg("everywhere"),
      nb::arg("strain"), nb::arg("seed"), nb::arg("begin"), nb::arg("end"));
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of GSplit: sampling, splitting, gathering. Knows no torch.";
  nb::enum_<gsplit::Repeats>(m, "Repeats")
      .value("first", gsplit::Repeats::first)
      .value("sum", gsplit::Repeats::sum)
      .value("mean", gsplit::Repeats::mean)
      .value("max", gsplit::Repeats::max)
      .value("last", gsplit::Repeats::last)
      .value("keep", gsplit::Repeats::keep);
  gsplit::python::bind_samplers(m);
  bind_graph<int32_t>(m);
  bind_graph<int64_t>(m);
  m.def("symmetrize", &symmetrize<int32_t, int32_t>, nb::arg("indptr"), nb::arg("indices"),
        nb::arg("weights").none() = nb::none());
  m.def("symmetrize", &symmetrize<int64_t, int64_t>, nb::arg("indptr"), nb::arg("indices"),
        nb::arg("weights").none() = nb::none());
  bind_stream<int32_t>(m);
  bind_stream<int64_t>(m);
  gsplit::python::bind_aggregate(m);
  gsplit::python::bind_norms(m);
  gsplit::python::bind_ids(m);
  gsplit::python::bind_links(m);
  gsplit::python::bind_covers(m);
  gsplit::python::bind_ranks(m);
  m.def(
      "shuffle_into_runs",
      [](Array<int64_t> global_ids, uint64_t key, Array<int64_t> bounds, Writable<int64_t> order) {
        nb::gil_scoped_release unlocked;
        gsplit::shuffle_into_runs(span_of(global_ids), key, span_of(bounds), span_of(order));
      },
      nb::arg("global_ids"), nb::arg("key"), nb::arg("bounds"), nb::arg("order"));
  nb::class_<gsplit::EndingSignals>(m, "EndingSignals", "While one lives, these signals end the process at once.")
      .def(nb::init<std::vector<int>>(), nb::arg("numbers"));
  m.def(
      "gather_rows",
      [](nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> rows, Array<int64_t> ids,
         nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> out, int threads,
         std::optional<Array<int64_t>> positions) {
        if (out.shape(1) != rows.shape(1)) throw nb::value_error("out must be as wide as the rows");
        if (positions ? positions->size() != ids.size() : out.shape(0) != ids.size())
          throw nb::value_error("there must be one position, or else one row of out, for each id");
        nb::gil_scoped_release unlocked;
        gsplit::gather_rows(rows.data(), static_cast<int64_t>(rows.shape(0)), static_cast<int64_t>(rows.shape(1)),
                            span_of(ids), out.data(), static_cast<int64_t>(out.shape(0)),
                            positions ? span_of(*positions) : std::span<const int64_t>(), threads);
      },
      nb::arg("rows"), nb::arg("ids"), nb::arg("out"), nb::arg("threads"), nb::arg("positions") = nb::none());
  const auto check_found = [](const auto& ids, const auto& rows, const auto& positions) {
    if (rows.size() != ids.size() || positions.size() != ids.size())
      throw nb::value_error("there must be a row and a position for each id");
  };
  m.def(
      "find_rows",
      [check_found](Array<int64_t> ids, nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> ranges,
                    Writable<int64_t> rows, Writable<int64_t> positions, Writable<int64_t> counts) {
        static_assert(sizeof(gsplit::Range) == 4 * sizeof(int64_t));
        if (ranges.shape(1) != 4) throw nb::value_error("a range is begin, end, first and place");
        check_found(ids, rows, positions);
        const std::span every(reinterpret_cast<const gsplit::Range*>(ranges.data()), ranges.shape(0));
        if (!counts.size()) throw nb::value_error("the last place is that of ids in no range");
        int64_t before = std::numeric_limits<int64_t>::min();
        for (const gsplit::Range& range : every) {
          if (range.place < 0 || range.place + 1 >= static_cast<int64_t>(counts.size()))
            throw nb::value_error("the last place is that of ids in no range");
          if (range.begin < before || range.end < range.begin)
            throw nb::value_error("ranges must be sorted, and must not overlap");
          before = range.end;
        }
        nb::gil_scoped_release unlocked;
        gsplit::find_rows(span_of(ids), every, span_of(rows), span_of(positions), span_of(counts));
      },
      nb::arg("ids"), nb::arg("ranges"), nb::arg("rows").noconvert(), nb::arg("positions").noconvert(),
      nb::arg("counts").noconvert());
  m.def(
      "find_rows_by_table",
      [check_found](Array<int64_t> ids, Array<int32_t> table, Writable<int64_t> rows, Writable<int64_t> positions) {
        check_found(ids, rows, positions);
        nb::gil_scoped_release unlocked;
        return gsplit::find_rows(span_of(ids), span_of(table), span_of(rows), span_of(positions));
      },
      nb::arg("ids"), nb::arg("table"), nb::arg("rows").noconvert(), nb::arg("positions").noconvert());
  m.def(
      "post",
      [](nb::ndarray<uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> words, int64_t slot, int64_t own,
         uint64_t note, Array<int64_t> peers) {
        const auto rows = static_cast<int64_t>(words.shape(0)), slots = static_cast<int64_t>(words.shape(1));
        bool inside = slot >= 0 && slot < slots && own >= 0 && own < rows;
        for (const int64_t peer : span_of(peers)) inside &= peer >= 0 && peer < rows;
        if (!inside) throw nb::value_error("the board has no such place");
        return gsplit::post({words.data(), words.size()}, slots, slot, own, note, span_of(peers));
      },
      nb::arg("words"), nb::arg("slot"), nb::arg("own"), nb::arg("note"), nb::arg("peers"));
  using Numbers = nb::ndarray<uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  const auto word = [](const Numbers& numbers, int64_t at) -> uint32_t& {
    if (at < 0 || at >= static_cast<int64_t>(numbers.size())) throw nb::value_error("there is no such number");
    return numbers.data()[at];
  };
  m.def(
      "post_number",
      [word](Numbers numbers, int64_t at, uint64_t number) {
        gsplit::post_number(word(numbers, at), static_cast<uint32_t>(number));
      },
      nb::arg("numbers"), nb::arg("at"), nb::arg("number"));
  m.def(
      "wait_for_number",
      [word](Numbers numbers, int64_t at, uint64_t number, double seconds) {
        uint32_t& shared = word(numbers, at);
        nb::gil_scoped_release unlocked;
        return gsplit::wait_for_number(shared, static_cast<uint32_t>(number), seconds);
      },
      nb::arg("numbers"), nb::arg("at"), nb::arg("number"), nb::arg("seconds"));
}
