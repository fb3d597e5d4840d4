// Numbering and splitting: the half of sampling that is sequential.
//
// Takes what was drawn, run by run in the order (hop, split of the destination, relation, destination row), and turns
// every neighbour into a source row of the destination's split. A vertex joins the split of its owner when it
// first appears, and its row is the number of its type's vertices there were: this fixes the numbering, whatever
// drew the neighbours; where it is asked for, the vertices that a hop meets are numbered anew by their ids. When the
// destination belongs to another split, the owner also lists the row among those to send: once a split and level,
// whichever relations need it. The place of a received row is not final before the hop is over, for the split's own
// rows come first; such edges are noted and shifted at the end of the hop.
//
// A vertex list has room for its whole cell from the start (memory is committed when it is touched), so the
// destinations of a hop stay where they are while the sources are added: others may read them meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "draw.hpp"
#include "segment.hpp"

namespace gsplit {

template <class Index>
class Splitter {
 public:
  virtual ~Splitter() = default;

  /// Forgets the last mini-batch; targets are distinct layout ids of a type, or std::invalid_argument is thrown.
  /// others: vertices beside the targets that are of all levels but theirs.
  virtual void start(size_t layers, size_t type, std::span<const int64_t> targets,
                     std::span<const int64_t> others) = 0;

  /// Adds a run to the block of its relation of `level`. Throws std::invalid_argument where rows outgrow 32 bits.
  virtual void add(const Drawn<Index>& drawn, size_t level) = 0;

  /// Ends the hop whose destinations are of `level`.
  virtual void end_hop(size_t level) = 0;

  /// From now on the vertices that a hop meets are numbered by their ids, and so are rows that are sent: whoever
  /// reads what is kept of them then goes through memory in one direction. But neighbours of a vertex lie less close.
  void number_by_id() { by_id_ = true; }

  /// Notes what edges from each source of the block of `level` count, by vertex, once its hop has ended; of one type.
  void put_scales(size_t level, const std::function<float(int64_t)>& scale_of);

  /// Lets the layers below `level` have its block: all its sources are its destinations; of one type.
  void share_below(size_t level);

  const std::vector<Split>& splits() const { return splits_; }

 protected:
  std::vector<Split> splits_;
  bool by_id_ = false;
};

/// Bytes of a splitter's maps that have an entry for every vertex.
int64_t dense_bytes(const std::vector<VertexType>& types);

/// graph: checked. memory: bytes that dense maps may take; negative for no bound. partial_sums: of a pair of splits,
/// list sums in the place of rows where fewer are sent then (partial_sums.hpp); with one type and one relation.
template <class Index>
std::unique_ptr<Splitter<Index>> make_splitter(const TypedGraph<Index>& graph, int64_t memory, bool partial_sums);

}  // namespace gsplit
