#include "id_map.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "random.hpp"

namespace gsplit {
namespace {

constexpr size_t STEP = size_t{1} << 16;  // the file grows by so many bytes at least
constexpr size_t BATCH = 32;
constexpr uint32_t NONE = UINT32_MAX;
constexpr size_t FEWEST_SLOTS = 1024;

[[noreturn]] void fail(int error) { throw std::system_error(error, std::generic_category()); }

/// Eight bytes at a time, each folded in by the finaliser of SplitMix64; the length goes in first.
uint64_t hash_of(const char* bytes, size_t count) {
  uint64_t hash = mix64(count + GOLDEN), word = 0;
  for (; count >= 8; bytes += 8, count -= 8) {
    std::memcpy(&word, bytes, 8);
    hash = fold_word(hash, word);
  }
  if (!count) return hash;
  word = 0;
  std::memcpy(&word, bytes, count);
  return fold_word(hash, word);
}

}  // namespace

MappedBytes::MappedBytes(const std::string& path)
    : file_(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
  if (file_ < 0) fail(errno);
}

MappedBytes::~MappedBytes() {
  if (data_) munmap(data_, mapped_);
  close(file_);
}

void MappedBytes::reserve(size_t more) {
  if (size_ + more <= mapped_) return;
  const size_t end = (size_ + more + std::max(STEP, mapped_ / 4) + STEP - 1) / STEP * STEP;
  // A full disk is an error here, not a signal while the map is written.
  int error = 0;
  do error = posix_fallocate(file_, static_cast<off_t>(mapped_), static_cast<off_t>(end - mapped_));
  while (error == EINTR);
  if (error) fail(error);
  // The map may move: whole addresses for all that may ever come would not be had under a limit on memory.
  void* moved = data_ ? mremap(data_, mapped_, end, MREMAP_MAYMOVE)
                      : mmap(nullptr, end, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (moved == MAP_FAILED) fail(errno);
  data_ = static_cast<char*>(moved);
  mapped_ = end;
}

void MappedBytes::append(const char* bytes, size_t count) {
  if (count) std::memcpy(data_ + size_, bytes, count);
  size_ += count;
}

IdMap::IdMap(const std::string& path) : bytes_(path), slots_(FEWEST_SLOTS, Slot{0, NONE}) {}

void IdMap::make_room(size_t more) {
  if (hashes_.size() + more >= NONE) throw std::overflow_error("there are 2^32 ids or more");
  const size_t wanted = std::bit_ceil((hashes_.size() + more) * 4 / 3 + 1);
  if (wanted <= slots_.size()) return;
  slots_.assign(wanted, Slot{0, NONE});
  for (size_t v = 0; v < hashes_.size(); ++v) {
    size_t at = hashes_[v] & (wanted - 1);
    while (slots_[at].vertex != NONE) at = (at + 1) & (wanted - 1);
    slots_[at] = {static_cast<uint32_t>(hashes_[v] >> 32), static_cast<uint32_t>(v)};
  }
}

template <bool insert>
void IdMap::look_up(std::span<const int64_t> offsets, const char* data, std::span<int64_t> vertices) {
  std::array<uint64_t, BATCH> hashes;
  for (size_t begin = 0; begin < vertices.size(); begin += BATCH) {
    const size_t count = std::min(BATCH, vertices.size() - begin);
    const auto text = [&](size_t i) { return data + offsets[begin + i]; };
    const auto length = [&](size_t i) { return static_cast<size_t>(offsets[begin + i + 1] - offsets[begin + i]); };
    if constexpr (insert) {
      make_room(count);
      bytes_.reserve(static_cast<size_t>(offsets[begin + count] - offsets[begin]));
    }
    const size_t mask = slots_.size() - 1;
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = hash_of(text(i), length(i));
      __builtin_prefetch(&slots_[hashes[i] & mask]);
    }
    const auto first_match = [&](size_t i) {  // the first slot that is empty or has the same tag
      size_t at = hashes[i] & mask;
      while (slots_[at].vertex != NONE && slots_[at].tag != hashes[i] >> 32) at = (at + 1) & mask;
      return at;
    };
    for (size_t i = 0; i < count; ++i)
      if (const Slot slot = slots_[first_match(i)]; slot.vertex != NONE) __builtin_prefetch(&offsets_[slot.vertex]);
    for (size_t i = 0; i < count; ++i)
      if (const Slot slot = slots_[first_match(i)]; slot.vertex != NONE)
        __builtin_prefetch(bytes_.data() + offsets_[slot.vertex]);
    for (size_t i = 0; i < count; ++i) {
      int64_t found = -1;
      size_t at = first_match(i);
      for (; slots_[at].vertex != NONE; at = (at + 1) & mask) {
        if (slots_[at].tag != hashes[i] >> 32) continue;
        const uint32_t vertex = slots_[at].vertex;
        const auto size = static_cast<size_t>(offsets_[vertex + 1] - offsets_[vertex]);
        if (size != length(i) || (size && std::memcmp(bytes_.data() + offsets_[vertex], text(i), size))) continue;
        found = vertex;
        break;
      }
      if (insert && found < 0) {
        found = static_cast<int64_t>(hashes_.size());
        slots_[at] = {static_cast<uint32_t>(hashes[i] >> 32), static_cast<uint32_t>(found)};
        bytes_.append(text(i), length(i));
        hashes_.push_back(hashes[i]);
        offsets_.push_back(static_cast<int64_t>(bytes_.size()));
      }
      vertices[begin + i] = found;
    }
  }
}

void IdMap::add(std::span<const int64_t> offsets, const char* data, std::span<int64_t> vertices) {
  look_up<true>(offsets, data, vertices);
}

void IdMap::find(std::span<const int64_t> offsets, const char* data, std::span<int64_t> vertices) const {
  const_cast<IdMap*>(this)->look_up<false>(offsets, data,
                                           vertices);  // which changes nothing where it inserts nothing
}

}  // namespace gsplit
