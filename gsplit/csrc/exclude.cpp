#include "exclude.hpp"

#include <algorithm>
#include <numeric>

#include "edge_tests.hpp"

namespace gsplit {

template <class Index>
Exclusions<Index>::Exclusions(GraphView<Index> graph)
    : graph_(graph), bits_((graph.indptr.size() + BITS - 2) / BITS, 0), numbers_(bits_.size()), begins_{0} {}

template <class Index>
void Exclusions<Index>::find(std::span<const int64_t> destinations, std::span<const int64_t> sources) {
  for (const Index vertex : vertices_) bits_[vertex / BITS] = 0;
  vertices_.clear();
  before_.clear();
  begins_.assign(1, 0);
  check_pairs(graph_, sources, destinations);
  pairs_.resize(sources.size());
  for (size_t i = 0; i < sources.size(); ++i)
    pairs_[i] = {static_cast<Index>(destinations[i]), static_cast<Index>(sources[i])};
  sort_pairs();
  asked_.clear();
  firsts_.clear();
  sources_.resize(pairs_.size());
  for (size_t i = 0; i < pairs_.size(); ++i) {
    sources_[i] = pairs_[i].source;
    if (i > 0 && pairs_[i].destination == pairs_[i - 1].destination) continue;
    asked_.push_back(pairs_[i].destination);
    firsts_.push_back(i);
  }
  firsts_.push_back(pairs_.size());
  visit_lists(graph_, asked_, [&](size_t i, std::span<const Index> list) {
    finder_.look_for(std::span(sources_).subspan(firsts_[i], firsts_[i + 1] - firsts_[i]));
    const size_t begin = before_.size();
    finder_.find(list, [&](size_t position) { before_.push_back(position - (before_.size() - begin)); });
    if (before_.size() == begin) return;
    const Index vertex = asked_[i];
    uint64_t& word = bits_[vertex / BITS];
    if (word == 0) numbers_[vertex / BITS] = static_cast<uint32_t>(vertices_.size());
    vertices_.push_back(vertex);
    word |= uint64_t{1} << (vertex % BITS);
    begins_.push_back(static_cast<uint32_t>(before_.size()));
  });
}

/// By destination, digit after digit from the last: a few thousand pairs take a fifth of what comparing them takes.
template <class Index>
void Exclusions<Index>::sort_pairs() {
  constexpr int DIGIT_BITS = 11;
  constexpr Index DIGITS = Index{1} << DIGIT_BITS;
  const size_t last = graph_.indptr.size() - 1;
  other_pairs_.resize(pairs_.size());
  for (int shift = 0; last >> shift > 0; shift += DIGIT_BITS) {
    uint32_t ends[DIGITS + 1] = {};
    const auto digit = [&](const Pair& pair) { return (pair.destination >> shift) % DIGITS; };
    for (const Pair& pair : pairs_) ++ends[digit(pair) + 1];
    std::partial_sum(ends, ends + DIGITS, ends);
    for (const Pair& pair : pairs_) other_pairs_[ends[digit(pair)]++] = pair;
    pairs_.swap(other_pairs_);
  }
}

template class Exclusions<int32_t>;
template class Exclusions<int64_t>;

}  // namespace gsplit
