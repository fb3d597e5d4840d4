// Numbers that processes wait for, in memory that they share: whoever writes one wakes those who sleep on it.
//
// A number only grows (and may begin again at 0 after 2^32). What was written to memory before a number was posted is
// there for whoever has seen the number. A wait looks for some microseconds, then sleeps (futex): processes that
// share cores must not burn what the one that they wait for could use.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace gsplit {

inline constexpr int LOOKS = 256;  // before a wait goes to sleep

inline void post_number(uint32_t& word, uint32_t number) {
  std::atomic_ref<uint32_t>(word).store(number, std::memory_order_seq_cst);
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// Waits until the word has reached `number`; returns whether it has, which it may not after so many seconds, or
/// where a signal came.
inline bool wait_for_number(uint32_t& word, uint32_t number, double seconds) {
  const std::atomic_ref<uint32_t> shared(word);
  const auto reached = [number](uint32_t seen) { return static_cast<int32_t>(seen - number) >= 0; };
  for (int look = 0; look < LOOKS; ++look) {
    if (reached(shared.load(std::memory_order_acquire))) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  const uint32_t seen = shared.load(std::memory_order_seq_cst);
  if (reached(seen)) return true;
  const auto whole = static_cast<time_t>(seconds);
  const timespec patience{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &patience, nullptr, 0);  // not where the word has changed since
  return reached(shared.load(std::memory_order_acquire));
}

}  // namespace gsplit
