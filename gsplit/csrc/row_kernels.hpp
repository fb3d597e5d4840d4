// The inner loops of aggregate.hpp, as they were compiled for one instruction set. row_kernels.cpp is compiled once
// for each; aggregate.cpp chooses at run time, so what is built here runs on any machine of the architecture.
#pragma once

#include <cstdint>

#include "bfloat16.hpp"
#include "products.hpp"

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
  int64_t num_edges;
  int64_t source_bytes;  // of all source rows, without what lies between them
  int64_t own_stride;
  int64_t received_stride;
  int64_t width;
  int64_t heads;              // at least 1; divides the width
  const Computed<T>* factor;  // may be null
  const Computed<T>* weight;  // may be null
  int64_t weight_stride;
  const int32_t* degrees;         // may be null; sums are divided by them, but not by 0
  const Computed<T>* scale;       // may be null; sums are multiplied by them
  const T* start;                 // of dot_rows the left rows
  const Computed<T>* wide_start;  // in its place, where starts are wider than rows
  int64_t start_rows;             // the first rows have one
  int64_t start_stride;
  const Computed<T>* start_scale;  // may be null; starts are multiplied by them
  T* out;
  Computed<T>* wide_out;  // in its place, where sums are wider than rows; always of dot_rows
  int64_t out_stride;
};

/// One call of activate or activate_backward.
template <class T>
struct ActivationTask {
  const T* x;               // of the backward: what forward gave, or null where there are signs
  const T* gradients;       // null forward
  const Computed<T>* bias;  // may be null; added to x; not for ELU, nor backward
  T* out;
  int64_t rows;
  int64_t width;
  int64_t x_stride;
  int64_t gradients_stride;
  int64_t out_stride;
  int activation;
  uint32_t drop_below;  // of 2^32
  Computed<T> scale;    // 1 / (1 - drop); 0 where all is dropped
  uint64_t seed;
  int64_t first_row;     // the number of the first row among all that the seed is for
  double* totals;        // backward, may be null: [width] zeros that get the sums of `out` over the rows
  Computed<T>* sums;     // [width] zeros for those of the rows at work
  const uint8_t* signs;  // backward of ReLU, in place of x: a bit a value, 0 where forward gave 0 or less
  int64_t signs_stride;
};

/// What a value is normalised by: the mean square of its row; the mean of its row, and the mean square of what is
/// left; or numbers of its column.
enum class Norm : int { rms = 0, layer = 1, batch = 2 };

/// One call of norm_rows.hpp. Arrays of columns have whole vectors, with zeros behind the last column.
template <class T>
struct NormTask {
  ActivationTask<T> rows;  // forward as of activate. Backward: x is what was normalised, out gets its gradients
  Norm norm;
  float eps;            // of the first two
  const float* weight;  // of the batch multiplied by the columns' factors
  const float* bias;    // forward
  const float* mean;    // of the batch; without one its sums are of values, and not of squares
  const float* shift;   // of the batch, backward: gradients less this number of their column,
  const float* slope;   // and less this one times what x is over its mean
  const T* skip;        // forward, may be null: added last
  int64_t skip_stride;
  uint8_t* signs;  // forward, may be null: gets a bit a value, 0 where out is 0 or less
  int64_t signs_stride;
  float* room;     // [3 * whole vectors]
  float* sums;     // may be null: [2 * whole vectors] zeros for the sums of the rows at work
  double* totals;  // [2 * whole vectors] zeros that they are added to: what the weight gets, and what the bias gets
};

inline constexpr int64_t MOST_NARROW_CHUNKS = 4;  // vectors of the results of a row, of all matrices together
inline constexpr int64_t MOST_NARROW = 2;         // matrices that rows are multiplied by at once

/// Where a vector of each row's results goes.
struct NarrowChunk {
  float* out;
  BFloat16* narrow_out;  // in its place
  int64_t out_stride;
  int64_t lanes;  // values of the vector that are results
};

/// The gradient of one matrix.
struct NarrowGradients {
  const float* gradients;  // [rows, outputs]
  const BFloat16* narrow;  // in their place
  float* out;              // [outputs, whole vectors of the width]
  int64_t outputs;
  int64_t gradients_stride;
  int64_t out_stride;
};

/// Rows and the narrow matrices that they are multiplied by, or gradients of such matrices: narrow_products.hpp.
struct NarrowTask {
  const float* x;
  const int64_t* ids;  // which row of x each row is; null: all, in order
  int64_t width;
  int64_t x_stride;
  const float* panel;  // of a projection: [width, whole vectors of outputs] the weights of all matrices, transposed
  int64_t panel_stride;
  const float* start;  // [whole vectors of outputs] what each row begins with
  NarrowChunk chunks[MOST_NARROW_CHUNKS];
  int64_t num_chunks;
  NarrowGradients gradients[MOST_NARROW];
  int64_t num_gradients;
};

inline constexpr int64_t RANK_PANEL = 64;  // candidates that are scored side by side

/// Functions of rank_kernels.hpp.
template <class T>
struct RankKernels {
  void (*score_panel)(const T* sources, int64_t rows, int64_t stride, int64_t width, const T* panel, T* scores);
  void (*score_beside)(const T* sources, const T* candidates, int64_t width, T* scores);
  void (*count_scores)(const T* scores, int64_t count, T bound, int64_t* above, int64_t* equal);
};

/// Functions for rows begin .. end.
struct RowKernels {
  void (*sum_f32)(const RowTask<float>&, int64_t begin, int64_t end);
  void (*sum_f64)(const RowTask<double>&, int64_t begin, int64_t end);
  void (*sum_bf16)(const RowTask<BFloat16>&, int64_t begin, int64_t end);
  void (*add_f32)(const float* values, int64_t rows, int64_t width, double* sums);
  void (*add_row_bf16)(BFloat16* to, const BFloat16* from, int64_t width);
  void (*dot_f32)(const RowTask<float>&, int64_t begin, int64_t end);
  void (*dot_f64)(const RowTask<double>&, int64_t begin, int64_t end);
  void (*dot_bf16)(const RowTask<BFloat16>&, int64_t begin, int64_t end);
  void (*activate_f32)(const ActivationTask<float>&, int64_t begin, int64_t end);
  void (*activate_f64)(const ActivationTask<double>&, int64_t begin, int64_t end);
  void (*activate_bf16)(const ActivationTask<BFloat16>&, int64_t begin, int64_t end);
  void (*normalise_f32)(const NormTask<float>&, int64_t begin, int64_t end);
  void (*normalise_bf16)(const NormTask<BFloat16>&, int64_t begin, int64_t end);
  void (*project)(const NarrowTask&, int64_t begin, int64_t end);
  void (*narrow_gradient)(const NarrowTask&, int64_t begin, int64_t end);
  products::Kernels wide;     // of products in float32
  products::Kernels widened;  // of products of values in bfloat16
  RankKernels<float> rank_f32;
  RankKernels<double> rank_f64;
  int64_t lanes;         // floats of a vector
  int64_t most_outputs;  // of project and narrow_gradient
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
