// What joins the simulated accelerator (core.hpp) to PyTorch, for operators, copies, collectives and controls.
//
// A tensor of the device carries an address without access. View is what a task may keep of it: address, shape,
// strides and dtype; on_host makes a CPU tensor of the same memory, for the time of the task.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core.hpp"

namespace sim {

/// A tensor of a device without its storage, which a task may keep.
struct View {
  const void* address;
  std::vector<int64_t> sizes, strides;
  at::ScalarType dtype;
  bool wrapped_number;  // of Python, which promotes types less

  explicit View(const at::Tensor& tensor);
  /// The same memory as a tensor of the CPU; for tasks alone.
  at::Tensor on_host() const;
};

/// A tensor of the host by its address, which a task may keep if the memory is pinned, or if somebody waits for it.
struct HostView {
  void* address;
  std::vector<int64_t> sizes, strides;
  at::ScalarType dtype;

  explicit HostView(const at::Tensor& tensor);
  at::Tensor tensor() const;
};

/// Whether a tensor lies on a simulated device.
inline bool is_on_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::kPrivateUse1;
}

Stream& stream_of(const c10::Stream& stream);
c10::Stream stream_of(const Stream& stream);
/// The calling thread's stream of a tensor's device.
Stream& stream_for(const at::Tensor& tensor);

/// A tensor uint8 [bytes] at an address of a device; release is called with the address when it is gone.
at::Tensor tensor_at(void* address, int64_t bytes, int device, void (*release)(void*));
/// A tensor on a device, in memory of its current stream: contiguous, or of given strides.
at::Tensor empty_on(int device, at::IntArrayRef sizes, at::ScalarType dtype,
                    std::optional<at::IntArrayRef> strides = std::nullopt);
/// A tensor of the CPU as it is now, which a task may keep: nobody else has its memory.
at::Tensor kept(const at::Tensor& on_cpu);

// Random draws (random.cpp).

/// Draws of later calls, on every device, come from new generators of this seed.
void manual_seed(uint64_t seed);
/// The generator of a device at this time, which tasks may keep.
at::Generator generator(int device);
/// A generator of its own, as torch.Generator makes one for a device.
at::Generator new_generator();
/// State of a device's generator, for checkpoints; the host waits for what has yet to draw.
at::Tensor random_state(int64_t device);
void set_random_state(int64_t device, const at::Tensor& state);

// Numbers (numbers.cpp).

/// "cpu", or "cuda" for other ones: another generator, sums of floats in other orders; GSPLIT_SIM_NUMBERS says it at
/// the start, cpu without it.
void set_numbers(const std::string& name);
std::string numbers();
/// Whether they are other ones than the CPU's.
bool other_numbers();

// Operators (fallback.cpp and beside it).

/// out[positions] = host_rows[ids] on the current stream, where host_rows lie in registered memory, or a device's.
void read_rows(const at::Tensor& host_rows, const at::Tensor& ids, const std::optional<at::Tensor>& positions,
               const at::Tensor& out);

/// How often each operator was called on a device since the last reset, copies included.
std::map<std::string, int64_t> calls();
void reset_calls();
void count_call(std::string_view name);

}  // namespace sim
