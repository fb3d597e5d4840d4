// The inner loops of aggregate.hpp, as they were compiled for one instruction set. row_kernels.cpp is compiled once
// for each; aggregate.cpp chooses at run time, so what is built here runs on any machine of the architecture.
#pragma once

#include <cstdint>

namespace gsplit {

/// One call of sum_rows or dot_rows, checked, in plain pointers, so that the kernels include nothing: a function of
/// the standard library that is compiled for a wide instruction set might be the one that the linker keeps for all.
template <class T>
struct RowTask {
  const int32_t* indptr;
  const int32_t* indices;
  const int32_t* order;  // may be null
  const T* own;
  const T* received;
  int64_t num_own;
  int64_t own_stride;
  int64_t received_stride;
  int64_t width;
  int64_t heads;    // at least 1; divides the width
  const T* factor;  // may be null
  const T* weight;  // may be null
  int64_t weight_stride;
  bool mean;
  const T* start;      // of dot_rows the left rows
  int64_t start_rows;  // the first rows have one
  int64_t start_stride;
  T* out;
  int64_t out_stride;
};

/// Functions for rows begin .. end.
struct RowKernels {
  void (*sum_f32)(const RowTask<float>&, int64_t begin, int64_t end);
  void (*sum_f64)(const RowTask<double>&, int64_t begin, int64_t end);
  void (*dot_f32)(const RowTask<float>&, int64_t begin, int64_t end);
  void (*dot_f64)(const RowTask<double>&, int64_t begin, int64_t end);
};

namespace isa_basic {
extern const RowKernels kernels;
}
#ifdef GSPLIT_X86
namespace isa_avx2 {
extern const RowKernels kernels;
}
namespace isa_avx512 {
extern const RowKernels kernels;
}
#endif

}  // namespace gsplit
