// Devices, streams, events, schedules, errors, and the waits of the host.
//
// A stream's thread takes its tasks in order and lets each begin when the schedule says so. A task that waits for an
// event of another stream pulls that stream (a lazy one begins with all tasks up to the event) and sleeps until it is
// reached. Whoever waits pulls first, so a chain of streams that wait for each other gets on from its end.
//
// Invariants: reached_ <= issued_, and both only grow; a task is destroyed before its ticket is reached; no lock is
// held while a task runs. Each device counts its tasks, so that it can be told to break at one of them.
#include "core.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "faults.hpp"

namespace sim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t LAZY_US = 50'000;  // after which a lazy task begins by itself
constexpr std::int64_t LATE_US = 2'000;   // by which a random task begins late at most
constexpr int LATE_IN = 4;                // one of so many tasks is late
constexpr int MAX_DEVICES = 64;
constexpr std::string_view BACKTRACE = "\nException raised from";  // what PyTorch's errors go on with

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count();
}

enum class Kind { EAGER, RANDOM, LAZY };

struct Schedule {
  std::atomic<Kind> kind = Kind::LAZY;
  std::atomic<std::uint64_t> seed = 0;
  std::atomic<std::int64_t> lazy_us = LAZY_US;
  std::atomic<std::uint64_t> number = 1;  // counts schedules, so that streams seed their draws anew
};

struct Device {
  std::vector<std::unique_ptr<Stream>> streams;
  std::atomic<bool> context = false;
  std::atomic<int> next = 0;
  std::atomic<std::int64_t> launches = 0;
  std::atomic<std::int64_t> tasks_left = std::numeric_limits<std::int64_t>::max();
  std::mutex mutex;
  std::optional<std::string> error;
};

struct Counter {
  std::mutex mutex;
  std::map<std::pair<std::thread::id, std::string>, std::int64_t> counts;
  std::atomic<bool> forbidden = false;
};

Counter& counter() {
  static auto* const all = new Counter;
  return *all;
}

int count_of_environment() {
  if (fault().is("driver")) return 0;
  const char* given = std::getenv("GSPLIT_SIM_DEVICES");
  const int count = given == nullptr ? 3 : std::atoi(given);
  if (count < 1 || count > MAX_DEVICES) throw std::invalid_argument("GSPLIT_SIM_DEVICES is not in 1 .. 64");
  return count;
}

Schedule& current_schedule();

Device& device_at(int device) {
  static auto* const all = [] {  // never destroyed: threads run until the process ends
    auto* devices = new std::vector<Device>(device_count());
    for (int i = 0; i < device_count(); ++i) {
      for (int id = 0; id < STREAMS; ++id) (*devices)[i].streams.push_back(std::make_unique<Stream>(i, id));
    }
    return devices;
  }();
  return all->at(static_cast<std::size_t>(device));
}

void set(Schedule& schedule, const std::string& text) {
  const auto colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const bool number = colon != std::string::npos;
  schedule.seed = 0;
  if (name == "eager" && !number) {
    schedule.kind = Kind::EAGER;
  } else if (name == "random" && number) {
    schedule.seed = std::stoull(text.substr(colon + 1));
    schedule.kind = Kind::RANDOM;
  } else if (name == "lazy") {
    schedule.lazy_us = number ? 1000 * std::stoll(text.substr(colon + 1)) : LAZY_US;
    schedule.kind = Kind::LAZY;
  } else {
    throw std::invalid_argument("schedule '" + text + "' is none of eager, random:SEED, lazy, lazy:MILLISECONDS");
  }
  ++schedule.number;
}

Schedule& current_schedule() {
  static auto* const schedule = [] {
    auto* made = new Schedule;
    if (const char* given = std::getenv("GSPLIT_SIM_SCHEDULE")) set(*made, given);
    return made;
  }();
  return *schedule;
}

void break_device(int device, const std::string& name, const std::string& what) {
  Device& broken = device_at(device);
  const std::lock_guard lock(broken.mutex);
  if (broken.error) return;
  broken.error =
      "sim:" + std::to_string(device) + " is broken by " + name + ": " + what.substr(0, what.find(BACKTRACE));
}

bool is_broken(int device) {
  Device& asked = device_at(device);
  const std::lock_guard lock(asked.mutex);
  return asked.error.has_value();
}

thread_local int device_of_thread = 0;
thread_local std::vector<Stream*> streams_of_thread;
std::atomic<void (*)()> thread_initializer = nullptr;

}  // namespace

int device_count() {
  static const int count = count_of_environment();
  return count;
}

int current_device() { return device_of_thread; }

void set_device(int device, bool context) {
  if (context && device != device_of_thread) make_context(device);
  device_of_thread = device;
}

bool has_context(int device) { return device_at(device).context; }

void make_context(int device) { device_at(device).context = true; }

std::size_t context_bytes() {
  static const std::size_t bytes = [] {
    const char* given = std::getenv("GSPLIT_SIM_CONTEXT_BYTES");
    return given == nullptr ? std::size_t{0} : std::strtoull(given, nullptr, 10);
  }();
  return bytes;
}

std::int64_t launches(int device) { return device_at(device).launches; }

void check(int device) {
  Device& asked = device_at(device);
  const std::lock_guard lock(asked.mutex);
  if (asked.error) throw DeviceError(*asked.error);
}

void clear_errors() {
  for (int device = 0; device < device_count(); ++device) {
    drain(device);
    Device& broken = device_at(device);
    const std::lock_guard lock(broken.mutex);
    broken.error.reset();
    broken.tasks_left = std::numeric_limits<std::int64_t>::max();
  }
}

void fail_after(int device, std::int64_t tasks) { device_at(device).tasks_left = tasks; }

void Event::wait() const {
  if (stream != nullptr) stream->wait(ticket);
}

bool Event::query() const {
  if (stream == nullptr || stream->reached(ticket)) return true;
  stream->pull(ticket);
  return false;
}

Ticket Stream::enqueue(std::string_view name, Task task) {
  check(device);
  return issue(name, std::move(task), false);
}

Ticket Stream::enqueue_always(std::string_view name, Task task) noexcept {
  return issue(name, std::move(task), true);
}

Ticket Stream::issue(std::string_view name, Task task, bool always) noexcept {
  ++device_at(device).launches;
  const std::lock_guard lock(mutex_);
  if (!started_) {
    started_ = true;
    std::thread([this] { run(); }).detach();
  }
  queue_.push_back({std::string(name), std::move(task), now_us(), always});
  note_task(device, id, name);
  work_.notify_one();
  return ++issued_;
}

Event Stream::record(bool timed) {
  if (!timed) return {this, issued(), nullptr};
  auto milliseconds = std::make_shared<double>(0);
  const auto ticket = enqueue("record", [milliseconds] { *milliseconds = static_cast<double>(now_us()) / 1000; });
  return {this, ticket, milliseconds};
}

void Stream::wait_for(const Event& event) {
  if (event.stream == nullptr || event.stream == this || event.stream->reached(event.ticket)) return;
  const std::string name = "wait " + std::to_string(event.stream->id) + " " + std::to_string(event.ticket);
  enqueue(name, [stream = event.stream, ticket = event.ticket] { stream->wait(ticket); });
}

void Stream::wait(Ticket ticket) {
  pull(ticket);
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [&] { return reached_ >= ticket; });
}

Ticket Stream::issued() {
  const std::lock_guard lock(mutex_);
  return issued_;
}

bool Stream::reached(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  return reached_ >= ticket;
}

void Stream::pull(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  wanted_ = std::max(wanted_, ticket);
  work_.notify_one();
}

void Stream::wake() {
  const std::lock_guard lock(mutex_);
  work_.notify_one();
}

void Stream::run() {
  pthread_setname_np(pthread_self(), ("sim" + std::to_string(device) + "." + std::to_string(id)).c_str());
  if (auto* initialize = thread_initializer.load()) initialize();
  Device& mine = device_at(device);
  for (std::unique_lock lock(mutex_);;) {
    work_.wait(lock, [&] { return !queue_.empty(); });
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    hold_back(lock, entry, reached_ + 1);
    lock.unlock();
    if (entry.always) {
      entry.task();
    } else if (!is_broken(device)) {
      try {
        if (--mine.tasks_left < 0) throw std::runtime_error("the device was told to fail");
        entry.task();
      } catch (const std::exception& error) {
        break_device(device, entry.name, error.what());
      }
    }
    entry.task = nullptr;
    lock.lock();
    ++reached_;
    progress_.notify_all();
  }
}

void Stream::hold_back(std::unique_lock<std::mutex>& lock, const Entry& entry, Ticket ticket) {
  Schedule& schedule = current_schedule();
  while (schedule.kind == Kind::LAZY && wanted_ < ticket) {
    const auto left_us = entry.issued_us + schedule.lazy_us - now_us();
    if (left_us <= 0) return;
    work_.wait_for(lock, std::chrono::microseconds(left_us));
  }
  if (schedule.kind != Kind::RANDOM) return;
  if (seeded_ != schedule.number) {
    seeded_ = schedule.number;
    random_.seed((schedule.seed * MAX_DEVICES + static_cast<std::uint64_t>(device)) * STREAMS + id);
  }
  if (random_() % LATE_IN != 0) return;
  const std::chrono::microseconds late(random_() % LATE_US);
  lock.unlock();
  std::this_thread::sleep_for(late);
  lock.lock();
}

Stream& stream(int device, int id) { return *device_at(device).streams.at(static_cast<std::size_t>(id)); }

Stream& next_stream(int device) { return stream(device, 1 + device_at(device).next++ % (STREAMS - 1)); }

Stream& current_stream(int device) {
  streams_of_thread.resize(static_cast<std::size_t>(device_count()), nullptr);
  Stream* const found = streams_of_thread.at(static_cast<std::size_t>(device));
  return found == nullptr ? stream(device, 0) : *found;
}

Stream& exchange_stream(Stream& stream) {
  Stream& before = current_stream(stream.device);
  streams_of_thread.at(static_cast<std::size_t>(stream.device)) = &stream;
  return before;
}

void drain(int device) {
  // A task may have been issued to another stream by what is drained (nobody does so now); each is looked at once.
  for (int id = 0; id < STREAMS; ++id) stream(device, id).drain();
}

void drain_all() {
  for (int device = 0; device < device_count(); ++device) drain(device);
}

void set_schedule(const std::string& schedule) {
  set(current_schedule(), schedule);
  for (int device = 0; device < device_count(); ++device) {
    for (int id = 0; id < STREAMS; ++id) stream(device, id).wake();
  }
}

std::mt19937_64& draws_of_schedule() {
  thread_local std::mt19937_64 draws;
  thread_local std::uint64_t begun = 0;
  const Schedule& schedule = current_schedule();
  if (begun != schedule.number) {
    begun = schedule.number;
    draws.seed(schedule.seed);
  }
  return draws;
}

std::string schedule() {
  const Schedule& schedule = current_schedule();
  switch (schedule.kind) {
    case Kind::EAGER:
      return "eager";
    case Kind::RANDOM:
      return "random:" + std::to_string(schedule.seed);
    case Kind::LAZY:
      return schedule.lazy_us == LAZY_US ? "lazy" : "lazy:" + std::to_string(schedule.lazy_us / 1000);
  }
  return {};
}

void set_thread_initializer(void (*initializer)()) { thread_initializer = initializer; }

void count_wait(std::string_view name, bool implicit) {
  Counter& all = counter();
  if (implicit && all.forbidden) throw std::runtime_error(std::string(name) + " waits for the device");
  const std::lock_guard lock(all.mutex);
  ++all.counts[{std::this_thread::get_id(), std::string(name)}];
}

std::map<std::string, std::int64_t> waits(bool of_this_thread) {
  Counter& all = counter();
  const std::lock_guard lock(all.mutex);
  std::map<std::string, std::int64_t> counts;
  for (const auto& [key, count] : all.counts) {
    if (!of_this_thread || key.first == std::this_thread::get_id()) counts[key.second] += count;
  }
  return counts;
}

void reset_waits() {
  Counter& all = counter();
  const std::lock_guard lock(all.mutex);
  all.counts.clear();
}

void forbid_waits(bool forbidden) { counter().forbidden = forbidden; }

}  // namespace sim
