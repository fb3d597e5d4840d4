/* A GPU that does nothing, for autograd on tensors without values: loaded before CUDA's runtime (LD_PRELOAD) and in
   the place of its driver, it says that there is one device, whose streams are never behind. PyTorch's engine asks
   for that much before it runs a backward; nothing else may be asked of it, and whatever would start a kernel or take
   memory still goes to the real runtime, which fails without a GPU. Names and meanings are those of CUDA 13. */
#include <stddef.h>
#include <string.h>

typedef int Status;
typedef void *Handle;

/* Runtime. */
Status cudaGetDeviceCount(int *count) { return *count = 1, 0; }
Status cudaGetDevice(int *device) { return *device = 0, 0; }
Status cudaSetDevice(int device) { return device != 0; }
Status cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return *least = 0, *greatest = -1, 0; }
Status cudaGetLastError(void) { return 0; }
Status cudaPeekAtLastError(void) { return 0; }
Status cudaStreamIsCapturing(Handle stream, int *status) { return (void)stream, *status = 0, 0; }
Status cudaStreamQuery(Handle stream) { return (void)stream, 0; }
Status cudaStreamWaitEvent(Handle stream, Handle event, unsigned flags) { return (void)stream, (void)event, (int)(flags & 0); }
Status cudaEventCreateWithFlags(Handle *event, unsigned flags) { return *event = event, (int)(flags & 0); }
Status cudaEventRecord(Handle event, Handle stream) { return (void)event, (void)stream, 0; }
Status cudaEventRecordWithFlags(Handle event, Handle stream, unsigned flags) {
  return (void)event, (void)stream, (int)(flags & 0);
}
Status cudaEventQuery(Handle event) { return (void)event, 0; }
Status cudaEventDestroy(Handle event) { return (void)event, 0; }
Status cudaDriverGetVersion(int *version) { return *version = 13000, 0; }

/* Memory that processes share, by names of their own, or PyTorch's calls for memory would end here as well. */
typedef struct {
  unsigned char reserved[64];
} MemoryHandle;
static char *next_address = (char *)0x10000;
Status dryMalloc(Handle *address, size_t bytes) {
  *address = next_address, next_address += bytes;
  return bytes == 0;
}
Status dryFree(Handle address) { return address == 0; }
Status dryIpcGetMemHandle(MemoryHandle *handle, Handle address) {
  memset(handle, 0x5a, sizeof *handle);
  return address == 0;
}
Status dryIpcOpenMemHandle(Handle *address, MemoryHandle handle, unsigned flags) {
  *address = next_address, next_address += 4096;
  return handle.reserved[0] != 0x5a || handle.reserved[63] != 0x5a || flags != 1;
}
Status dryIpcCloseMemHandle(Handle address) { return address == 0; }
Status dryGetLastError(void) { return 0; }
const char *dryGetErrorString(Status status) { return status ? "a call that the runtime would refuse" : "no error"; }

/* Driver. */
Status cuInit(unsigned flags) { return (int)(flags & 0); }
Status cuDriverGetVersion(int *version) { return *version = 13000, 0; }
Status cuDeviceGetCount(int *count) { return *count = 1, 0; }
Status cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  return *flags = 0, *active = 1, device != 0;
}
