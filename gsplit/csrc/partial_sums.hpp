// Partial sums in place of rows, for what one trainer sends another before a layer (cover.hpp says which).
//
// At the receiver all edges of a destination that are summed at one owner become one edge, in the place of the first
// of them, from a row received like any other. At the owner the rows of their sources are added to send_rows, after
// the rows that are sent as they are, one run of them for each sum. So the union of the edges is what was drawn:
// those of the block but for the edges from sums, and the rows that the sums are made of.
#pragma once

#include <cstdint>
#include <vector>

#include "cover.hpp"
#include "memory.hpp"
#include "segment.hpp"

namespace gsplit {

/// An edge of a block whose source another trainer owns.
struct RemoteEdge {
  int32_t edge;   // its place in the block's indices, which hold ~(place of the source among the rows sent)
  int32_t owner;  // of the source
};

class PartialSums {
 public:
  /// Puts sums in the place of rows wherever fewer are sent then, in the block of `level` of split `receiver`, of a
  /// graph of one type and one relation.
  /// remote: its remote edges, ascending; those that are left when it returns, where they are then.
  void put(std::vector<Split>& splits, size_t level, size_t receiver, Array<RemoteEdge>& remote);

 private:
  void group(const BlockSplit& block, size_t parts, const Array<RemoteEdge>& remote);
  bool put_pair(std::vector<Split>& splits, size_t level, size_t receiver, size_t owner);
  void drop_moved(BlockSplit& block, Array<RemoteEdge>& remote);

  Cover cover_;
  std::vector<size_t> begins_;     // [P + 1] where the edges from each owner begin in the next four
  Array<int32_t> edges_;           // [remote edges] place in the block
  Array<int32_t> rows_;            // [remote edges] destination row
  Array<int32_t> sources_;         // [remote edges] place of the source among the rows sent
  Array<int32_t> destinations_;    // [remote edges] number of the destination among those with edges from the owner
  std::vector<size_t> num_below_;  // [P] number of those destinations
  Array<int32_t> places_;          // [rows sent] where a row that is sent still is now
  Array<int32_t> kept_;            // scratch: rows sent
};

}  // namespace gsplit
