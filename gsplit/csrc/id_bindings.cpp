// Python's view of the map of ids: columns of bytes come as the two arrays that Apache Arrow keeps them in.

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "bindings.hpp"
#include "id_map.hpp"

namespace nb = nanobind;

namespace gsplit::python {
namespace {

/// Whether the offsets [n + 1] ascend within the bytes, and there is room for n vertices.
void check(const Array<int64_t>& offsets, const Array<uint8_t>& data, const Writable<int64_t>& vertices) {
  bool good = offsets.size() == vertices.size() + 1 && offsets.data()[0] >= 0;
  for (size_t i = 0; good && i < vertices.size(); ++i) good = offsets.data()[i] <= offsets.data()[i + 1];
  if (!good || static_cast<size_t>(offsets.data()[vertices.size()]) > data.size())
    throw nb::value_error("offsets must ascend within the bytes, one more of them than there are vertices");
}

/// Errors of the system as Python has them: MemoryError, or OSError with the number, which callers know a full disk
/// by.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::system_error& error) {
    errno = error.code().value();
    errno == ENOMEM ? PyErr_NoMemory() : PyErr_SetFromErrno(PyExc_OSError);
  }
}

}  // namespace

void bind_ids(nb::module_& m) {
  nb::register_exception_translator(translate);
  nb::class_<IdMap>(m, "IdMap", "Vertices by ids, runs of bytes; see gsplit.data.ids.named_ids.")
      .def(nb::init<const std::string&>(), nb::arg("path"))
      .def_prop_ro("num_vertices", &IdMap::num_vertices)
      .def(
          "add",
          [](IdMap& self, Array<int64_t> offsets, Array<uint8_t> data, Writable<int64_t> vertices) {
            check(offsets, data, vertices);
            nb::gil_scoped_release unlocked;
            self.add(span_of(offsets), reinterpret_cast<const char*>(data.data()), span_of(vertices));
          },
          nb::arg("offsets"), nb::arg("data"), nb::arg("vertices"))
      .def(
          "find",
          [](const IdMap& self, Array<int64_t> offsets, Array<uint8_t> data, Writable<int64_t> vertices) {
            check(offsets, data, vertices);
            nb::gil_scoped_release unlocked;
            self.find(span_of(offsets), reinterpret_cast<const char*>(data.data()), span_of(vertices));
          },
          nb::arg("offsets"), nb::arg("data"), nb::arg("vertices"))
      .def(
          "copy",
          [](const IdMap& self, size_t begin, Writable<int64_t> offsets, Writable<uint8_t> data) {
            const auto& all = self.offsets();
            if (!offsets.size() || begin + offsets.size() > all.size() ||
                data.size() != static_cast<size_t>(all[begin + offsets.size() - 1] - all[begin]))
              throw nb::value_error("there are no such ids, or no room for their bytes");
            for (size_t i = 0; i < offsets.size(); ++i) offsets.data()[i] = all[begin + i] - all[begin];
            std::copy_n(self.data() + all[begin], data.size(), reinterpret_cast<char*>(data.data()));
          },
          nb::arg("begin"), nb::arg("offsets"), nb::arg("data"))
      .def(
          "bytes_between",
          [](const IdMap& self, size_t begin, size_t end) {
            const auto& all = self.offsets();
            if (begin > end || end >= all.size()) throw nb::value_error("there are no such ids");
            return all[end] - all[begin];
          },
          nb::arg("begin"), nb::arg("end"));
}

}  // namespace gsplit::python
