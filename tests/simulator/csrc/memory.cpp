// Memory of devices, without blocks: addresses, what other processes have, and host memory that is registered.
//
// One range of addresses without access is reserved for all; each device, and each memory that was opened from
// another process, takes a piece of it in turn. DISTANCE further on lies a second range, where the piece is mapped,
// shared and for reading and writing. Nothing is ever mapped in the first range, so no access to it can succeed, and
// no protection changes while tasks run. A memfd takes memory for the pages that were written alone.
//
// Invariants: the two ranges are as far apart as DISTANCE says, and as long; a piece begins and ends at a page.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "core.hpp"
#include "faults.hpp"

namespace sim {
namespace {

constexpr std::size_t PAGE = 4096;
constexpr std::size_t DEFAULT_BYTES = std::size_t{8} << 30;
constexpr int OK = 0, INVALID_VALUE = 1, OPERATING_SYSTEM = 304, ALREADY_REGISTERED = 712,
              NOT_REGISTERED = 713;  // as CUDA has them

/// Bytes of addresses before `begin`.
struct Piece {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;  // that are mapped: whole pages
  int device = 0;
  int fd = -1;  // a device's own memory
};

/// Host memory that is registered.
struct Registered {
  std::size_t bytes = 0;
  std::string mapping;  // what was mapped there, as mapping_of has it
};

struct Memory {
  std::mutex mutex;
  std::uintptr_t begin = 0, next = 0;               // of the reserved range
  std::map<std::uintptr_t, Piece> pieces;           // by the address behind each
  std::vector<std::uintptr_t> bases;                // of devices; 0: not made yet
  std::map<std::uintptr_t, Registered> registered;  // by address
  std::vector<std::int64_t> unmapped;               // addresses that were unmapped before they were taken back
};

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

Memory& memory() {
  static auto* const all = [] {
    auto* made = new Memory;
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* begin = mmap(nullptr, 2 * DISTANCE, PROT_NONE, flags, -1, 0);
    if (begin == MAP_FAILED) fail("no addresses for simulated devices");
    madvise(begin, 2 * DISTANCE, MADV_DONTDUMP);
    made->begin = made->next = reinterpret_cast<std::uintptr_t>(begin);
    made->bases.resize(static_cast<std::size_t>(device_count()), 0);
    return made;
  }();
  return *all;
}

std::size_t whole_pages(std::size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

/// Takes the next addresses and maps a file there; the lock is held.
std::uintptr_t map_piece(Memory& all, int fd, std::size_t offset, std::size_t bytes, int device, bool own) {
  bytes = whole_pages(bytes);
  const std::uintptr_t begin = all.next;
  if (begin + bytes > all.begin + DISTANCE) throw std::runtime_error("no addresses are left for simulated devices");
  void* const there = reinterpret_cast<void*>(begin + DISTANCE);
  constexpr int flags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
  if (mmap(there, bytes, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset)) == MAP_FAILED) {
    fail("memory of a simulated device cannot be mapped");
  }
  madvise(there, bytes, MADV_DONTDUMP);
  all.next += bytes + PAGE;  // a page that nobody has, so that running over an end dies
  all.pieces[begin + bytes] = {begin, bytes, device, own ? fd : -1};
  return begin;
}

/// The piece of an address, or none; the lock is held.
const Piece* piece_of(const Memory& all, std::uintptr_t address) {
  const auto found = all.pieces.upper_bound(address);
  return found == all.pieces.end() || address < found->second.begin ? nullptr : &found->second;
}

/// The registered range that an address is in, or the end; the lock is held.
auto range_of(const Memory& all, std::uintptr_t address) {
  auto found = all.registered.upper_bound(address);
  if (found == all.registered.begin()) return all.registered.end();
  --found;
  return address < found->first + found->second.bytes ? found : all.registered.end();
}

/// What is mapped at a range of writable memory: the file of memory and the place in it, or "anonymous". Empty where
/// something else is, as a file of a disk, or nothing.
std::string mapping_of(std::uintptr_t begin, std::uintptr_t end) {
  std::ifstream maps("/proc/self/maps");
  std::string found;
  std::uintptr_t covered = begin;
  for (std::string line; covered < end && std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, rights, offset, numbers, inode, path;
    words >> range >> rights >> offset >> numbers >> inode >> path;
    unsigned long first = 0, last = 0;
    if (std::sscanf(range.c_str(), "%lx-%lx", &first, &last) != 2 || last <= covered || first > covered) continue;
    const auto starts = [&](const char* with) { return path.rfind(with, 0) == 0; };
    const bool file = starts("/") && !starts("/memfd:") && !starts("/dev/shm/") && !starts("/dev/zero");
    if (file || rights.rfind("rw", 0) != 0) return "";
    if (covered == begin) {
      const std::uintptr_t place = std::stoul(offset, nullptr, 16) + (begin - first);
      found = inode == "0" ? "anonymous" : numbers + " " + inode + " " + std::to_string(place);
    }
    covered = last;
  }
  return covered >= end ? found : "";
}

bool is_unmapped(std::uintptr_t address, const Registered& range) {
  return mapping_of(address, address + range.bytes) != range.mapping;
}

}  // namespace

std::size_t device_bytes() {
  static const std::size_t bytes = [] {
    const char* given = std::getenv("GSPLIT_SIM_BYTES");
    return given == nullptr ? DEFAULT_BYTES : whole_pages(std::strtoull(given, nullptr, 10));
  }();
  return bytes;
}

std::uintptr_t device_base(int device) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  std::uintptr_t& base = all.bases.at(static_cast<std::size_t>(device));
  if (base == 0) {
    const int fd = memfd_create(("sim" + std::to_string(device)).c_str(), MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(device_bytes())) != 0) fail("no memory for a simulated device");
    base = map_piece(all, fd, 0, device_bytes(), device, true);
  }
  return base;
}

void forget_pages(int device, std::size_t offset, std::size_t bytes) {
  const std::size_t begin = whole_pages(offset), end = (offset + bytes) / PAGE * PAGE;
  if (begin >= end) return;
  madvise(reinterpret_cast<void*>(device_base(device) + DISTANCE + begin), end - begin, MADV_REMOVE);
}

void* working(const void* address) {
  if (address == nullptr) return nullptr;
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  Memory& all = memory();
  if (number < all.begin || number >= all.begin + DISTANCE)
    throw std::logic_error("an address of no simulated device");
  return reinterpret_cast<void*>(number + DISTANCE);
}

int device_of(const void* address) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const Piece* const piece = piece_of(all, reinterpret_cast<std::uintptr_t>(address));
  return piece == nullptr ? -1 : piece->device;
}

Handle export_memory(const void* address, std::size_t bytes) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  const Piece* const piece = piece_of(all, number);
  if (piece == nullptr || piece->fd < 0) throw std::runtime_error("only a device's own memory can be exported");
  return {getpid(), piece->fd, piece->device, static_cast<std::int64_t>(number - piece->begin),
          static_cast<std::int64_t>(bytes)};
}

void* import_memory(const Handle& handle, int device) {
  const std::string path = "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) fail("memory of process " + std::to_string(handle.pid) + " cannot be opened");
  const auto offset = static_cast<std::size_t>(handle.offset), first = offset / PAGE * PAGE;
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto bytes = offset - first + static_cast<std::size_t>(handle.bytes);
  const std::uintptr_t begin = map_piece(all, fd, first, bytes, device, false);
  close(fd);  // the mapping stays
  return reinterpret_cast<void*>(begin + (offset - first));
}

void close_memory(void* address) noexcept {
  drain_all();
  unmap_memory(address);
}

bool unmap_memory(void* address) noexcept {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const Piece* const piece = piece_of(all, reinterpret_cast<std::uintptr_t>(address));
  if (piece == nullptr || piece->fd >= 0) return false;
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  mmap(reinterpret_cast<void*>(piece->begin + DISTANCE), piece->bytes, PROT_NONE, flags, -1, 0);
  all.pieces.erase(piece->begin + piece->bytes);
  return true;
}

int register_host(std::uintptr_t address, std::size_t bytes) {
  if (address == 0 || bytes == 0) return INVALID_VALUE;
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto behind = all.registered.lower_bound(address);
  const bool overlaps = behind != all.registered.end() && behind->first < address + bytes;
  if (overlaps || range_of(all, address) != all.registered.end()) return ALREADY_REGISTERED;
  std::string mapping = mapping_of(address, address + bytes);
  if (mapping.empty()) return INVALID_VALUE;
  take_time_to_register(bytes);  // with the lock, which the driver holds as well
  std::size_t total = bytes;
  for (const auto& [begin, range] : all.registered) total += range.bytes;
  if (refuses_to_register(total)) return OPERATING_SYSTEM;
  all.registered[address] = {bytes, std::move(mapping)};
  return OK;
}

int unregister_host(std::uintptr_t address) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto found = all.registered.find(address);
  if (found == all.registered.end()) return NOT_REGISTERED;
  if (is_unmapped(address, found->second)) all.unmapped.push_back(static_cast<std::int64_t>(address));
  all.registered.erase(found);
  return OK;
}

std::vector<std::int64_t> unmapped_while_registered() {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  for (auto range = all.registered.begin(); range != all.registered.end();) {
    const bool gone = is_unmapped(range->first, range->second);
    if (gone) all.unmapped.push_back(static_cast<std::int64_t>(range->first));
    range = gone ? all.registered.erase(range) : std::next(range);
  }
  return std::exchange(all.unmapped, {});
}

std::int64_t registered_bytes() {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  std::size_t total = 0;
  for (const auto& [address, range] : all.registered) total += range.bytes;
  return static_cast<std::int64_t>(total);
}

bool is_pinned(const void* address) { return is_registered(address, 1) || host_blocks().contains(address); }

bool is_registered(const void* address, std::size_t bytes) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  auto number = reinterpret_cast<std::uintptr_t>(address);
  const auto end = number + bytes;
  while (number < end) {  // it may have been registered in pieces
    const auto found = range_of(all, number);
    if (found == all.registered.end()) return false;
    number = found->first + found->second.bytes;
  }
  return true;
}

}  // namespace sim
