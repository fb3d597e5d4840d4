// Calls of operators taken apart: tensors among the arguments, what a task may keep of them, which result is which
// argument (call.hpp).
#include "call.hpp"

#include <ATen/core/List.h>

namespace sim {
namespace {

using at::Tensor;
using c10::IValue;
using OptionalTensors = c10::List<std::optional<Tensor>>;

bool is_optional_tensors(const IValue& value) {
  if (!value.isList()) return false;
  const auto type = value.toList().elementType();
  return type->kind() == c10::TypeKind::OptionalType &&
         type->castRaw<c10::OptionalType>()->getElementType()->kind() == c10::TypeKind::TensorType;
}

KeptTensor keep(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (is_on_device(tensor)) return View(tensor);
  return kept(tensor);
}

Tensor tensor_of(const KeptTensor& kept) {
  if (const auto* view = std::get_if<View>(&kept)) return view->on_host();
  if (const auto* tensor = std::get_if<Tensor>(&kept)) return *tensor;
  return {};
}

}  // namespace

void for_each_tensor(const IValue& value, const std::function<void(const Tensor&)>& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (is_optional_tensors(value)) {
    for (const auto& tensor : value.toOptionalTensorVector()) {
      if (tensor && tensor->defined()) visit(*tensor);
    }
  }
}

IValue with_tensors(const IValue& value, const std::function<Tensor(const Tensor&)>& replace) {
  if (value.isTensor()) return value.toTensor().defined() ? replace(value.toTensor()) : value;
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorVector()) list.push_back(replace(tensor));
    return list;
  }
  if (!is_optional_tensors(value)) return value;
  OptionalTensors list;
  for (const auto& tensor : value.toOptionalTensorVector()) {
    list.push_back(tensor && tensor->defined() ? std::optional(replace(*tensor)) : std::nullopt);
  }
  return list;
}

Kept::Kept(const IValue& value) {
  if (value.isTensor()) {
    form_ = Form::TENSOR;
    tensors_.push_back(keep(value.toTensor()));
  } else if (value.isTensorList()) {
    form_ = Form::TENSORS;
    for (const Tensor& tensor : value.toTensorVector()) tensors_.push_back(keep(tensor));
  } else if (is_optional_tensors(value)) {
    form_ = Form::OPTIONAL_TENSORS;
    for (const auto& tensor : value.toOptionalTensorVector()) tensors_.push_back(keep(tensor.value_or(Tensor())));
  } else {
    value_ = value.isDevice() ? IValue(c10::Device(c10::kCPU)) : value;
  }
}

IValue Kept::on_host() const {
  if (form_ == Form::VALUE) return value_;
  if (form_ == Form::TENSOR) return tensor_of(tensors_.front());
  if (form_ == Form::TENSORS) {
    c10::List<Tensor> list;
    for (const KeptTensor& kept : tensors_) list.push_back(tensor_of(kept));
    return list;
  }
  OptionalTensors list;
  for (const KeptTensor& kept : tensors_) {
    const Tensor tensor = tensor_of(kept);
    list.push_back(tensor.defined() ? std::optional(tensor) : std::nullopt);
  }
  return list;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

std::vector<int> arguments_returned(const c10::FunctionSchema& schema) {
  std::vector<int> numbers;
  for (const c10::Argument& result : schema.returns()) {
    int number = -1;
    for (size_t i = 0; is_written(result) && i < schema.arguments().size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      if (alias != nullptr && alias->beforeSets() == result.alias_info()->beforeSets()) number = static_cast<int>(i);
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace sim
