// Blocks of memory: of a device by stream, and pinned ones of the host.
//
// A device's blocks cover it without a gap. One that nobody owns goes to the stream that asks for it, and stays that
// stream's when it is free again: the stream may use it at once, whatever it has still to do, because it is in order;
// other streams may not, until all is given back. Free neighbours of one stream become one block, and a block that is
// longer than what is asked for is split. That is what CUDA's allocator does.
//
// Segments. With GSPLIT_SIM_SEGMENTS=1 memory is reserved in pieces as CUDA's allocator does: of 2 MiB for what takes
// up to 1 MiB, of 20 MiB for what takes less than 10, of multiples of 2 MiB for the rest. A block is never larger
// than its segment, one of a large segment is split only where more than 1 MiB is left, and a segment is given back
// as a whole. Without, a piece is what was asked for, and neighbours become one whatever they came as.
//
// A block that other streams were recorded for waits: at each allocation those are let go whose streams have passed
// the point where it was freed. Nobody waits for them, and no lazy stream is pulled.
//
// Poison: when a block is free for its stream, a task on that stream fills it, as the next owner's first task might;
// so whoever reads it later without having recorded its stream reads poison. Memory of nobody is filled when it is
// taken. Pinned memory is filled when it is allocated.
//
// Invariants: no two neighbours are free for the same stream (of one segment), and none are both unowned; `reserved`
// is the bytes of all blocks with an owner, `allocated` those in use.
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>

#include "core.hpp"

namespace sim {
namespace {

constexpr std::size_t UNIT = 512;  // blocks are multiples of it, as CUDA's are
constexpr std::size_t PAGE = 4096;

constexpr std::size_t MIB = std::size_t{1} << 20;

std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

bool in_segments() {
  static const bool asked = std::getenv("GSPLIT_SIM_SEGMENTS") != nullptr;
  return asked;
}

/// Bytes that are reserved for a block of so many.
std::size_t segment_of(std::size_t bytes) {
  if (!in_segments()) return bytes;
  return bytes <= MIB ? 2 * MIB : bytes < 10 * MIB ? 20 * MIB : rounded(bytes, 2 * MIB);
}

/// Whether a block of so many bytes may be a part of a segment: small ones and others have segments of their own.
bool may_lie_in(std::size_t bytes, std::size_t segment) {
  return !in_segments() || (bytes <= MIB) == (segment == 2 * MIB);
}

/// Whether what is left of a block becomes one.
bool is_split(std::size_t left, std::size_t segment) {
  return left > 0 && (!in_segments() || segment == 2 * MIB || left > MIB);
}

void add(std::int64_t& now, std::int64_t& peak, std::int64_t bytes) {
  now += bytes;
  peak = std::max(peak, now);
}

bool passed(const std::vector<Event>& events) {
  return std::all_of(events.begin(), events.end(),
                     [](const Event& event) { return event.stream->reached(event.ticket); });
}

std::vector<Event> now_of(const std::set<Stream*>& streams) {
  std::vector<Event> events;
  for (Stream* stream : streams) events.push_back(stream->record());
  return events;
}

}  // namespace

DeviceBlocks& device_blocks(int device) {
  static auto* const all = [] {
    auto* made = new std::vector<std::unique_ptr<DeviceBlocks>>;
    for (int i = 0; i < device_count(); ++i) made->push_back(std::make_unique<DeviceBlocks>(i));
    return made;
  }();
  return *all->at(static_cast<std::size_t>(device));
}

HostBlocks& host_blocks() {
  static auto* const all = new HostBlocks;
  return *all;
}

void DeviceBlocks::begin() {
  if (!blocks_.empty()) return;
  make_context(device_);
  device_base(device_);
  blocks_[0].bytes = device_bytes();
  if (limit_ == 0) limit_ = device_bytes() - context_bytes();
}

void* DeviceBlocks::allocate(std::size_t bytes, Stream& stream) {
  const std::lock_guard lock(mutex_);
  begin();
  bytes = rounded(std::max<std::size_t>(bytes, 1), UNIT);
  let_go_of_passed();
  auto block = find_or_reserve(bytes, stream);
  if (block == blocks_.end()) {
    drain(device_);
    let_go_of_passed();
    give_back();
    block = find_or_reserve(bytes, stream);
  }
  if (block == blocks_.end()) {
    throw OutOfMemory("sim:" + std::to_string(device_) + " is out of memory: " + std::to_string(bytes) +
                      " bytes are asked for, " + std::to_string(stats_.reserved) + " of " + std::to_string(limit_) +
                      " are taken");
  }
  Block& found = block->second;
  if (is_split(found.bytes - bytes, found.segment)) {
    blocks_[block->first + bytes] = {found.bytes - bytes, State::FREE, &stream, {}, {}, found.segment, found.begin};
    found.bytes = bytes;
  }
  found.state = State::USED;
  add(stats_.allocated, stats_.allocated_peak, static_cast<std::int64_t>(found.bytes));
  ++stats_.allocations;
  return reinterpret_cast<void*>(device_base(device_) + block->first);
}

/// The smallest block in a state that is long enough, for one of so many bytes that is wanted.
DeviceBlocks::Blocks::iterator DeviceBlocks::find(std::size_t bytes, State state, const Stream* owner,
                                                  std::size_t wanted) {
  auto best = blocks_.end();
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    const Block& it = block->second;
    if (it.state != state || it.owner != owner || it.bytes < bytes) continue;
    if (state == State::FREE && !may_lie_in(wanted, it.segment)) continue;
    if (best == blocks_.end() || it.bytes < best->second.bytes) best = block;
  }
  return best;
}

/// A free block of the stream, or one of nobody's that becomes the stream's; the end where neither is there.
DeviceBlocks::Blocks::iterator DeviceBlocks::find_or_reserve(std::size_t bytes, Stream& stream) {
  auto block = find(bytes, State::FREE, &stream, bytes);
  if (block != blocks_.end()) return block;
  bytes = segment_of(bytes);
  block = find(bytes, State::UNOWNED, nullptr, bytes);
  if (block == blocks_.end() || static_cast<std::size_t>(stats_.reserved) + bytes > limit_) return blocks_.end();
  if (block->second.bytes > bytes) {
    blocks_[block->first + bytes].bytes = block->second.bytes - bytes;
    block->second.bytes = bytes;
  }
  block->second.owner = &stream;
  block->second.segment = bytes;
  block->second.begin = block->first;
  add(stats_.reserved, stats_.reserved_peak, static_cast<std::int64_t>(bytes));
  poison(block->first, block->second);
  return block;
}

void DeviceBlocks::free(void* address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(reinterpret_cast<std::uintptr_t>(address) - device_base(device_));
  Block& it = block->second;
  stats_.allocated -= static_cast<std::int64_t>(it.bytes);
  ++stats_.frees;
  if (it.others.empty()) return release(block);
  it.state = State::WAITING;
  it.until = now_of(it.others);
  it.others.clear();
  waiting_.insert(block->first);
}

void DeviceBlocks::record(void* address, Stream& stream) {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(reinterpret_cast<std::uintptr_t>(address) - device_base(device_));
  if (block == blocks_.end() || block->second.state != State::USED) return;
  if (&stream != block->second.owner) block->second.others.insert(&stream);
}

void DeviceBlocks::poison(std::size_t offset, const Block& block) noexcept {
  void* const there = reinterpret_cast<void*>(device_base(device_) + DISTANCE + offset);
  block.owner->enqueue_always("poison", [there, bytes = block.bytes] { std::memset(there, POISON, bytes); });
}

/// The block is free for its stream from now on.
void DeviceBlocks::release(Blocks::iterator block) noexcept {
  poison(block->first, block->second);
  block->second.state = State::FREE;
  merge(block);
}

void DeviceBlocks::let_go_of_passed() noexcept {
  for (auto offset = waiting_.begin(); offset != waiting_.end();) {
    const auto block = blocks_.find(*offset);
    if (!passed(block->second.until)) {
      ++offset;
      continue;
    }
    block->second.until.clear();
    offset = waiting_.erase(offset);
    release(block);
  }
}

/// Joins a block with its neighbours in the same state and of the same stream.
DeviceBlocks::Blocks::iterator DeviceBlocks::merge(Blocks::iterator block) {
  const auto alike = [&](Blocks::iterator other) {
    if (other->second.state != block->second.state || other->second.owner != block->second.owner) return false;
    return !in_segments() || block->second.state == State::UNOWNED || other->second.begin == block->second.begin;
  };
  if (block != blocks_.begin() && alike(std::prev(block))) {
    const auto before = std::prev(block);
    before->second.bytes += block->second.bytes;
    blocks_.erase(block);
    block = before;
  }
  if (const auto after = std::next(block); after != blocks_.end() && alike(after)) {
    block->second.bytes += after->second.bytes;
    blocks_.erase(after);
  }
  return block;
}

/// All free blocks that are whole segments are nobody's, and their pages the host's; all streams have been drained.
void DeviceBlocks::give_back() {
  drain(device_);  // poison that was only issued
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    if (block->second.state != State::FREE) continue;
    if (in_segments() && block->second.bytes != block->second.segment) continue;
    stats_.reserved -= static_cast<std::int64_t>(block->second.bytes);
    forget_pages(device_, block->first, block->second.bytes);
    block->second.state = State::UNOWNED;
    block->second.owner = nullptr;
    block = merge(block);
  }
}

void DeviceBlocks::empty() {
  const std::lock_guard lock(mutex_);
  drain(device_);
  let_go_of_passed();
  give_back();
}

void DeviceBlocks::set_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = std::min(bytes, device_bytes() - context_bytes());
}

std::size_t DeviceBlocks::limit() {
  const std::lock_guard lock(mutex_);
  return limit_ == 0 ? device_bytes() - context_bytes() : limit_;
}

MemoryStats DeviceBlocks::stats() {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void DeviceBlocks::reset_peaks() {
  const std::lock_guard lock(mutex_);
  stats_.allocated_peak = stats_.allocated;
  stats_.reserved_peak = stats_.reserved;
}

void* HostBlocks::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes = std::bit_ceil(std::max<std::size_t>(bytes, PAGE));  // blocks are of powers of two, as CUDA's are
  for (auto& [address, block] : blocks_) {
    if (block.used || block.bytes != bytes || !passed(block.until)) continue;
    block.used = true;
    block.until.clear();
    add(stats_.allocated, stats_.allocated_peak, static_cast<std::int64_t>(block.bytes));
    return std::memset(reinterpret_cast<void*>(address), POISON, block.bytes);
  }
  void* const address = std::aligned_alloc(PAGE, bytes);
  if (address == nullptr) throw std::bad_alloc();
  blocks_[reinterpret_cast<std::uintptr_t>(address)] = {bytes, true};
  add(stats_.allocated, stats_.allocated_peak, static_cast<std::int64_t>(bytes));
  add(stats_.reserved, stats_.reserved_peak, static_cast<std::int64_t>(bytes));
  ++stats_.allocations;
  return std::memset(address, POISON, bytes);
}

void HostBlocks::free(void* address) noexcept {
  const std::lock_guard lock(mutex_);
  Block& block = blocks_.at(reinterpret_cast<std::uintptr_t>(address));
  block.used = false;
  block.until = now_of(block.streams);
  block.streams.clear();
  stats_.allocated -= static_cast<std::int64_t>(block.bytes);
}

std::map<std::uintptr_t, HostBlocks::Block>::iterator HostBlocks::find(const void* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  auto found = blocks_.upper_bound(number);
  if (found == blocks_.begin()) return blocks_.end();
  --found;
  return number < found->first + found->second.bytes && found->second.used ? found : blocks_.end();
}

bool HostBlocks::record(const void* address, Stream& stream) {
  const std::lock_guard lock(mutex_);
  const auto found = find(address);
  if (found == blocks_.end()) return false;
  found->second.streams.insert(&stream);
  return true;
}

bool HostBlocks::contains(const void* address) {
  const std::lock_guard lock(mutex_);
  return find(address) != blocks_.end();
}

void HostBlocks::empty() {
  const std::lock_guard lock(mutex_);
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    if (block->second.used) {
      ++block;
      continue;
    }
    for (const Event& event : block->second.until) event.wait();
    stats_.reserved -= static_cast<std::int64_t>(block->second.bytes);
    std::free(reinterpret_cast<void*>(block->first));
    block = blocks_.erase(block);
  }
}

MemoryStats HostBlocks::stats() {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace sim
