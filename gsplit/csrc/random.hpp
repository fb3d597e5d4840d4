// Random draws that depend on nothing but a key (law 1 of docs/architecture.md).
//
// A stream is SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): word i of the stream with state s is
// mix64(s + (i + 1) * GOLDEN). It needs no stored state, so the draws of one vertex are the same whichever
// process, thread or part makes them. Every 64-bit word gives two 32-bit draws, the low half first.
//
// A draw below n takes the high half of draw * n and rejects the few products that would favour some results
// (Lemire, "Fast random integer generation in an interval", TOMACS 2019), so it is exactly uniform. Floyd's
// algorithm (Bentley and Floyd, CACM 1987) makes k draws for k distinct positions of d: for j = d-k .. d-1 draw
// t in [0, j]; take t, or j if t was taken before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace gsplit {

inline constexpr uint64_t GOLDEN = 0x9e3779b97f4a7c15ULL;

/// The finaliser of SplitMix64: a bijection on 64 bits.
inline uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// A key with one more word folded in.
inline uint64_t fold_word(uint64_t key, uint64_t word) { return mix64((key ^ word) + GOLDEN); }

/// One key from several words; the order of the words matters.
inline uint64_t fold_key(std::initializer_list<uint64_t> words) {
  uint64_t key = 0;
  for (uint64_t word : words) key = fold_word(key, word);
  return key;
}

/// A stream of draws, one by one.
class Draws {
 public:
  explicit Draws(uint64_t state) : state_(state) {}

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

/// The first `count` draws, draw i below first + i, where none of them may have to be rejected: then returns true.
/// Draws do not wait for each other here, so a processor makes several at once. `draws` has count + 1 places.
inline bool draw_all(uint64_t state, uint32_t first, uint32_t count, uint32_t* draws) {
  bool doubtful = false;
  for (uint32_t i = 0; i < count; i += 2) {
    state += GOLDEN;
    const uint64_t word = mix64(state);
    const uint64_t low = (word & UINT32_MAX) * (first + i);
    const uint64_t high = (word >> 32) * (first + i + 1);
    draws[i] = static_cast<uint32_t>(low >> 32);
    draws[i + 1] = static_cast<uint32_t>(high >> 32);
    doubtful |= static_cast<uint32_t>(low) < first + i;
    doubtful |= static_cast<uint32_t>(high) < first + i + 1;
  }
  return !doubtful;
}

/// k distinct positions below d > k, by Floyd's algorithm.
class Chooser {
 public:
  /// Writes `draws`, which has k + 1 places.
  void choose(uint64_t state, uint32_t d, uint32_t k, uint32_t* draws) {
    const uint32_t first = d - k;
    if (!draw_all(state, first + 1, k, draws)) [[unlikely]] {
      Draws slow(state);
      for (uint32_t i = 0; i < k; ++i) draws[i] = slow.below(first + 1 + i);
    }
    if (d <= 64) {
      uint64_t taken = 0;
      for (uint32_t i = 0; i < k; ++i) {
        const uint32_t draw = pick(draws[i], first + i, (taken >> draws[i]) & 1);
        taken |= uint64_t{1} << draw;
        draws[i] = draw;
      }
    } else if (d <= SMALL) {
      uint64_t taken[SMALL / 64];
      std::fill_n(taken, (d + 63) / 64, 0);
      resolve(taken, first, k, draws);
    } else if (k <= LINEAR) {
      for (uint32_t i = 0; i < k; ++i) {
        uint32_t again = 0;
        for (uint32_t j = 0; j < i; ++j) again |= draws[j] == draws[i];
        draws[i] = pick(draws[i], first + i, again);
      }
    } else {
      taken_.assign(d / 64 + 1, 0);
      resolve(taken_.data(), first, k, draws);
    }
  }

 private:
  static constexpr uint32_t SMALL = 512;
  static constexpr uint32_t LINEAR = 48;

  /// `last` if `again` is 1, `t` if it is 0: without a branch, which nothing could foretell.
  static uint32_t pick(uint32_t t, uint32_t last, uint32_t again) { return t ^ ((t ^ last) & (0u - again)); }

  static void resolve(uint64_t* taken, uint32_t first, uint32_t k, uint32_t* draws) {
    for (uint32_t i = 0; i < k; ++i) {
      const uint32_t t = draws[i];
      const uint32_t draw = pick(t, first + i, (taken[t / 64] >> (t % 64)) & 1);
      taken[draw / 64] |= uint64_t{1} << (draw % 64);
      draws[i] = draw;
    }
  }

  std::vector<uint64_t> taken_;
};

}  // namespace gsplit
