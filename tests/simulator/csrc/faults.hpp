// What is wrong on purpose, as on a sick machine: GSPLIT_SIM_FAULT is KIND[:WHERE][@N], and README.md has the kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sim {

/// One fault; of no kind where nothing is wrong.
struct Fault {
  std::string kind, where;
  std::int64_t first = 0;  // the event that it begins with, counted from 0

  bool is(std::string_view a_kind) const { return kind == a_kind; }
  /// WHERE as numbers, "A-B" or "A"; -1 where there is none.
  int one() const;
  int other() const;
  /// Whether it is between two ranks, or two devices.
  bool is_between(int rank, int peer) const;
};

/// The fault of this process; throws std::invalid_argument for what is none.
const Fault& fault();

/// Counts an event at a place and throws what a library says that has no room there, once the fault has begun.
void refuse_if_full(const char* place);
/// Throws what CUDA says of a device that another process has for itself.
void refuse_if_taken(int device);
/// Whether host memory of which so many bytes would be registered then is refused.
bool refuses_to_register(std::size_t bytes);
/// Takes the time that a slow link takes for so many bytes.
void take_time_of_link(std::size_t bytes);
/// Takes the time that registering takes: GSPLIT_SIM_REGISTERING says how many MB a second.
void take_time_to_register(std::size_t bytes);

}  // namespace sim
