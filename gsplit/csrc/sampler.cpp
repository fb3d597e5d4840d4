#include "sampler.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "random.hpp"

namespace gsplit {
namespace {

constexpr int64_t RUN_EDGES = 4096;          // what was drawn is still in the first cache level when it is numbered
constexpr int64_t SHARED_RUN_EDGES = 16384;  // handing a run from thread to thread costs a lock and its misses

int checked_threads(int threads) {
  if (threads < 1) throw std::invalid_argument("threads must be at least 1, not " + std::to_string(threads));
  return threads;
}

}  // namespace

template <class Index>
Sampler<Index>::Sampler(GraphView<Index> graph, std::vector<int64_t> offsets, int64_t memory, int threads,
                        bool partial_sums)
    : graph_(graph), pipeline_(graph, checked_threads(threads)),
      run_edges_(threads > 1 ? SHARED_RUN_EDGES : RUN_EDGES) {
  const auto n = static_cast<int64_t>(graph_.indptr.size()) - 1;
  if (n < 0) throw std::invalid_argument("indptr is empty");
  if (offsets.size() < 2 || offsets.front() != 0 || offsets.back() != n ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    throw std::invalid_argument("offsets must ascend from 0 to the number of vertices, " + std::to_string(n));
  if (!graph_.global_ids.empty() && static_cast<int64_t>(graph_.global_ids.size()) != n)
    throw std::invalid_argument("global_ids must have one entry a vertex");
  wish_for_huge_pages(graph_.indptr);
  wish_for_huge_pages(graph_.indices);
  wish_for_huge_pages(graph_.global_ids);
  splitter_ = make_splitter<Index>(offsets, memory, partial_sums);
}

template <class Index>
bool Sampler<Index>::sample(std::span<const int64_t> targets, std::span<const int64_t> fan_outs, const DrawKey& key,
                            bool edge_ids, int64_t max_edges) {
  for (int64_t fan_out : fan_outs)
    if (fan_out < -1 || fan_out == 0)
      throw std::invalid_argument("a fan-out must be -1 (all) or at least 1, not " + std::to_string(fan_out));
  splitter_->start(fan_outs.size(), targets);
  num_edges_ = 0;
  for (size_t hop = 1; hop <= fan_outs.size(); ++hop)
    if (!sample_hop(static_cast<int>(hop), fan_outs[hop - 1], key, edge_ids, max_edges)) return false;
  return true;
}

template <class Index>
bool Sampler<Index>::sample_hop(int hop, int64_t fan_out, const DrawKey& key, bool edge_ids, int64_t max_edges) {
  // The key of a vertex folds (key of the hop, global id); the first of the two is the same for all.
  const uint64_t hop_prefix =
      fold_key({fold_key({key.seed, key.epoch, key.batch, key.micro, static_cast<uint64_t>(hop)})});
  const std::vector<Split>& splits = splitter_->splits();
  const size_t level = splits[0].level_sizes.size() - hop;  // of the destinations
  const auto destinations = [&](size_t part) {
    return std::span<const int64_t>(splits[part].vertices.data(), splits[part].level_sizes[level]);
  };
  size_t part = 0;
  int64_t row = 0;
  const auto claim = [&]() -> std::optional<Run> {
    while (part < splits.size() && row == splits[part].level_sizes[level]) {
      ++part;
      row = 0;
    }
    if (part == splits.size()) return std::nullopt;
    const int64_t first_row = row;
    row = end_of_run(destinations(part), first_row, fan_out);
    return Run{part, first_row, row};
  };
  const auto draw = [&](Drawer<Index>& drawer, const Run& run, Drawn<Index>& drawn) {
    drawer.draw(run, destinations(run.part), fan_out, hop_prefix, edge_ids, drawn);
  };
  const auto number = [&](const Drawn<Index>& drawn) {
    num_edges_ += static_cast<int64_t>(drawn.neighbours.size());
    if (num_edges_ > max_edges) return false;
    splitter_->add(drawn, level);
    return true;
  };
  if (!pipeline_.run(claim, draw, number)) return false;
  splitter_->end_hop(level);
  return true;
}

/// Where a run ends that begins at a row: it draws about run_edges_ edges, more only for a single destination.
template <class Index>
int64_t Sampler<Index>::end_of_run(std::span<const int64_t> destinations, int64_t row, int64_t fan_out) const {
  const auto size = static_cast<int64_t>(destinations.size());
  if (fan_out > 0) return std::min(size, row + std::max<int64_t>(1, run_edges_ / fan_out));
  for (int64_t edges = 0; row < size && edges < run_edges_; ++row)
    edges += graph_.indptr[destinations[row] + 1] - graph_.indptr[destinations[row]];
  return row;
}

template class Sampler<int32_t>;
template class Sampler<int64_t>;

}  // namespace gsplit
