// What the files that bind the core to Python share: one-dimensional arrays as spans.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <span>

#include "bfloat16.hpp"

template <>
struct nanobind::detail::dtype_traits<gsplit::BFloat16> {
  static constexpr dlpack::dtype value{static_cast<uint8_t>(dlpack::dtype_code::Bfloat), 16, 1};
  static constexpr auto name = const_name("bfloat16");
};

namespace gsplit::python {

template <class T>
using Array = nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
template <class T>
using Writable = nanobind::ndarray<T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

template <class T>
std::span<const T> span_of(const Array<T>& array) {
  return {array.data(), array.size()};
}

/// Empty where there is no array.
template <class T>
std::span<const T> span_of(const std::optional<Array<T>>& array) {
  return array ? span_of(*array) : std::span<const T>();
}

template <class T>
std::span<T> span_of(const Writable<T>& array) {
  return {array.data(), array.size()};
}

/// Samples mini-batches and splits them.
void bind_samplers(nanobind::module_& m);

/// Sums over neighbours; the rest is bound in bindings.cpp.
void bind_aggregate(nanobind::module_& m);

/// Where pairs stand among candidates.
void bind_ranks(nanobind::module_& m);

/// Vertices by ids of the user's own.
void bind_ids(nanobind::module_& m);

/// What covers all edges between two kinds of vertices.
void bind_covers(nanobind::module_& m);

/// Which pairs of vertices are edges, and in which order pairs come.
void bind_links(nanobind::module_& m);

}  // namespace gsplit::python
