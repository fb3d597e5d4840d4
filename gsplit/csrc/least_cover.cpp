#include "least_cover.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace gsplit {
namespace {

constexpr int32_t NONE = -1;

class Matching {
 public:
  Matching(std::span<const int64_t> indptr, std::span<const int32_t> destinations, size_t num_destinations)
      : indptr_(indptr), destinations_(destinations), of_source_(indptr.size() - 1, NONE),
        of_destination_(num_destinations, NONE), step_(indptr.size() - 1), next_(indptr.size() - 1) {
    for (int32_t source = 0; source < num_sources(); ++source)  // most of it, in one pass
      for (int64_t e = indptr[source]; e < indptr[source + 1] && of_source_[source] == NONE; ++e)
        if (of_destination_[destinations[e]] == NONE) join(source, destinations[e]);
  }

  void grow() {
    while (search()) {
      std::copy(indptr_.begin(), indptr_.end() - 1, next_.begin());
      for (int32_t source = 0; source < num_sources(); ++source)
        if (of_source_[source] == NONE) follow(source);
    }
  }

  /// Whether the last search, which found no path, has been at a source.
  bool has_seen(int32_t source) const { return step_[source] != NONE; }

 private:
  int32_t num_sources() const { return static_cast<int32_t>(of_source_.size()); }

  void join(int32_t source, int32_t destination) {
    of_source_[source] = destination;
    of_destination_[destination] = source;
  }

  /// Breadth first from all free sources; returns whether a free destination is reached.
  bool search() {
    queue_.clear();
    for (int32_t source = 0; source < num_sources(); ++source) {
      step_[source] = of_source_[source] == NONE ? 0 : NONE;
      if (step_[source] == 0) queue_.push_back(source);
    }
    bool found = false;
    for (size_t at = 0; at < queue_.size(); ++at) {
      const int32_t source = queue_[at];
      for (int64_t e = indptr_[source]; e < indptr_[source + 1]; ++e) {
        const int32_t then = of_destination_[destinations_[e]];
        if (then == NONE) {
          found = true;
        } else if (step_[then] == NONE) {
          step_[then] = step_[source] + 1;
          queue_.push_back(then);
        }
      }
    }
    return found;
  }

  /// Depth first along the steps of the search; turns the path round where it ends at a free destination.
  void follow(int32_t free_source) {
    path_.assign(1, free_source);
    while (!path_.empty()) {
      const int32_t source = path_.back();
      if (next_[source] == indptr_[source + 1]) {
        step_[source] = NONE;  // it leads nowhere, for others neither
        path_.pop_back();
        continue;
      }
      const int32_t then = of_destination_[destinations_[next_[source]++]];
      if (then == NONE) {
        for (const int32_t on_path : path_) join(on_path, destinations_[next_[on_path] - 1]);
        return;
      }
      if (step_[then] == step_[source] + 1) path_.push_back(then);
    }
  }

  std::span<const int64_t> indptr_;
  std::span<const int32_t> destinations_;
  std::vector<int32_t> of_source_, of_destination_;  // what each is matched with
  std::vector<int32_t> step_;                        // [sources] how far from a free source; NONE: not reached
  std::vector<int64_t> next_;                        // [sources] the edge to look at
  std::vector<int32_t> queue_, path_;
};

}  // namespace

void least_cover(std::span<const int64_t> indptr, std::span<const int32_t> destinations,
                 std::span<uint8_t> takes_source, std::span<uint8_t> takes_destination) {
  if (indptr.size() != takes_source.size() + 1 || indptr.front() != 0 ||
      indptr.back() != static_cast<int64_t>(destinations.size()))
    throw std::invalid_argument("indptr does not fit the sources and the edges");
  for (size_t source = 0; source < takes_source.size(); ++source)
    if (indptr[source] > indptr[source + 1]) throw std::invalid_argument("indptr does not ascend");
  for (const int32_t destination : destinations)
    if (destination < 0 || static_cast<size_t>(destination) >= takes_destination.size())
      throw std::invalid_argument("an edge leads outside the destinations");
  Matching matching(indptr, destinations, takes_destination.size());
  matching.grow();
  std::fill(takes_destination.begin(), takes_destination.end(), uint8_t{0});
  for (size_t source = 0; source < takes_source.size(); ++source) {
    const bool seen = matching.has_seen(static_cast<int32_t>(source));
    takes_source[source] = !seen;
    if (!seen) continue;
    for (int64_t e = indptr[source]; e < indptr[source + 1]; ++e) takes_destination[destinations[e]] = 1;
  }
}

}  // namespace gsplit
