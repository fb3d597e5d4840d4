// From a vertex to a number: its row in the split of its owner, or its place in a list of rows to send.
//
// Each part has maps of its own, keyed by the vertex's rank in the part, and a value of -1 means "none yet".
// Destinations are handled part by part and most of their neighbours lie in the same part, so the map at work is
// small: 4 bytes a vertex of one part, which is the difference between a hit in the second or third cache level
// and a miss. Rows and places are apart because an edge inside the part asks for the row alone.
//
// DenseMap has an entry for every vertex of the part. HashMap has entries for the vertices of the mini-batch
// only: 11 to 22 bytes for each, whatever the size of the graph, but scattered over more memory. Both keep their
// memory from one mini-batch to the next and are cleared in time proportional to what was in them.
// prefetch() is always inlined: the compiler takes a function that only fetches for one that does nothing, and
// drops calls of it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>

#include "memory.hpp"

namespace gsplit {

class DenseMap {
 public:
  explicit DenseMap(size_t num_keys) : values_(num_keys, -1) {}

  [[gnu::always_inline]] void prefetch(size_t key) const { __builtin_prefetch(values_.data() + key); }

  /// The value of a key; where it is -1 the caller sets it, to at least 0.
  int32_t& operator[](size_t key) { return values_[key]; }

  /// The value of a key, -1 where it has none.
  int32_t find(size_t key) const { return values_[key]; }

  /// Forgets everything; key_at(i), i = 0 .. num_keys - 1, are the keys that were given a value.
  template <class KeyAt>
  void clear(size_t num_keys, const KeyAt& key_at) {
    if (num_keys > values_.size() / SPARSE) return clear_all();
    for (size_t i = 0; i < num_keys; ++i) {
      if (i + LOOK_AHEAD < num_keys) prefetch(key_at(i + LOOK_AHEAD));
      values_[key_at(i)] = -1;
    }
  }

  void clear_all() { std::fill(values_.begin(), values_.end(), -1); }

 private:
  static constexpr size_t SPARSE = 16;  // a cache line has 16 values: from one a line on, clearing all is cheaper
  static constexpr size_t LOOK_AHEAD = 16;

  Array<int32_t> values_;
};

/// Open addressing with linear probing, at most three quarters full.
class HashMap {
 public:
  /// Keys are kept in 32 bits. Throws std::invalid_argument where they may not fit.
  explicit HashMap(size_t num_keys) {
    if (num_keys > UINT32_MAX)
      throw std::invalid_argument("a part has 2^32 or more vertices; sample it without a bound on memory");
    replace(empty(MIN_SLOTS));
  }

  [[gnu::always_inline]] void prefetch(size_t key) const { __builtin_prefetch(slots_.data() + home(key)); }

  /// The value of a key; where it is -1 the caller sets it, to at least 0. The reference lives until the next call.
  /// Throws std::bad_alloc where the table cannot grow; it is then as it was.
  int32_t& operator[](size_t key) {
    const size_t at = probe(key);
    return slots_[at].value < 0 ? insert(key, at) : slots_[at].value;
  }

  /// The value of a key, -1 where it has none.
  int32_t find(size_t key) const { return slots_[probe(key)].value; }

  /// Forgets everything. A table far too large for what was in it is halved, so that clearing stays proportional
  /// to use.
  template <class KeyAt>
  void clear(size_t, const KeyAt&) {
    if (used_ == 0) return;
    if (used_ * 16 < slots_.size() && slots_.size() > MIN_SLOTS) shrink();
    clear_all();
  }

  void clear_all() {
    std::fill(slots_.begin(), slots_.end(), FREE);
    used_ = 0;
  }

 private:
  struct Slot {
    uint32_t key;
    int32_t value;  // -1: the slot is free
  };
  static constexpr Slot FREE{0, -1};
  static constexpr size_t MIN_SLOTS = 64;

  /// Multiplicative hashing: the upper bits of the product (Knuth, TAOCP 3, 6.4).
  size_t home(size_t key) const { return (key * 0x9e3779b97f4a7c15ULL) >> shift_; }

  size_t probe(size_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = home(key);
    while (slots_[at].value >= 0 && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }

  [[gnu::noinline]] int32_t& insert(size_t key, size_t at) {
    if ((used_ + 1) * 4 > slots_.size() * 3) {
      grow();
      at = probe(key);
    }
    ++used_;
    slots_[at].key = static_cast<uint32_t>(key);
    return slots_[at].value;
  }

  static Array<Slot> empty(size_t num_slots) { return Array<Slot>(num_slots, FREE); }

  /// Puts another table in place of the one there is, which is returned. Throws nothing.
  Array<Slot> replace(Array<Slot> slots) {
    slots_.swap(slots);
    shift_ = 64 - std::countr_zero(slots_.size());
    return slots;
  }

  void grow() {
    const Array<Slot> old = replace(empty(slots_.size() * 2));  // nothing has changed yet where this throws
    for (const Slot& slot : old)
      if (slot.value >= 0) slots_[probe(slot.key)] = slot;
  }

  /// To half the slots, in the memory there is.
  void shrink() {
    slots_.resize(slots_.size() / 2);
    ++shift_;
  }

  Array<Slot> slots_;  // a power of two
  int shift_ = 0;
  size_t used_ = 0;
};

/// A number of rows or edges that 32 bits hold. Throws std::invalid_argument for others.
inline int32_t checked_row(size_t value) {
  if (value > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    throw std::invalid_argument("a split has more than 2^31 - 1 rows or edges; use a smaller batch size or fan-out");
  return static_cast<int32_t>(value);
}

/// The row of a vertex, with `rank` in its part, among `vertices` of its owner. Inlined: it is asked for each row
/// sent.
template <class Map>
[[gnu::always_inline]] inline int32_t row_at_owner(Map& rows, Array<int64_t>& vertices, int64_t vertex, size_t rank) {
  int32_t& row = rows[rank];
  if (row < 0) {
    row = checked_row(vertices.size());
    vertices.push_back(vertex);
  }
  return row;
}

}  // namespace gsplit
