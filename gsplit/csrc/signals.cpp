#include "signals.hpp"

#include <chrono>
#include <csignal>

namespace gsplit {

DefaultSignals::DefaultSignals()
    : keeper_([this] {
        while (!over_) {
          std::signal(SIGTERM, SIG_DFL);
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
      }) {}

DefaultSignals::~DefaultSignals() {
  over_ = true;
  keeper_.join();
}

}  // namespace gsplit
