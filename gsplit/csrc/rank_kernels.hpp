// Scores of sources and a panel of candidates (ranks.hpp); included by row_kernels.cpp alone, inside its namespace.
//
// A panel has its candidates transposed, so each is a lane of its own: a score is the sum over the columns in their
// order, begun with 0, by whichever of the functions here, so equal rows have equal scores to the last bit.

template <class T>
inline constexpr int RANK_LANES = VECTOR_BYTES / static_cast<int>(sizeof(T));
template <class T>
using RankVector = typename Vector<T, RANK_LANES<T>>::type;

template <class T>
inline RankVector<T> rank_load(const T* from) {
  return *reinterpret_cast<const RankVector<T>*>(from);
}

/// Scores of ROWS sources and CHUNKS vectors of candidates.
template <class T, int CHUNKS, int ROWS>
inline void score_tile(const T* sources, int64_t stride, int64_t width, const T* panel, T* scores) {
  constexpr int LANES = RANK_LANES<T>;
  RankVector<T> total[ROWS][CHUNKS] = {};
  for (int64_t k = 0; k < width; ++k, panel += RANK_PANEL) {
    RankVector<T> candidates[CHUNKS];
    for (int c = 0; c < CHUNKS; ++c) candidates[c] = rank_load(panel + c * LANES);
    for (int r = 0; r < ROWS; ++r)
      for (int c = 0; c < CHUNKS; ++c) total[r][c] += candidates[c] * sources[r * stride + k];
  }
  for (int r = 0; r < ROWS; ++r)
    for (int c = 0; c < CHUNKS; ++c)
      *reinterpret_cast<RankVector<T>*>(scores + r * RANK_PANEL + c * LANES) = total[r][c];
}

/// scores[rows, RANK_PANEL] of all sources and the candidates of a panel [width, RANK_PANEL].
template <class T>
void score_panel(const T* sources, int64_t rows, int64_t stride, int64_t width, const T* panel, T* scores) {
  constexpr int CHUNKS = MOST_CHUNKS > 8 ? 4 : 2, ROWS = MOST_CHUNKS > 8 ? 6 : 5, LANES = RANK_LANES<T>;
  for (int64_t first = 0; first < RANK_PANEL; first += CHUNKS * LANES) {
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS)
      score_tile<T, CHUNKS, ROWS>(sources + r * stride, stride, width, panel + first,
                                  scores + r * RANK_PANEL + first);
    for (; r < rows; ++r)
      score_tile<T, CHUNKS, 1>(sources + r * stride, stride, width, panel + first, scores + r * RANK_PANEL + first);
  }
}

/// scores[RANK_PANEL] of the pairs that two panels have in the same places.
template <class T>
void score_beside(const T* sources, const T* candidates, int64_t width, T* scores) {
  constexpr int CHUNKS = RANK_PANEL / RANK_LANES<T> < 8 ? RANK_PANEL / RANK_LANES<T> : 8, LANES = RANK_LANES<T>;
  for (int64_t first = 0; first < RANK_PANEL; first += CHUNKS * LANES) {
    RankVector<T> total[CHUNKS] = {};
    for (int64_t k = 0; k < width; ++k) {
      const int64_t at = k * RANK_PANEL + first;
      for (int c = 0; c < CHUNKS; ++c)
        total[c] += rank_load(candidates + at + c * LANES) * rank_load(sources + at + c * LANES);
    }
    for (int c = 0; c < CHUNKS; ++c) *reinterpret_cast<RankVector<T>*>(scores + first + c * LANES) = total[c];
  }
}

/// How many of the first `count` scores are above a bound, and how many equal; one that is no number is above.
template <class T>
void count_scores(const T* scores, int64_t count, T bound, int64_t* above, int64_t* equal) {
  constexpr int LANES = RANK_LANES<T>;
  RankVector<T> limit;
  for (int lane = 0; lane < LANES; ++lane) limit[lane] = bound;
  decltype(limit == limit) more{}, same{};
  int64_t c = 0, over = 0, alike = 0;
  for (; c + LANES <= count; c += LANES) {
    const RankVector<T> values = rank_load(scores + c);
    more += ~(values <= limit);  // true is -1
    same += values == limit;
  }
  for (int lane = 0; lane < LANES; ++lane) {
    over -= more[lane];
    alike -= same[lane];
  }
  for (; c < count; ++c) {
    over += !(scores[c] <= bound);
    alike += scores[c] == bound;
  }
  *above = over;
  *equal = alike;
}
