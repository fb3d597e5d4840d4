// Threads that draw ahead of the one that numbers.
//
// Drawing is a pure function of the run, numbering is sequential. So the caller numbers runs in their order,
// while the other threads draw the runs to come into a ring of buffers; when the next run is not ready, the
// caller draws one too. What comes out does not depend on who drew what (law 1). Threads are started once and
// sleep between hops; nobody spins.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "draw.hpp"

namespace gsplit {

template <class Index>
class Pipeline {
 public:
  using Claim = std::function<std::optional<Run>()>;  // the next run, in order; under a lock
  using Draw = std::function<void(Drawer<Index>&, const Run&, Drawn<Index>&)>;  // by any thread
  using Number = std::function<bool(const Drawn<Index>&)>;                      // by the caller; false ends the hop

  /// threads - 1 threads are started beside the caller's, at the first hop.
  Pipeline(const TypedGraph<Index>& graph, int threads) : drawers_(threads, Drawer<Index>(graph)) {
    if (threads > 1) ring_.resize(threads * RUNS_A_THREAD);
    else ring_.resize(1);
  }

  ~Pipeline() {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    work_.notify_all();
  }

  /// One hop; false where `number` ended it. An exception of any of the three, in whichever thread, is thrown here.
  bool run(const Claim& claim, const Draw& draw, const Number& number) {
    if (drawers_.size() == 1) {
      while (const std::optional<Run> next = claim()) {
        draw(drawers_[0], *next, ring_[0].drawn);
        if (!number(ring_[0].drawn)) return false;
      }
      return true;
    }
    start_threads();
    std::unique_lock lock(mutex_);
    claim_ = &claim;
    draw_ = &draw;
    claimed_ = numbered_ = 0;
    const Idle idle{*this, lock};
    work_.notify_all();
    while (true) {
      Slot& slot = ring_[numbered_ % ring_.size()];
      if (numbered_ < claimed_ && slot.ready) {
        if (slot.error) std::rethrow_exception(slot.error);
        lock.unlock();
        const bool go_on = number(slot.drawn);
        lock.lock();
        if (!go_on) return false;
        ++numbered_;
        work_.notify_one();
      } else if (!draw_one(lock, drawers_[0])) {
        if (numbered_ == claimed_) return true;
        ready_.wait(lock, [&] { return slot.ready; });
      }
    }
  }

 private:
  static constexpr size_t RUNS_A_THREAD = 3;

  struct Slot {
    Drawn<Index> drawn;
    bool ready = false;
    std::exception_ptr error;
  };

  /// Whatever ends a hop: no thread may still be drawing for it.
  struct Idle {
    Pipeline& pipeline;
    std::unique_lock<std::mutex>& lock;
    ~Idle() {
      if (!lock.owns_lock()) lock.lock();
      pipeline.claim_ = nullptr;
      pipeline.ready_.wait(lock, [&] { return pipeline.drawing_ == 0; });
    }
  };

  void start_threads() {
    while (threads_.size() + 1 < drawers_.size())
      threads_.emplace_back([this, &drawer = drawers_[threads_.size() + 1]] { serve(drawer); });
  }

  void serve(Drawer<Index>& drawer) {
    std::unique_lock lock(mutex_);
    while (!closing_)
      if (!draw_one(lock, drawer)) work_.wait(lock);
  }

  /// Claims a run and draws it, with the lock released; false where there is none, or no room for one.
  bool draw_one(std::unique_lock<std::mutex>& lock, Drawer<Index>& drawer) {
    if (claim_ == nullptr || claimed_ - numbered_ == ring_.size()) return false;
    const std::optional<Run> next = (*claim_)();
    if (!next) return false;
    Slot& slot = ring_[claimed_++ % ring_.size()];
    slot.ready = false;
    slot.error = nullptr;
    ++drawing_;
    const Draw& draw = *draw_;
    lock.unlock();
    try {
      draw(drawer, *next, slot.drawn);
    } catch (...) {
      slot.error = std::current_exception();
    }
    lock.lock();
    --drawing_;
    slot.ready = true;
    ready_.notify_one();
    return true;
  }

  std::vector<Drawer<Index>> drawers_;  // [threads], the first is the caller's
  std::vector<Slot> ring_;              // run i of the hop is drawn into ring_[i % size]

  std::mutex mutex_;  // guards all below
  std::condition_variable work_, ready_;
  const Claim* claim_ = nullptr;  // null: no hop is at work
  const Draw* draw_ = nullptr;
  size_t claimed_ = 0;   // runs of the hop that were claimed
  size_t numbered_ = 0;  // of these, those that were numbered
  int drawing_ = 0;      // threads that draw at the moment
  bool closing_ = false;

  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

}  // namespace gsplit
