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

/// k distinct positions below d > k, by Floyd's algorithm.
///
/// The set of positions that are taken is kept in registers where it fits: each draw waits for the one before to
/// be added, and through memory that would take several times as long. Nothing branches on whether a position
/// is taken, for no processor could foretell it.
class Chooser {
 public:
  /// Writes `draws`, which has k + 1 places.
  void choose(uint64_t state, uint32_t d, uint32_t k, uint32_t* draws) {
    if (d <= 64 ? choose_in_words<1>(state, d, k, draws) : d <= 128 && choose_in_words<2>(state, d, k, draws)) return;
    Draws random(state);
    const uint32_t first = d - k;
    if (d > SMALL && k <= LINEAR) {
      for (uint32_t i = 0; i < k; ++i) {
        const uint32_t t = random.below(first + i + 1);
        uint32_t again = 0;
        for (uint32_t j = 0; j < i; ++j) again |= draws[j] == t;
        draws[i] = pick(t, first + i, again);
      }
      return;
    }
    taken_.assign(d / 64 + 1, 0);
    for (uint32_t i = 0; i < k; ++i) {
      const uint32_t t = random.below(first + i + 1);
      draws[i] = pick(t, first + i, (taken_[t / 64] >> (t % 64)) & 1);
      taken_[draws[i] / 64] |= uint64_t{1} << (draws[i] % 64);
    }
  }

 private:
  static constexpr uint32_t SMALL = 512;  // up to here a bitmap in memory is cheaper than
  static constexpr uint32_t LINEAR = 48;  // a scan of up to this many draws

  /// `last` if `again` is 1, `t` if it is 0.
  static uint32_t pick(uint32_t t, uint32_t last, uint32_t again) { return t ^ ((t ^ last) & (0u - again)); }

  /// For d <= 64 * WORDS. Returns false, with nothing of use, where a draw might have to be rejected.
  template <uint32_t WORDS>
  static bool choose_in_words(uint64_t state, uint32_t d, uint32_t k, uint32_t* draws) {
    uint64_t taken[WORDS] = {};
    uint64_t doubt = 0;  // negative as soon as the low half of a product is d or less
    uint32_t last = d - k;
    const auto add = [&](uint64_t half) {
      const uint64_t product = half * (last + 1);
      const auto t = static_cast<uint32_t>(product >> 32);
      doubt |= (product & UINT32_MAX) - (uint64_t{d} + 1);
      uint64_t word = taken[0];
      if constexpr (WORDS == 2) word ^= (taken[0] ^ taken[1]) & (0 - uint64_t{t >> 6});
      const uint32_t draw = pick(t, last, (word >> (t % 64)) & 1);
      const uint64_t bit = uint64_t{1} << (draw % 64);
      if constexpr (WORDS == 2) {
        const uint64_t upper = 0 - uint64_t{draw >> 6};
        taken[0] |= bit & ~upper;
        taken[1] |= bit & upper;
      } else {
        taken[0] |= bit;
      }
      ++last;
      return draw;
    };
    for (uint32_t i = 0; i < k; i += 2) {
      state += GOLDEN;
      const uint64_t word = mix64(state);
      draws[i] = add(word & UINT32_MAX);
      draws[i + 1] = add(word >> 32);  // of an odd k one draw too many, behind the others
    }
    return static_cast<int64_t>(doubt) >= 0;
  }

  std::vector<uint64_t> taken_;
};

}  // namespace gsplit
