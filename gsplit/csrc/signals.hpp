// Signals that end a process at once, while a library computes that neither looks for them nor lets Python look.
//
// METIS takes SIGTERM for itself and jumps out of whatever it is at, which can leave the process hanging. It does so
// when it begins, and then nobody else runs in Python: so a thread of ours restores the default every few
// milliseconds, until the library is done.
#pragma once

#include <atomic>
#include <thread>

namespace gsplit {

class DefaultSignals {
 public:
  DefaultSignals();
  /// Stops the thread; what handled the signals before is for the caller to restore.
  ~DefaultSignals();
  DefaultSignals(const DefaultSignals&) = delete;
  DefaultSignals& operator=(const DefaultSignals&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread keeper_;
};

}  // namespace gsplit
