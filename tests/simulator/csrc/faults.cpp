// Faults by name, and what libraries say of them in their own words.
#include "faults.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <regex>
#include <stdexcept>
#include <thread>

#include "core.hpp"

namespace sim {
namespace {

/// Each kind, and what its WHERE looks like.
const std::map<std::string, std::string> KINDS = {
    {"dead", "\\d+"},        {"driver", ""},        {"full", "allocator|library|pinned|joining"},
    {"hang", "\\d+-\\d+"},   {"header", ""},        {"peers", "(\\d+-\\d+)?"},
    {"registering", "\\d*"}, {"slow", "[1-9]\\d*"}, {"taken", "\\d+"},
    {"wrong", "\\d+-\\d+"},
};

Fault fault_of_environment() {
  const char* said = std::getenv("GSPLIT_SIM_FAULT");
  if (said == nullptr || *said == '\0') return {};
  std::cmatch words;
  if (std::regex_match(said, words, std::regex("([a-z]+)(?::([^@]*))?(?:@(\\d{1,9}))?"))) {
    const auto known = KINDS.find(words[1]);
    if (known != KINDS.end() && std::regex_match(words[2].str(), std::regex(known->second))) {
      return {words[1], words[2], words[3].matched ? std::stoll(words[3]) : 0};
    }
  }
  throw std::invalid_argument("GSPLIT_SIM_FAULT is KIND[:WHERE][@N] as tests/simulator/README.md says, not " +
                              std::string(said));
}

void take_time(std::size_t bytes, double mb_per_second) {
  std::this_thread::sleep_for(std::chrono::duration<double>(static_cast<double>(bytes) / (1e6 * mb_per_second)));
}

}  // namespace

int Fault::one() const { return where.empty() ? -1 : std::stoi(where); }

int Fault::other() const {
  const auto dash = where.find('-');
  return dash == std::string::npos ? -1 : std::stoi(where.substr(dash + 1));
}

bool Fault::is_between(int rank, int peer) const {
  return (rank == one() && peer == other()) || (rank == other() && peer == one());
}

const Fault& fault() {
  static const Fault found = fault_of_environment();
  return found;
}

void refuse_if_full(const char* place) {
  static std::atomic<std::int64_t> events = 0;
  if (!fault().is("full") || fault().where != place || events++ < fault().first) return;
  const std::map<std::string, std::string> words = {
      {"library", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"},
      {"pinned", "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"},
  };
  if (fault().where == "allocator") throw OutOfMemory("CUDA out of memory. Tried to allocate 2.00 MiB");
  throw std::runtime_error(words.at(place));
}

void refuse_if_taken(int device) {
  if (!fault().is("taken") || fault().one() != device) return;
  throw std::runtime_error("CUDA error: CUDA-capable device(s) is/are busy or unavailable");
}

bool refuses_to_register(std::size_t bytes) {
  return fault().is("registering") && bytes > (fault().where.empty() ? 0 : std::stoull(fault().where));
}

void take_time_of_link(std::size_t bytes) {
  if (fault().is("slow")) take_time(bytes, fault().one());
}

void take_time_to_register(std::size_t bytes) {
  static const char* const rate = std::getenv("GSPLIT_SIM_REGISTERING");
  if (rate != nullptr) take_time(bytes, std::stod(rate));
}

}  // namespace sim
