// What the files that bind the core to Python share: arrays as spans, and as matrices.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <span>
#include <tuple>

#include "aggregate.hpp"
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

template <class T>
using Values = nanobind::ndarray<T, nanobind::ndim<2>, nanobind::device::cpu>;
template <class T>
using Maybe = std::optional<Values<T>>;

template <class T>
Matrix<T> matrix_of(const Values<T>& array) {
  const auto rows = static_cast<int64_t>(array.shape(0)), width = static_cast<int64_t>(array.shape(1));
  if (width > 1 && rows > 0 && array.stride(1) != 1) throw nanobind::value_error("a row must be contiguous");
  return {array.data(), rows, width, rows > 1 ? array.stride(0) : width};
}

/// No data where there is no array.
template <class T>
Matrix<T> matrix_of(const Maybe<T>& array) {
  return array ? matrix_of(*array) : Matrix<T>{};
}

/// Activation, share that is dropped, and seed.
using FinishValues = std::tuple<int, float, uint64_t>;

/// Samples mini-batches and splits them.
void bind_samplers(nanobind::module_& m);

/// Sums over neighbours; the rest is bound in bindings.cpp.
void bind_aggregate(nanobind::module_& m);

/// Normalisation of rows.
void bind_norms(nanobind::module_& m);

/// Where pairs stand among candidates.
void bind_ranks(nanobind::module_& m);

/// Vertices by ids of the user's own.
void bind_ids(nanobind::module_& m);

/// What covers all edges between two kinds of vertices.
void bind_covers(nanobind::module_& m);

/// Which pairs of vertices are edges, and in which order pairs come.
void bind_links(nanobind::module_& m);

}  // namespace gsplit::python
