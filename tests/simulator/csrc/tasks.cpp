// What streams were given to do, in the order in which they were: what a device with a number of slots would make of
// it is computed from that (simulated/occupancy.py), in no time of anybody's.
#include <mutex>
#include <utility>

#include "core.hpp"

namespace sim {
namespace {

struct Noted {
  std::mutex mutex;
  bool on = false;
  std::vector<std::string> tasks;
};

Noted& noted() {
  static auto* const all = new Noted;
  return *all;
}

}  // namespace

void note_tasks(bool on) {
  const std::lock_guard lock(noted().mutex);
  noted().on = on;
}

void note_task(int device, int stream, std::string_view name) noexcept {
  const std::lock_guard lock(noted().mutex);
  if (!noted().on) return;
  noted().tasks.push_back(std::to_string(device) + " " + std::to_string(stream) + " " + std::string(name));
}

std::vector<std::string> noted_tasks() {
  const std::lock_guard lock(noted().mutex);
  return std::exchange(noted().tasks, {});
}

}  // namespace sim
