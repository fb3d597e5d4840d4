#include "exclude.hpp"

#include <algorithm>
#include <stdexcept>

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
  std::sort(pairs_.begin(), pairs_.end());
  pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
  sources_.clear();
  asked_.clear();
  firsts_.clear();
  for (const auto& [destination, source] : pairs_) {
    if (asked_.empty() || asked_.back() != destination) {
      asked_.push_back(destination);
      firsts_.push_back(sources_.size());
    }
    sources_.push_back(source);
  }
  firsts_.push_back(sources_.size());
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

template class Exclusions<int32_t>;
template class Exclusions<int64_t>;

}  // namespace gsplit
