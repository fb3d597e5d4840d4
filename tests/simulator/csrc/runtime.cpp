// The functions of CUDA's runtime that GSplit calls by ctypes (gsplit/device/peer_memory.py), under names of their
// own: memory that is no block of PyTorch's, and handles by which other processes open it. Numbers of errors are
// CUDA's.
//
// A handle stands for a whole allocation. Who opens one gets an address of the device that is current then, as a GPU
// has it in its own context. Letting go of it waits for nobody: a task that still reads it dies.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "core.hpp"
#include "faults.hpp"

namespace {

constexpr int OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, NO_PEER_ACCESS = 217;
constexpr unsigned LAZY_PEER_ACCESS = 1;

struct Allocations {
  std::mutex mutex;
  std::map<void*, std::size_t> bytes;  // by address
};

Allocations& allocations() {
  static auto* const all = new Allocations;
  return *all;
}

bool are_apart(int one, int other) {
  const sim::Fault& fault = sim::fault();
  return fault.is("peers") && (fault.where.empty() || fault.is_between(one, other));
}

}  // namespace

extern "C" {

struct SimMemoryHandle {
  unsigned char reserved[64];
};
static_assert(sizeof(sim::Handle) <= sizeof(SimMemoryHandle));

int simMalloc(void** address, std::size_t bytes) {
  const int device = sim::current_device();
  try {
    *address = sim::device_blocks(device).allocate(bytes, sim::current_stream(device));
  } catch (const sim::OutOfMemory&) {
    return OUT_OF_MEMORY;
  }
  const std::lock_guard lock(allocations().mutex);
  allocations().bytes[*address] = bytes;
  return OK;
}

int simFree(void* address) {
  {
    const std::lock_guard lock(allocations().mutex);
    if (allocations().bytes.erase(address) == 0) return INVALID_VALUE;
  }
  const int device = sim::device_of(address);
  sim::drain(device);
  sim::device_blocks(device).free(address);
  sim::drain(device);  // whatever a peer still reads there is poison from now on
  return OK;
}

int simIpcGetMemHandle(SimMemoryHandle* handle, void* address) {
  const std::lock_guard lock(allocations().mutex);
  const auto found = allocations().bytes.find(address);
  if (found == allocations().bytes.end()) return INVALID_VALUE;
  const sim::Handle exported = sim::export_memory(address, found->second);
  *handle = {};
  std::memcpy(handle->reserved, &exported, sizeof exported);
  return OK;
}

int simIpcOpenMemHandle(void** address, SimMemoryHandle handle, unsigned flags) {
  sim::Handle exported;
  std::memcpy(&exported, handle.reserved, sizeof exported);
  const int device = sim::current_device();
  if (flags != LAZY_PEER_ACCESS) return INVALID_VALUE;
  if (exported.pid == getpid()) return INVALID_CONTEXT;
  if (are_apart(device, static_cast<int>(exported.device))) return NO_PEER_ACCESS;
  sim::make_context(device);
  *address = sim::import_memory(exported, device);
  return OK;
}

int simIpcCloseMemHandle(void* address) { return sim::unmap_memory(address) ? OK : INVALID_VALUE; }

int simDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer && !are_apart(device, peer);
  return OK;
}

/// They are on no bus.
int simDeviceGetPCIBusId(char*, int, int) { return INVALID_VALUE; }

int simGetLastError() { return OK; }

const char* simGetErrorString(int code) {
  switch (code) {
    case INVALID_VALUE:
      return "invalid argument";
    case OUT_OF_MEMORY:
      return "out of memory";
    case INVALID_CONTEXT:
      return "invalid device context";
    case NO_PEER_ACCESS:
      return "peer access is not supported between these two devices";
    default:
      return "unrecognized error code";
  }
}

}  // extern "C"
