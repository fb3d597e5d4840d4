// Random draws that depend on nothing but a key (law 1 of docs/architecture.md).
//
// A stream is SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): word i of the stream with state s is
// mix64(s + (i + 1) * GOLDEN). It needs no stored state, so the draws of one vertex are the same whichever
// process, thread or part makes them. Every 64-bit word gives two 32-bit draws, the low half first.
//
// A draw below n takes the high half of draw * n and rejects the few products that would favour some results
// (Lemire, "Fast random integer generation in an interval", TOMACS 2019), so it is exactly uniform.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace gsplit {

inline constexpr uint64_t GOLDEN = 0x9e3779b97f4a7c15ULL;

/// The finaliser of SplitMix64: a bijection on 64 bits.
inline uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// One key from several words; the order of the words matters.
inline uint64_t fold_key(std::initializer_list<uint64_t> words) {
  uint64_t key = 0;
  for (uint64_t word : words) key = mix64((key ^ word) + GOLDEN);
  return key;
}

/// The draws of one vertex at one hop.
class Draws {
 public:
  Draws(uint64_t hop_key, uint64_t global_id) : state_(fold_key({hop_key, global_id})) {}

  /// Uniform in [0, n), n >= 1.
  uint32_t below(uint32_t n) {
    uint64_t product = uint64_t{half()} * n;
    auto low = static_cast<uint32_t>(product);
    if (low < n) [[unlikely]] {
      const uint32_t threshold = (0u - n) % n;
      while (low < threshold) {
        product = uint64_t{half()} * n;
        low = static_cast<uint32_t>(product);
      }
    }
    return static_cast<uint32_t>(product >> 32);
  }

 private:
  uint32_t half() {
    if (has_high_) {
      has_high_ = false;
      return static_cast<uint32_t>(word_ >> 32);
    }
    state_ += GOLDEN;
    word_ = mix64(state_);
    has_high_ = true;
    return static_cast<uint32_t>(word_);
  }

  uint64_t state_;
  uint64_t word_ = 0;
  bool has_high_ = false;
};

}  // namespace gsplit
