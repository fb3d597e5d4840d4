#include "cover.hpp"

#include <algorithm>

namespace gsplit {

void Cover::find(std::span<const int32_t> sources, std::span<const int32_t> destinations, size_t num_sources,
                 size_t num_destinations) {
  num_sources_ = num_sources;
  num_vertices_ = num_sources + num_destinations;
  size_ = 0;
  build(sources, destinations);
  take_neighbours_of_leaves();
  take_by_degree();
  if (size_ >= std::min(num_sources, num_destinations)) take_side(num_sources <= num_destinations);
  give_way();
}

void Cover::build(std::span<const int32_t> sources, std::span<const int32_t> destinations) {
  const size_t edges = sources.size();
  begins_.assign(num_vertices_ + 1, 0);
  neighbours_.resize(2 * edges);
  for (size_t i = 0; i < edges; ++i) {
    ++begins_[sources[i] + 1];
    ++begins_[num_sources_ + destinations[i] + 1];
  }
  open_.assign(begins_.begin() + 1, begins_.end());
  for (size_t v = 0; v < num_vertices_; ++v) begins_[v + 1] += begins_[v];
  next_.assign(begins_.begin(), begins_.end() - 1);  // where the next edge of each goes
  for (size_t i = 0; i < edges; ++i)
    neighbours_[next_[sources[i]]++] = static_cast<int32_t>(num_sources_) + destinations[i];
  std::copy(sources.begin(), sources.end(), neighbours_.begin() + edges);  // in the order of the destinations already
  taken_.assign(num_vertices_, 0);
  leaves_.clear();
  for (size_t v = 0; v < num_vertices_; ++v)
    if (open_[v] == 1) leaves_.push_back(static_cast<int32_t>(v));
}

void Cover::take(int32_t vertex) {
  taken_[vertex] = 1;
  ++size_;
  open_[vertex] = 0;
  for (int32_t other : neighbours(vertex))
    if (taken_[other] == 0 && --open_[other] == 1) leaves_.push_back(other);
}

void Cover::take_neighbours_of_leaves() {
  const auto first_destination = static_cast<int32_t>(num_sources_);
  while (!leaves_.empty()) {
    const int32_t leaf = leaves_.back();
    leaves_.pop_back();
    if (taken_[leaf] != 0 || open_[leaf] != 1) continue;
    for (int32_t other : neighbours(leaf)) {
      if (taken_[other] != 0) continue;
      // Of two that have but each other the source is taken: a row need not be summed.
      take(open_[other] == 1 && other >= first_destination ? leaf : other);
      break;
    }
  }
}

/// The open degrees only fall, so a vertex that is found in too high a list moves to a lower one.
void Cover::take_by_degree() {
  const int32_t most = num_vertices_ == 0 ? 0 : *std::max_element(open_.begin(), open_.end());
  heads_.assign(most + 1, -1);
  const auto put = [&](int32_t vertex) {
    next_[vertex] = heads_[open_[vertex]];
    heads_[open_[vertex]] = vertex;
  };
  for (size_t v = num_vertices_; v-- > 0;)
    if (open_[v] > 0) put(static_cast<int32_t>(v));
  for (int32_t degree = most; degree > 0; --degree) {
    while (heads_[degree] >= 0) {
      const int32_t vertex = heads_[degree];
      heads_[degree] = next_[vertex];
      if (open_[vertex] == degree) {
        take(vertex);
        take_neighbours_of_leaves();
      } else if (open_[vertex] > 0) {
        put(vertex);
      }
    }
  }
}

void Cover::take_side(bool sources) {
  size_ = sources ? num_sources_ : num_vertices_ - num_sources_;
  std::fill(taken_.begin(), taken_.begin() + num_sources_, sources ? 1 : 0);
  std::fill(taken_.begin() + num_sources_, taken_.end(), sources ? 0 : 1);
}

void Cover::give_way() {
  const auto push = [&](int32_t destination) {
    if (open_[destination] <= 1) leaves_.push_back(destination);
  };
  leaves_.clear();
  for (size_t v = num_sources_; v < num_vertices_; ++v) {
    if (taken_[v] == 0) continue;
    open_[v] = 0;  // from here on: edges whose source is not taken
    for (int32_t source : neighbours(v)) open_[v] += taken_[source] == 0;
    push(static_cast<int32_t>(v));
  }
  while (!leaves_.empty()) {
    const int32_t destination = leaves_.back();
    leaves_.pop_back();
    if (taken_[destination] == 0) continue;
    taken_[destination] = 0;
    --size_;
    if (open_[destination] == 0) continue;
    for (int32_t source : neighbours(destination)) {
      if (taken_[source] != 0) continue;
      taken_[source] = 1;
      ++size_;
      for (int32_t other : neighbours(source)) {
        --open_[other];
        if (taken_[other] != 0) push(other);
      }
      break;
    }
  }
}

}  // namespace gsplit
