// Python's view of what pairs need beside the sampler: tests of edges, and the order of pairs.

#include <memory>
#include <string>

#include "bindings.hpp"
#include "edge_tests.hpp"
#include "permute.hpp"

namespace nb = nanobind;

namespace gsplit::python {
namespace {

/// An array that NumPy will own, written by `write` while the GIL is released.
template <class T, size_t DIMENSIONS, class Write>
nb::ndarray<nb::numpy, T, nb::ndim<DIMENSIONS>> written(const size_t (&shape)[DIMENSIONS], const Write& write) {
  size_t size = 1;
  for (const size_t length : shape) size *= length;
  auto values = std::make_unique_for_overwrite<T[]>(size);
  {
    nb::gil_scoped_release unlocked;
    write(std::span<T>(values.get(), size));
  }
  T* data = values.release();
  nb::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
  return nb::ndarray<nb::numpy, T, nb::ndim<DIMENSIONS>>(data, DIMENSIONS, shape, owner);
}

template <class Index>
void bind_edge_tests(nb::module_& m) {
  m.def(
      "are_edges",
      [](Array<int64_t> indptr, Array<Index> indices, Array<int64_t> sources, Array<int64_t> destinations) {
        return written<bool, 1>({sources.size()}, [&](std::span<bool> out) {
          are_edges<Index>({span_of(indptr), span_of(indices), {}}, span_of(sources), span_of(destinations), out);
        });
      },
      nb::arg("indptr"), nb::arg("indices"), nb::arg("sources"), nb::arg("destinations"));
  m.def(
      "edges_from",
      [](Array<int64_t> indptr, Array<Index> indices, Array<int64_t> candidates, Array<int64_t> sources) {
        return written<bool, 2>({sources.size(), candidates.size()}, [&](std::span<bool> out) {
          edges_from<Index>({span_of(indptr), span_of(indices), {}}, span_of(candidates), span_of(sources), out);
        });
      },
      nb::arg("indptr"), nb::arg("indices"), nb::arg("candidates"), nb::arg("sources"));
}

}  // namespace

void bind_links(nb::module_& m) {
  bind_edge_tests<int32_t>(m);
  bind_edge_tests<int64_t>(m);
  m.def(
      "permuted_rows",
      [](uint64_t key, uint64_t num_rows, uint64_t begin, uint64_t end) {
        if (begin > end || end > num_rows)
          throw nb::value_error(
              ("there are " + std::to_string(num_rows) + " rows: begin and end must be among them").c_str());
        return written<int64_t, 1>({end - begin},
                                   [&](std::span<int64_t> out) { permuted_rows(key, num_rows, begin, out); });
      },
      nb::arg("key"), nb::arg("num_rows"), nb::arg("begin"), nb::arg("end"));
}

}  // namespace gsplit::python
