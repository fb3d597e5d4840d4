// From ids of the user's own (names, hashes, numbers of any size) to vertices, in the order of first appearance.
//
// An id is a run of bytes; id i of n is data[offsets[i] .. offsets[i + 1]], as in a column of Apache Arrow. The table
// is open addressing with linear probing, at most three quarters full. A slot has 32 bits of the id's hash and the
// vertex, so an id that is not there is told without its bytes but once in 2^32, and one that is there costs three
// cache misses: the slot, where its bytes begin, the bytes. Ids are taken BATCH at a time and each of the three is
// fetched ahead. The hash of each vertex is kept, so growing reads no bytes.
//
// The bytes lie in a file that is mapped whole, elsewhere when it grows: the system may write them out, and what the
// map itself holds is 16 bytes a vertex and 11 to 22 for the slots, however long ids are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gsplit {

/// Bytes appended to a file that is mapped from the beginning to the end.
class MappedBytes {
 public:
  /// Makes the file, which must not be there. Throws std::system_error where it cannot.
  explicit MappedBytes(const std::string& path);
  ~MappedBytes();
  MappedBytes(const MappedBytes&) = delete;
  MappedBytes& operator=(const MappedBytes&) = delete;

  /// Makes room for so many bytes more, which may move all bytes. Throws std::system_error where the disk is full or
  /// no addresses are left.
  void reserve(size_t more);
  void append(const char* bytes, size_t count);

  const char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  int file_ = -1;
  char* data_ = nullptr;
  size_t size_ = 0, mapped_ = 0;
};

class IdMap {
 public:
  explicit IdMap(const std::string& path);

  /// The vertex of each id; one that is new becomes the next vertex. Throws std::overflow_error from 2^32 on.
  void add(std::span<const int64_t> offsets, const char* data, std::span<int64_t> vertices);

  /// The vertex of each id, -1 where there is none.
  void find(std::span<const int64_t> offsets, const char* data, std::span<int64_t> vertices) const;

  /// Where the bytes of each vertex's id begin, and where the last one ends: [N + 1].
  const std::vector<int64_t>& offsets() const { return offsets_; }
  const char* data() const { return bytes_.data(); }
  size_t num_vertices() const { return hashes_.size(); }

 private:
  struct Slot {
    uint32_t tag, vertex;
  };

  template <bool insert>
  void look_up(std::span<const int64_t> offsets, const char* data, std::span<int64_t> vertices);
  void make_room(size_t more);

  MappedBytes bytes_;
  std::vector<int64_t> offsets_{0};
  std::vector<uint64_t> hashes_;
  std::vector<Slot> slots_;
};

}  // namespace gsplit
