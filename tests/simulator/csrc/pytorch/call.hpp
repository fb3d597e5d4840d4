// An operator's call in the three forms that the fallback needs: as it was made, with tensors of no memory (Meta) to
// learn the results' shapes, and as a task may keep it.
//
// Kept is one argument without the tensors of a device: views in their places. Tensors of the CPU among the arguments
// are copied when the call is made, so that whoever made it may change them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "../glue.hpp"

namespace sim {

using Stack = torch::jit::Stack;

/// What an argument or a result holds: a tensor, an optional one, a list of either, or none.
void for_each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& visit);
/// The same value with each defined tensor replaced.
c10::IValue with_tensors(const c10::IValue& value, const std::function<at::Tensor(const at::Tensor&)>& replace);

/// A tensor of the CPU, or of a device by its view; nothing for an undefined tensor.
using KeptTensor = std::variant<std::monostate, at::Tensor, View>;

class Kept {
 public:
  explicit Kept(const c10::IValue& value);
  /// The argument for the CPU's kernel; for tasks alone.
  c10::IValue on_host() const;

 private:
  enum class Form { VALUE, TENSOR, TENSORS, OPTIONAL_TENSORS };
  Form form_ = Form::VALUE;
  c10::IValue value_;
  std::vector<KeptTensor> tensors_;
};

/// Whether a result is the argument that was given for it, as of add_ and of add.out.
bool is_written(const c10::Argument& argument);
/// For each result the number of the argument that it is, or -1.
std::vector<int> arguments_returned(const c10::FunctionSchema& schema);

/// The results as Meta tensors, and the arguments as the call leaves them (out= may have another shape). Both are
/// empty where all results are arguments that keep their shape. Nothing where shapes depend on values, or the call is
/// wrong.
struct Shapes {
  Stack arguments, results;
};
std::optional<Shapes> shapes_of(const c10::OperatorHandle& op, const Stack& arguments);

/// Throws for indices that the CPU's kernel would follow to wherever they lead.
void check_indices(const std::string& name, const Stack& arguments);
void check_csr(const at::Tensor& rows, const at::Tensor& columns, int64_t width);

/// Turns the arguments of a sum of floats round, so that it is taken in another order than the CPU's.
void reorder(const c10::FunctionSchema& schema, Stack& arguments);

/// The fallback (fallback.cpp), for operators that are registered by themselves.
void fallback(const c10::OperatorHandle& op, Stack* stack);

}  // namespace sim
