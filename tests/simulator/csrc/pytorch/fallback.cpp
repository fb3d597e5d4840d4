// Every operator that is not registered by itself: enqueued, and run by the stream's thread with the CPU's kernel.
//
// A call goes through these steps, on the thread that makes it:
//
//   1  its tensors must be on one device; of the CPU, only single values, and indices where CUDA takes them
//   2  the results' shapes are found without values (shapes.cpp)
//   3  results are allocated for the current stream; arguments given as out= get their new shape
//   4  a task is enqueued that holds views of arguments and results; it calls the CPU's kernel, and copies what that
//      returns to where the results were announced
//
// Where shapes depend on values (nonzero, masks, unique), or the result is a value of the host's (equal), the host
// waits for the stream, counts that, and calls the CPU's kernel itself. A call that is wrong goes that way as well,
// so its error is the CPU's.
//
// Invariants: nothing that a task keeps owns memory of a device; views are refused here, for a view of a copy is
// none.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <set>

#include "../faults.hpp"
#include "call.hpp"

namespace sim {
namespace {

using at::Tensor;
using c10::IValue;
using c10::OperatorHandle;

struct Calls {
  std::mutex mutex;
  std::map<std::string, int64_t> counts;
};

Calls& all_calls() {
  static auto* const all = new Calls;
  return *all;
}

std::string name_of(const OperatorHandle& op) {
  const auto& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

const std::set<std::string> TAKE_INDICES_OF_THE_CPU = {"aten::index", "aten::index_put", "aten::index_put_",
                                                       "aten::_index_put_impl_"};

const std::set<std::string> PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm"};

/// The device of a call's tensors, or of its device argument. Throws where there are several.
int device_of_call(const OperatorHandle& op, const Stack& arguments) {
  std::optional<c10::Device> found;
  for (const IValue& argument : arguments) {
    for_each_tensor(argument, [&](const Tensor& tensor) {
      if (!is_on_device(tensor)) return;
      TORCH_CHECK(!found || *found == tensor.device(), "Expected all tensors to be on the same device, but found ",
                  *found, " and ", tensor.device(), " (", name_of(op), ")");
      found = tensor.device();
    });
    if (argument.isDevice() && !found && argument.toDevice().has_index()) found = argument.toDevice();
  }
  return found ? found->index() : current_device();
}

void check_host_tensors(const OperatorHandle& op, const Stack& arguments, int device) {
  const bool indices = TAKE_INDICES_OF_THE_CPU.count(op.schema().name()) > 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool written = is_written(op.schema().arguments()[i]);
    for_each_tensor(arguments[i], [&](const Tensor& tensor) {
      if (is_on_device(tensor) || (tensor.is_cpu() && !written && (tensor.dim() == 0 || (indices && i == 1)))) return;
      TORCH_CHECK(false, "Expected all tensors to be on the same device, but found sim:", device, " and ",
                  tensor.device(), " (", name_of(op), ")");
    });
  }
}

/// Announced results as tensors of a device; those that are arguments are the arguments.
Stack allocate(const Stack& shapes, const Stack& arguments, const std::vector<int>& returned, int device) {
  Stack results;
  for (size_t i = 0; i < returned.size(); ++i) {
    const auto make = [&](const Tensor& meta) {
      return empty_on(device, meta.sizes(), meta.scalar_type(), meta.strides());
    };
    results.push_back(returned[i] >= 0 ? arguments[static_cast<size_t>(returned[i])] : with_tensors(shapes[i], make));
  }
  return results;
}

/// Gives written arguments the shapes that the call leaves them with.
void resize_written(const c10::FunctionSchema& schema, const Stack& arguments, const Stack& shapes) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!is_written(schema.arguments()[i]) || !arguments[i].isTensor()) continue;
    const Tensor &argument = arguments[i].toTensor(), &shape = shapes[i].toTensor();
    if (argument.defined() && argument.sizes() != shape.sizes()) {
      argument.resize_(shape.sizes());
      argument.unsafeGetTensorImpl()->set_sizes_and_strides(shape.sizes(), shape.strides());
    }
  }
}

bool are_tensors(const c10::FunctionSchema& schema) {
  return std::all_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument& result) {
    const auto type = result.type();
    const bool list = type->kind() == c10::TypeKind::ListType;
    return (list ? type->castRaw<c10::ListType>()->getElementType() : type)->kind() == c10::TypeKind::TensorType;
  });
}

/// Calls the CPU's kernel; the stack holds its arguments, then its results.
void run_on_host(const OperatorHandle& op, Stack& stack) {
  const at::AutoDispatchBelowAutograd guard;
  check_indices(op.schema().name(), stack);
  if (other_numbers()) reorder(op.schema(), stack);
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

/// Copies what the CPU's kernel returned to where it was announced.
void deliver(const IValue& returned, const IValue& announced) {
  std::vector<Tensor> from, to;
  for_each_tensor(returned, [&](const Tensor& tensor) { from.push_back(tensor); });
  for_each_tensor(announced, [&](const Tensor& tensor) { to.push_back(tensor); });
  TORCH_CHECK(from.size() == to.size(), from.size(), " tensors are returned, ", to.size(), " were announced");
  for (size_t i = 0; i < from.size(); ++i) {
    TORCH_CHECK(from[i].sizes() == to[i].sizes() && from[i].scalar_type() == to[i].scalar_type(), "returned is ",
                from[i].scalar_type(), " ", from[i].sizes(), ", announced was ", to[i].scalar_type(), " ",
                to[i].sizes());
    to[i].copy_(from[i]);
  }
}

/// A call as a task keeps it.
struct Job {
  OperatorHandle op;
  std::vector<Kept> arguments, results;
  std::vector<int> returned;

  void run() const {
    Stack stack;
    for (const Kept& argument : arguments) stack.push_back(argument.on_host());
    run_on_host(op, stack);
    for (size_t i = 0; i < results.size(); ++i) {
      if (returned[i] < 0) deliver(stack[i], results[i].on_host());
    }
  }
};

std::vector<Kept> kept_of(const Stack& values) {
  std::vector<Kept> kept;
  for (const IValue& value : values) kept.emplace_back(value);
  return kept;
}

/// The host waits for the stream and calls the CPU's kernel; results go to the device by tasks.
Stack run_here(const OperatorHandle& op, const Stack& arguments, const std::vector<int>& returned, int device) {
  const auto& schema = op.schema();
  Stream& stream = current_stream(device);
  count_wait(name_of(op), true);
  stream.drain();
  check(device);
  Stack stack;
  for (size_t i = 0; i < arguments.size(); ++i) {
    // The memory behind a view cannot grow, so what is given as out= is written apart.
    const bool apart = schema.arguments()[i].is_out() && arguments[i].isTensor();
    stack.push_back(apart ? IValue(at::empty({0}, at::TensorOptions(arguments[i].toTensor().scalar_type())))
                          : Kept(arguments[i]).on_host());
  }
  run_on_host(op, stack);
  Stack results;
  for (size_t i = 0; i < stack.size(); ++i) {
    const int argument = returned[i];
    const auto to_device = [&](const Tensor& tensor) {
      const Tensor result = empty_on(device, tensor.sizes(), tensor.scalar_type(), tensor.strides());
      stream.enqueue(name_of(op), [tensor, to = View(result)] { to.on_host().copy_(tensor); });
      return result;
    };
    if (argument < 0) {
      results.push_back(with_tensors(stack[i], to_device));
      continue;
    }
    const IValue& given = arguments[static_cast<size_t>(argument)];
    if (schema.arguments()[static_cast<size_t>(argument)].is_out() && given.isTensor()) {
      const Tensor& written = stack[i].toTensor();
      const View to(given.toTensor().resize_(written.sizes()));
      stream.enqueue(name_of(op), [written, to] { to.on_host().copy_(written); });
    }
    results.push_back(given);
  }
  return results;
}

void put_generator(const OperatorHandle& op, Stack& arguments, int device) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (op.schema().arguments()[i].name() == "generator" && arguments[i].isNone()) arguments[i] = generator(device);
  }
}

}  // namespace

std::map<std::string, int64_t> calls() {
  const std::lock_guard lock(all_calls().mutex);
  return all_calls().counts;
}

void reset_calls() {
  const std::lock_guard lock(all_calls().mutex);
  all_calls().counts.clear();
}

void count_call(std::string_view name) {
  const std::lock_guard lock(all_calls().mutex);
  ++all_calls().counts[std::string(name)];
}

void fallback(const OperatorHandle& op, Stack* stack) {
  const auto& schema = op.schema();
  const std::string name = name_of(op);
  count_call(name);
  if (PRODUCTS.count(schema.name()) > 0) refuse_if_full("library");
  Stack arguments = torch::jit::pop(*stack, schema.arguments().size());
  const std::vector<int> returned = arguments_returned(schema);
  for (const c10::Argument& result : schema.returns()) {
    const bool view = result.alias_info() != nullptr && !result.alias_info()->isWrite();
    TORCH_CHECK_NOT_IMPLEMENTED(!view, name, " makes a view, which the simulated device does not have");
  }
  const int device = device_of_call(op, arguments);
  const c10::DeviceGuard guard(c10::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(device)));
  make_context(device);
  check_host_tensors(op, arguments, device);
  put_generator(op, arguments, device);

  const auto shapes = are_tensors(schema) ? shapes_of(op, arguments) : std::nullopt;
  Stack results;
  if (shapes) {
    resize_written(schema, arguments, shapes->arguments);
    results = allocate(shapes->results, arguments, returned, device);
    const auto job = std::make_shared<Job>(Job{op, kept_of(arguments), kept_of(results), returned});
    current_stream(device).enqueue(name, [job] { job->run(); });
  } else {
    results = run_here(op, arguments, returned, device);
  }
  for (IValue& result : results) stack->push_back(std::move(result));
}

}  // namespace sim

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&sim::fallback>()); }

// Those that have a kernel of other operators for all devices, which may round differently from the CPU's own.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"_stack", "_stack.out", "addr", "addr.out", "all.dims", "all.dims_out", "any.dims",
                           "any.dims_out", "linalg__powsum", "native_group_norm", "native_layer_norm"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&sim::fallback>());
  }
}
