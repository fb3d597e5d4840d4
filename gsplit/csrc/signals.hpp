// Signals that end a process at once, while a library computes that neither looks for them nor lets Python look.
//
// A command that Ctrl-C ends says so and has exit code 130, after SIGTERM 143: so it is here, by a handler in C.
// METIS takes SIGTERM for itself and jumps out of whatever it is at, which can leave the process hanging. It does so
// when it begins, and then nobody else runs in Python: so a thread of ours restores the handler every few
// milliseconds, until the library is done.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace gsplit {

class EndingSignals {
 public:
  /// Has these signals, SIGINT and SIGTERM or one of them, end the process.
  explicit EndingSignals(std::vector<int> numbers);
  /// Stops the thread; what handled the signals before is for the caller to restore.
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

 private:
  void handle() const;

  std::vector<int> numbers_;
  std::atomic<bool> over_{false};
  std::thread keeper_;
};

}  // namespace gsplit
