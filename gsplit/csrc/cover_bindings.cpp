// Python's view of minimum vertex covers.

#include "bindings.hpp"
#include "least_cover.hpp"

namespace nb = nanobind;

namespace gsplit::python {

void bind_covers(nb::module_& m) {
  m.def(
      "least_cover",
      [](Array<int64_t> indptr, Array<int32_t> destinations, Writable<uint8_t> takes_source,
         Writable<uint8_t> takes_destination) {
        nb::gil_scoped_release unlocked;
        gsplit::least_cover(span_of(indptr), span_of(destinations), span_of(takes_source),
                            span_of(takes_destination));
      },
      nb::arg("indptr"), nb::arg("destinations"), nb::arg("takes_source"), nb::arg("takes_destination"));
}

}  // namespace gsplit::python
