// Sampling a mini-batch and splitting it, in one pass.
//
// Input: the in-neighbours of a graph by relation (CSC) in layout order, so that of each type part p owns the ids
// offsets[p] .. offsets[p+1] (typed_graph.hpp). Output: one Split per part; together they are the unsplit mini-batch.
//
// Hop h draws by relation r up to fan-out[h][r] in-neighbours, without replacement, of *every* vertex of level L-h+1
// of the relation's destination type (also of those already drawn at an earlier hop, as in the blocks of DGL). A
// drawn vertex joins the split of its owner; when the destination belongs to another split, its owner also lists the
// row among those to send. Every row is numbered among those of its type by first appearance in the order (hop, split
// of the destination, relation, destination row, draw), or, where it is asked for, by (hop, id).
//
// That is neighbour sampling. By the other rules, which know one type and one relation, a hop, or the whole
// mini-batch, has a set of sources, and every in-edge from the set is kept (selection.hpp). The rest is the same: who
// owns a vertex, its row, what is sent.
//
// A hop is cut into runs of destinations. Each is drawn (draw.hpp: pure, by any thread) and then numbered
// (splitter.hpp: in order, by one thread); pipeline.hpp lets threads draw ahead.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "draw.hpp"
#include "exclude.hpp"
#include "inside.hpp"
#include "pipeline.hpp"
#include "pool.hpp"
#include "segment.hpp"
#include "splitter.hpp"

namespace gsplit {

/// What the draws depend on, beside hop and vertex.
struct DrawKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t batch = 0;
  uint64_t micro = 0;  // which micro-batch, under data parallelism
};

template <class Index>
class Sampler {
 public:
  /// memory: bytes that the dense maps from vertices to rows may take, negative for no bound. threads: that work on
  /// one mini-batch. partial_sums: see make_splitter(). Throws std::invalid_argument.
  Sampler(TypedGraph<Index> graph, int64_t memory, int threads, bool partial_sums);

  /// As Splitter has it; before a mini-batch is sampled.
  void number_by_id() { splitter_->number_by_id(); }

  /// fan_outs[(h-1) R + r] is the number of neighbours at hop h by relation r, -1 for all; with several relations 0
  /// for none, but not at a hop for all of them. Targets are distinct layout ids of `type`. Returns false, with no
  /// mini-batch, as soon as more than max_edges edges were drawn. Throws std::invalid_argument for a target that is
  /// out of range or given twice, std::bad_alloc where there is no memory: there is no mini-batch then either, and
  /// the sampler can be used again.
  bool sample(std::span<const int64_t> targets, size_t type, std::span<const int64_t> fan_outs, const DrawKey& key,
              bool edge_ids, int64_t max_edges);

  /// Has the next call of sample() draw no edge sources[i] -> destinations[i], at any hop; that call alone, however
  /// it ends. Throws std::invalid_argument for a vertex that there is not, for other numbers of sources, and for a
  /// graph of several types or relations.
  void exclude(std::span<const int64_t> destinations, std::span<const int64_t> sources);

  /// Edges of the graph that the last call of sample() had to leave out.
  int64_t excluded_edges() const { return excluded_edges_; }

  /// Adds those of them that end at targets of a split: own target rows, and positions in the graph's indices.
  void add_excluded(size_t part, Array<int32_t>& rows, Array<int64_t>& ids) const;

  /// LADIES: hop h draws at most sizes[h-1] sources out of the in-neighbours of all its destinations, by a race.
  /// use_pool() was called before. Throws as sample().
  void sample_pools(std::span<const int64_t> targets, std::span<const int64_t> sizes, const DrawKey& key, Race race,
                    bool edge_ids);

  /// What the masses of sample_pools() are made of. edge_weight: [E], at least 0, or empty; it outlives the sampler.
  void use_pool(std::span<const float> edge_weight, Importance importance);

  /// A set of vertices with what edges from each count.
  struct Sources {
    std::span<const int64_t> vertices;
    std::span<const float> scales;  // of the same; empty: `scale` each
    float scale = 1.0f;
  };

  /// Hop h keeps the in-edges whose sources are in sets[h-1]. Throws as sample().
  void sample_inside(std::span<const int64_t> targets, std::span<const Sources> sets, bool edge_ids, bool scales);

  /// The subgraph of a set, of whose vertices the first num_targets are targets: the last layer computes these, the
  /// layers below share one block over all of the set. Throws as sample().
  void sample_subgraph(const Sources& set, size_t num_targets, size_t layers, bool edge_ids, bool scales);

  /// The last mini-batch sampled.
  const std::vector<Split>& splits() const { return splitter_->splits(); }

  const TypedGraph<Index>& graph() const { return graph_; }

 private:
  void check_fan_outs(std::span<const int64_t> fan_outs) const;
  const GraphView<Index>& only_relation(const char* what) const;
  bool sample_hop(int hop, std::span<const int64_t> fan_outs, const DrawKey& key, const Exclusions<Index>* exclusions,
                  bool edge_ids, int64_t max_edges);
  void keep_hop(Selection<Index>& selection, size_t level, bool edge_ids, bool scales,
                std::span<const Drawn<Index>> known = {}, std::vector<Drawn<Index>>* noted = nullptr);
  Inside<Index>& inside();
  int64_t end_of_run(const GraphView<Index>& graph, std::span<const int64_t> destinations, int64_t row,
                     int64_t fan_out, int64_t run_edges) const;

  TypedGraph<Index> graph_;
  std::unique_ptr<Splitter<Index>> splitter_;
  Pipeline<Index> pipeline_;
  std::unique_ptr<Pool<Index>> pool_;              // once use_pool() was called
  std::unique_ptr<Inside<Index>> inside_;          // once it is asked for
  std::unique_ptr<Exclusions<Index>> exclusions_;  // once exclude() was called
  bool excludes_ = false;                          // the next mini-batch
  int64_t excluded_edges_ = 0;                     // from the last mini-batch
  Drawn<Index> kept_;                              // scratch
  int64_t memory_;                                 // that maps of the pool may take; negative: no bound
  int64_t run_edges_;
  int64_t num_edges_ = 0;  // of the mini-batch at work
};

}  // namespace gsplit
