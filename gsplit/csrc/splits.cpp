#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

#include "splitter.hpp"

namespace gsplit {

int64_t dense_bytes(const std::vector<VertexType>& types) {
  const int64_t maps = types[0].offsets.size() > 2 ? 2 : 1;  // rows, and places where there are several splits
  int64_t vertices = 0;
  for (const VertexType& type : types) vertices += type.offsets.back();
  return maps * static_cast<int64_t>(sizeof(int32_t)) * vertices;
}

template <class Index>
void Splitter<Index>::put_scales(size_t level, const std::function<float(int64_t)>& scale_of) {
  for (const Split& split : splits_)
    if (split.layers[level].sends[0].summed_edges > 0)
      throw std::invalid_argument("sums of rows have no scale: sample without partial sums");
  for (size_t part = 0; part < splits_.size(); ++part) {
    const CellSplit& cell = splits_[part].cells[0];
    Array<float>& scales = splits_[part].layers[level].scales;
    for (int64_t row = 0; row < cell.level_sizes[level - 1]; ++row) scales.push_back(scale_of(cell.vertices[row]));
    for (const Split& from : splits_)
      for (const int32_t row : from.layers[level].sends[0].rows[part])
        scales.push_back(scale_of(from.cells[0].vertices[row]));
  }
}

template <class Index>
void Splitter<Index>::share_below(size_t level) {
  for (Split& split : splits_) {
    auto& level_sizes = split.cells[0].level_sizes;
    for (size_t l = 0; l + 1 < level; ++l) level_sizes[l] = level_sizes[level];
    split.shared_layer = level;
  }
}

template class Splitter<int32_t>;
template class Splitter<int64_t>;

}  // namespace gsplit
