#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

#include "splitter.hpp"

namespace gsplit {

int64_t dense_bytes(const std::vector<int64_t>& offsets) {
  const int64_t maps = offsets.size() > 2 ? 2 : 1;  // rows, and places where there are several splits
  return maps * static_cast<int64_t>(sizeof(int32_t)) * offsets.back();
}

template <class Index>
void Splitter<Index>::put_scales(size_t level, const std::function<float(int64_t)>& scale_of) {
  for (const Split& split : splits_)
    if (split.layers[level].summed_edges > 0)
      throw std::invalid_argument("sums of rows have no scale: sample without partial sums");
  for (size_t part = 0; part < splits_.size(); ++part) {
    Split& split = splits_[part];
    Array<float>& scales = split.layers[level].scales;
    for (int64_t row = 0; row < split.level_sizes[level - 1]; ++row) scales.push_back(scale_of(split.vertices[row]));
    for (const Split& from : splits_)
      for (const int32_t row : from.layers[level].send_rows[part]) scales.push_back(scale_of(from.vertices[row]));
  }
}

template <class Index>
void Splitter<Index>::share_below(size_t level) {
  for (Split& split : splits_) {
    for (size_t l = 0; l + 1 < level; ++l) split.level_sizes[l] = split.level_sizes[level];
    split.shared_layer = level;
  }
}

template class Splitter<int32_t>;
template class Splitter<int64_t>;

}  // namespace gsplit
