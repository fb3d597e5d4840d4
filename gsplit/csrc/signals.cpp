#include "signals.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

namespace gsplit {

namespace {

/// Ends the process with a line for the user; calls nothing that a handler of signals may not.
void end(int number) {
  const char* line = number == SIGTERM ? "terminated\n" : "interrupted\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, std::strlen(line));
  ::_exit(128 + number);
}

}  // namespace

EndingSignals::EndingSignals(std::vector<int> numbers) : numbers_(std::move(numbers)) {
  handle();
  keeper_ = std::thread([this] {
    while (!over_) {
      handle();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
}

EndingSignals::~EndingSignals() {
  over_ = true;
  keeper_.join();
}

void EndingSignals::handle() const {
  for (const int number : numbers_) {
    std::signal(number, end);
  }
}

}  // namespace gsplit
