// A simulated accelerator without PyTorch: devices, streams that run later, events, and memory that the host cannot
// touch. Everything above it (operators, copies, collectives) is a task that some stream of a device runs.
//
// Streams. Each has a queue and, from its first task on, a thread. A task has a ticket, 1, 2, ...; the stream has
// reached a ticket when that task and all before it are over. An event is (stream, ticket): no more is needed to wait
// for it, to ask for it, or to record it anew. When a task begins is the schedule's business:
//
//   eager   at once
//   random  at once, but a quarter of the tasks up to 2 ms late, by a seed
//   lazy    when somebody waits for it, or 50 ms after it was issued, so that processes which wait for each other's
//           tasks (collectives) get on
//
// Memory. A device has a memfd. Its addresses, which tensors carry, lie in a reserved range without access; the same
// memory can be read and written DISTANCE further on, and only tasks go there (working). So a stray access of the
// host always dies, whatever runs meanwhile, and another process can map the memory by /proc/PID/fd/N (memory.cpp).
// Blocks of it are kept by stream and poisoned when they are free (blocks.cpp).
//
// Invariants: tasks hold addresses, never tensors or storages, so that nothing lives longer for being used by one. A
// task that throws breaks its device: later tasks of the device are skipped, and each later wait or launch throws the
// first error, which names the task. Streams and their threads are never destroyed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

/// From an address that tensors carry to the one where tasks find the same memory.
inline constexpr std::uintptr_t DISTANCE = std::uintptr_t{1} << 40;
/// Streams of a device: the default one, number 0, and those that are given out in turn.
inline constexpr int STREAMS = 33;
/// What free and fresh memory is filled with: NaN, or -1.
inline constexpr int POISON = 0xFF;

using Task = std::function<void()>;
using Ticket = std::uint64_t;

/// A broken device; what() names the task that broke it.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A device without room.
struct OutOfMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Devices.

/// Number of devices: GSPLIT_SIM_DEVICES, or 3.
int device_count();
/// The device of the calling thread; 0 at first.
int current_device();
/// Go to a device; with context, one is made there unless it is the current device already.
void set_device(int device, bool context);
/// Whether a process would hold a context, and with it memory, on a device.
bool has_context(int device);
void make_context(int device);
/// Bytes of a device that a context takes from its process: GSPLIT_SIM_CONTEXT_BYTES, or none.
std::size_t context_bytes();
/// How many tasks this process has given a device.
std::int64_t launches(int device);
/// Throw the error that broke a device, if one did.
void check(int device);
void clear_errors();
/// Break a device by a task on its default stream, after some more tasks of all its streams.
void fail_after(int device, std::int64_t tasks);

// Streams.

/// How far something is: a stream's ticket. Ticket 0 is always reached.
struct Event {
  class Stream* stream = nullptr;
  Ticket ticket = 0;
  std::shared_ptr<double> milliseconds;  // when the ticket was reached, for events that take the time

  /// Wait on the host, without counting it; pulls a lazy stream.
  void wait() const;
  /// Whether it is reached; pulls a lazy stream, so that asking again and again ends.
  bool query() const;
};

/// A queue of tasks and the thread that runs them. All functions may be called from any thread.
class Stream {
 public:
  Stream(int device, int id) : device(device), id(id) {}

  const int device;
  const int id;

  /// Give the stream a task; throws DeviceError if the device is broken.
  Ticket enqueue(std::string_view name, Task task);
  /// The same where nobody may throw; such a task runs on a broken device as well.
  Ticket enqueue_always(std::string_view name, Task task) noexcept;
  /// What was issued until now.
  Event record(bool timed = false);
  /// Tasks from now on begin after an event, perhaps of another stream.
  void wait_for(const Event& event);
  /// Wait on the host until a ticket is reached; pulls. Does not count, does not throw the device's error.
  void wait(Ticket ticket);
  /// Wait on the host for all that was issued.
  void drain() { wait(issued()); }
  Ticket issued();
  /// Whether a ticket is reached, without pulling.
  bool reached(Ticket ticket);
  /// Somebody wants a ticket: a lazy stream begins with all tasks up to it.
  void pull(Ticket ticket);
  /// The schedule has changed.
  void wake();

 private:
  struct Entry {
    std::string name;
    Task task;
    std::int64_t issued_us;
    bool always;
  };
  Ticket issue(std::string_view name, Task task, bool always) noexcept;

  void run();
  void hold_back(std::unique_lock<std::mutex>& lock, const Entry& entry, Ticket ticket);

  std::mutex mutex_;
  std::condition_variable work_, progress_;
  std::deque<Entry> queue_;
  Ticket issued_ = 0, reached_ = 0, wanted_ = 0;
  bool started_ = false;
  std::mt19937_64 random_;
  std::uint64_t seeded_ = 0;  // by which number of schedule random_ was seeded
};

Stream& stream(int device, int id);
/// One of the streams that are given out in turn.
Stream& next_stream(int device);
/// The calling thread's stream of a device; number 0 at first.
Stream& current_stream(int device);
/// Make a stream the calling thread's stream of its device; returns the one before.
Stream& exchange_stream(Stream& stream);
/// Wait on the host for all streams of a device. Does not count, does not throw the device's error.
void drain(int device);
void drain_all();

/// "eager", "random:SEED" or "lazy"; GSPLIT_SIM_SCHEDULE says it at the start, lazy without it.
void set_schedule(const std::string& schedule);
std::string schedule();
/// Draws of the calling thread, begun anew with each schedule, from the seed of a random one.
std::mt19937_64& draws_of_schedule();
/// What each stream's thread does before its first task.
void set_thread_initializer(void (*initializer)());

// What streams are given (tasks.cpp).

/// Note it from now on, or no longer.
void note_tasks(bool on);
/// A task of a name, as a stream was given it; "wait STREAM TASKS" is one that waits for so many of another stream.
void note_task(int device, int stream, std::string_view name) noexcept;
/// What was noted, "DEVICE STREAM NAME" each, in its order; it is forgotten.
std::vector<std::string> noted_tasks();

// Waits of the host for a device, counted by name and thread.

/// Count a wait. An implicit one, of an operator or a copy, throws while waits are forbidden.
void count_wait(std::string_view name, bool implicit);
/// Waits since the last reset, by name; of the calling thread, or of all.
std::map<std::string, std::int64_t> waits(bool of_this_thread);
void reset_waits();
void forbid_waits(bool forbidden);

// Memory (memory.cpp).

/// A range of a device's memory that another process can open.
struct Handle {
  std::int64_t pid, fd, device, offset, bytes;
};

/// Bytes of a device: GSPLIT_SIM_BYTES, or 8 GiB.
std::size_t device_bytes();
/// Where the addresses of a device begin; the memory is made by the first call.
std::uintptr_t device_base(int device);
/// Give whole pages back to the host; they read as zeros afterwards.
void forget_pages(int device, std::size_t offset, std::size_t bytes);
/// Where a task finds what a tensor's address stands for; throws for an address that is none of a device.
void* working(const void* address);
/// The device of an address, or -1.
int device_of(const void* address);
Handle export_memory(const void* address, std::size_t bytes);
/// Map memory of another process, or of this one, at an address of a device.
void* import_memory(const Handle& handle, int device);
/// Unmap it at once; whether there was any.
bool unmap_memory(void* address) noexcept;
/// Unmap it, once all streams of all devices are done with it.
void close_memory(void* address) noexcept;

/// Register host memory: 0, or CUDA's number of what is wrong: 1 (nothing, or a mapped file), 712 (registered
/// already).
int register_host(std::uintptr_t address, std::size_t bytes);
/// Take it back: 0, or 713 (not registered).
int unregister_host(std::uintptr_t address);
std::int64_t registered_bytes();
/// Addresses of memory that was unmapped before it was taken back, since the last call; it is forgotten.
std::vector<std::int64_t> unmapped_while_registered();
/// Whether devices can copy from and to an address of the host asynchronously: it is registered, or of HostBlocks.
bool is_pinned(const void* address);
/// Whether a whole range is in registered memory.
bool is_registered(const void* address, std::size_t bytes);

// Blocks (blocks.cpp).

struct MemoryStats {
  std::int64_t allocated = 0, allocated_peak = 0, reserved = 0, reserved_peak = 0, allocations = 0, frees = 0;
};

/// The memory of a device in blocks. A stream uses those again that it had, without waiting, for it is in order.
class DeviceBlocks {
 public:
  explicit DeviceBlocks(int device) : device_(device) {}

  /// Memory for a stream, poisoned. Throws OutOfMemory where there is no room even after all is drained.
  void* allocate(std::size_t bytes, Stream& stream);
  /// Its stream may use it again, once the streams that were recorded have passed this point.
  void free(void* address) noexcept;
  /// Another stream uses a block, too.
  void record(void* address, Stream& stream);
  /// Give what is free back, after waiting for all streams of the device.
  void empty();
  /// Bytes that may be reserved; at most those of the device.
  void set_limit(std::size_t bytes);
  std::size_t limit();
  MemoryStats stats();
  void reset_peaks();

 private:
  enum class State { UNOWNED, FREE, USED, WAITING };
  struct Block {
    std::size_t bytes = 0;
    State state = State::UNOWNED;
    Stream* owner = nullptr;
    std::set<Stream*> others = {};
    std::vector<Event> until = {};
    std::size_t segment = 0;  // bytes of the piece that was reserved, and of which it is a part
    std::size_t begin = 0;    // where that begins
  };
  using Blocks = std::map<std::size_t, Block>;  // by offset; they cover the device without a gap

  void begin();
  Blocks::iterator find(std::size_t bytes, State state, const Stream* owner, std::size_t wanted);
  Blocks::iterator find_or_reserve(std::size_t bytes, Stream& stream);
  Blocks::iterator merge(Blocks::iterator block);
  void poison(std::size_t offset, const Block& block) noexcept;
  void release(Blocks::iterator block) noexcept;
  void let_go_of_passed() noexcept;
  void give_back();

  const int device_;
  std::mutex mutex_;
  Blocks blocks_;
  std::set<std::size_t> waiting_;
  std::size_t limit_ = 0;
  MemoryStats stats_;
};

DeviceBlocks& device_blocks(int device);

/// Pinned memory of the host in blocks, which are used again once the recorded streams have passed.
class HostBlocks {
 public:
  /// Memory of the host, poisoned.
  void* allocate(std::size_t bytes);
  void free(void* address) noexcept;
  /// A stream copies from or to the block of an address, which may lie inside it; whether there is one.
  bool record(const void* address, Stream& stream);
  bool contains(const void* address);
  void empty();
  MemoryStats stats();

 private:
  struct Block {
    std::size_t bytes = 0;
    bool used = false;
    std::set<Stream*> streams = {};
    std::vector<Event> until = {};
  };

  std::map<std::uintptr_t, Block>::iterator find(const void* address);

  std::mutex mutex_;
  std::map<std::uintptr_t, Block> blocks_;
  MemoryStats stats_;
};

HostBlocks& host_blocks();

}  // namespace sim
