// Notes that processes leave for each other in memory that they share.
//
// Two that post at the same time, each in its own place, and then look at the other's: at least one of them sees what
// the other wrote. That takes sequential consistency, of the write as of the reads; with less, a processor may read
// before its own write is out, and both see nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace gsplit {

/// The low bits of a note, which say how often its place was written. Notes of different rounds are not compared.
inline constexpr uint64_t kRoundMask = 0xffff;

/// Writes `note` at words[own * slots + slot] and compares it with words[peer * slots + slot] of every peer.
///
/// Returns whether all agree; peers that have not posted their note of this round, or have posted a later one since,
/// are left out. The memory is aligned to 8 bytes, and the caller has checked the indices.
inline bool post(std::span<uint64_t> words, int64_t slots, int64_t slot, int64_t own, uint64_t note,
                 std::span<const int64_t> peers) {
  std::atomic_ref<uint64_t>(words[own * slots + slot]).store(note, std::memory_order_seq_cst);
  bool agree = true;
  for (const int64_t peer : peers) {
    const uint64_t theirs = std::atomic_ref<uint64_t>(words[peer * slots + slot]).load(std::memory_order_seq_cst);
    agree &= theirs == note || ((theirs ^ note) & kRoundMask) != 0;
  }
  return agree;
}

}  // namespace gsplit
