#include "ranks.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "aggregate_shared.hpp"
#include "random.hpp"

namespace gsplit {
namespace {

constexpr int64_t BLOCK_SOURCES = 60;  // whose scores of a panel a cache holds
constexpr int COLUMN_BITS = 20;        // of the word that a candidate is drawn by
constexpr int64_t LINE = 64;           // bytes
constexpr int64_t LINE_COLUMNS = 16;   // transposed at a time, so that a cache holds what is written

template <class T>
const RankKernels<T>& kernels() {
  if constexpr (std::is_same_v<T, float>) return chosen().rank_f32;
  else return chosen().rank_f64;
}

/// Rows of a table side by side, each a column of [width, RANK_PANEL].
template <class T>
class Panel {
 public:
  explicit Panel(int64_t width) : width_(width), values_(width * RANK_PANEL), zeros_(width) {}

  /// row_of(c) is the row for column c < count; the others are 0.
  template <class RowOf>
  const T* fill(int64_t count, const RowOf& row_of) {
    const T* rows[RANK_PANEL];
    for (int64_t c = 0; c < RANK_PANEL; ++c) rows[c] = c < count ? row_of(c) : zeros_.data();
    for (int64_t c = 0; c < count; ++c)
      for (int64_t k = 0; k < width_; k += LINE / static_cast<int64_t>(sizeof(T))) __builtin_prefetch(rows[c] + k);
    for (int64_t first = 0; first < width_; first += LINE_COLUMNS) {
      const int64_t end = std::min(first + LINE_COLUMNS, width_);
      for (int64_t c = 0; c < RANK_PANEL; ++c)
        for (int64_t k = first; k < end; ++k) values_[k * RANK_PANEL + c] = rows[c][k];
    }
    return values_.data();
  }

 private:
  int64_t width_;
  std::vector<T> values_, zeros_;
};

template <class T>
const T* row_of(Matrix<const T> table, int64_t row) {
  return table.data + row * table.stride;
}

void check_rows(std::span<const int64_t> rows, int64_t end, int64_t begin) {
  for (const int64_t row : rows)
    if (row < begin || row >= end)
      throw std::invalid_argument("row " + std::to_string(row) + " is outside 0 .. " + std::to_string(end - 1));
}

template <class T>
void check(const Scored<T>& scored) {
  require(scored.sources.width == scored.table.width, "sources and rows must be as wide as each other");
}

template <class T>
void check_counted(const Scored<T>& scored, std::span<const T> bounds, const Counts& counts) {
  check(scored);
  const auto n = static_cast<size_t>(scored.sources.rows);
  require(bounds.size() == n && counts.above.size() == n && counts.equal.size() == n,
          "there must be a bound and two counts for each source");
}

void check_lists(const RowLists& lists, int64_t sources, int64_t table) {
  require(static_cast<int64_t>(lists.indptr.size()) == sources + 1, "there must be a list for each source");
  require(lists.indptr.front() == 0 && lists.indptr.back() == static_cast<int64_t>(lists.rows.size()) &&
              std::is_sorted(lists.indptr.begin(), lists.indptr.end()),
          "lists must follow one another");
  check_rows(lists.rows, table, -1);
}

template <class T>
int64_t num_candidates(const Scored<T>& scored, const SharedRows& candidates) {
  return candidates ? static_cast<int64_t>(candidates->size()) : scored.table.rows;
}

/// Calls visit(block's first source, its sources, first candidate, candidates of the panel, scores) for the sources
/// begin .. end and all candidates.
template <class T, class Visit>
void each_tile(const Scored<T>& scored, const SharedRows& candidates, int64_t begin, int64_t end,
               const Visit& visit) {
  const auto& [sources, table] = scored;
  const int64_t all = num_candidates(scored, candidates);
  Panel<T> panel(table.width);
  std::vector<T> scores(BLOCK_SOURCES * RANK_PANEL);
  for (int64_t first = 0; first < all; first += RANK_PANEL) {
    const int64_t count = std::min(RANK_PANEL, all - first);
    const T* columns = panel.fill(
        count, [&](int64_t c) { return row_of(table, candidates ? (*candidates)[first + c] : first + c); });
    for (int64_t block = begin; block < end; block += BLOCK_SOURCES) {
      const int64_t rows = std::min(BLOCK_SOURCES, end - block);
      kernels<T>().score_panel(row_of(sources, block), rows, sources.stride, table.width, columns, scores.data());
      visit(block, rows, first, count, scores.data());
    }
  }
}

/// The best candidates of one source so far, as a heap with the worst on top.
template <class T>
class Best {
 public:
  struct Entry {
    T score;
    int64_t order;
    int64_t row;

    /// Better ones come first.
    bool operator<(const Entry& other) const {
      return score > other.score || (score == other.score && order < other.order);
    }
  };

  /// What a score must reach to be among them.
  T bound(size_t k) const { return heap_.size() < k ? -std::numeric_limits<T>::infinity() : heap_.front().score; }

  void add(const Entry& entry, size_t k) {
    if (heap_.size() == k) {
      if (!(entry < heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
    }
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end());
  }

  std::vector<Entry>& sorted() {
    std::sort_heap(heap_.begin(), heap_.end());
    return heap_;
  }

 private:
  std::vector<Entry> heap_;
};

}  // namespace

template <class T>
void score_pairs(const Scored<T>& scored, std::span<const int64_t> rows, std::span<T> out, int threads) {
  check(scored);
  const auto& [sources, table] = scored;
  require(static_cast<int64_t>(rows.size()) == sources.rows && out.size() == rows.size(),
          "there must be a row and a score for each source");
  check_rows(rows, table.rows, 0);
  shared_out(sources.rows, table.width, threads, [&](int64_t, int64_t begin, int64_t end) {
    Panel<T> left(table.width), right(table.width);
    T scores[RANK_PANEL];
    for (int64_t first = begin; first < end; first += RANK_PANEL) {
      const int64_t count = std::min(RANK_PANEL, end - first);
      const T* one = left.fill(count, [&](int64_t c) { return row_of(sources, first + c); });
      const T* other = right.fill(count, [&](int64_t c) { return row_of(table, rows[first + c]); });
      kernels<T>().score_beside(one, other, table.width, scores);
      std::copy_n(scores, count, out.begin() + first);
    }
  });
}

template <class T>
void count_shared(const Scored<T>& scored, std::span<const T> bounds, const SharedRows& candidates, Counts counts,
                  int threads) {
  check_counted(scored, bounds, counts);
  if (candidates) check_rows(*candidates, scored.table.rows, 0);
  const int64_t work = scored.table.width * num_candidates(scored, candidates);
  shared_out(scored.sources.rows, work, threads, [&](int64_t, int64_t begin, int64_t end) {
    each_tile(scored, candidates, begin, end,
              [&](int64_t block, int64_t rows, int64_t, int64_t count, const T* scores) {
                for (int64_t r = 0; r < rows; ++r) {
                  int64_t above, equal;
                  kernels<T>().count_scores(scores + r * RANK_PANEL, count, bounds[block + r], &above, &equal);
                  counts.above[block + r] += above;
                  counts.equal[block + r] += equal;
                }
              });
  });
}

template <class T>
void count_listed(const Scored<T>& scored, std::span<const T> bounds, const RowLists& candidates, int64_t sign,
                  Counts counts, int threads) {
  check_counted(scored, bounds, counts);
  const auto& [sources, table] = scored;
  check_lists(candidates, sources.rows, table.rows);
  const int64_t mean = sources.rows == 0 ? 0 : static_cast<int64_t>(candidates.rows.size()) / sources.rows;
  shared_out(sources.rows, table.width * (mean + 1), threads, [&](int64_t, int64_t begin, int64_t end) {
    Panel<T> panel(table.width);
    T scores[RANK_PANEL];
    int64_t kept[RANK_PANEL];
    for (int64_t i = begin; i < end; ++i) {
      const auto listed = candidates.of(i);
      for (size_t next = 0; next < listed.size();) {
        int64_t count = 0, above, equal;
        for (; next < listed.size() && count < RANK_PANEL; ++next)
          if (listed[next] >= 0) kept[count++] = listed[next];
        const T* columns = panel.fill(count, [&](int64_t c) { return row_of(table, kept[c]); });
        kernels<T>().score_panel(row_of(sources, i), 1, sources.stride, table.width, columns, scores);
        kernels<T>().count_scores(scores, count, bounds[i], &above, &equal);
        counts.above[i] += sign * above;
        counts.equal[i] += sign * equal;
      }
    }
  });
}

template <class T>
void best_rows(const Scored<T>& scored, const SharedRows& candidates, std::span<const int64_t> order,
               const RowLists& left_out, Matrix<int64_t> best, Matrix<T> scores, int threads) {
  check(scored);
  const auto& [sources, table] = scored;
  if (candidates) check_rows(*candidates, table.rows, 0);
  check_lists(left_out, sources.rows, table.rows);
  require(static_cast<int64_t>(order.size()) == table.rows, "there must be an order for each row");
  require(best.rows == sources.rows && scores.rows == sources.rows && best.width == scores.width,
          "there must be rows and scores for each source");
  const auto k = static_cast<size_t>(best.width);
  if (k == 0) return;
  const int64_t work = table.width * num_candidates(scored, candidates);
  shared_out(sources.rows, work, threads, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<Best<T>> found(end - begin);
    each_tile(scored, candidates, begin, end,
              [&](int64_t block, int64_t rows, int64_t first, int64_t count, const T* of_block) {
                for (int64_t r = 0; r < rows; ++r) {
                  const T* values = of_block + r * RANK_PANEL;
                  Best<T>& mine = found[block + r - begin];
                  int64_t above, equal;
                  kernels<T>().count_scores(values, count, mine.bound(k), &above, &equal);
                  if (above + equal == 0) continue;
                  const auto none = left_out.of(block + r);
                  for (int64_t c = 0; c < count; ++c) {
                    if (!(values[c] >= mine.bound(k))) continue;
                    const int64_t row = candidates ? (*candidates)[first + c] : first + c;
                    if (!std::binary_search(none.begin(), none.end(), row)) mine.add({values[c], order[row], row}, k);
                  }
                }
              });
    for (int64_t i = begin; i < end; ++i) {
      const auto& entries = found[i - begin].sorted();
      for (size_t at = 0; at < k; ++at) {
        best.data[i * best.stride + at] = at < entries.size() ? entries[at].row : -1;
        scores.data[i * scores.stride + at] =
            at < entries.size() ? entries[at].score : std::numeric_limits<T>::quiet_NaN();
      }
    }
  });
}

void draw_candidates(std::span<const uint64_t> keys, std::span<const int64_t> numbers,
                     std::span<const int64_t> vertices, const RowLists& left_out, Matrix<int64_t> out, int threads) {
  require(!vertices.empty(), "there must be a vertex");
  require(out.rows == static_cast<int64_t>(numbers.size()), "there must be candidates for each pair");
  require(out.width <= int64_t{1} << COLUMN_BITS, "there may be 2^20 candidates of a pair");
  check_lists(left_out, out.rows, std::numeric_limits<int64_t>::max());
  shared_out(out.rows, out.width, threads, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto none = left_out.of(i);
      for (int64_t c = 0; c < out.width; ++c) {
        const uint64_t word = static_cast<uint64_t>(numbers[i]) << COLUMN_BITS | static_cast<uint64_t>(c);
        int64_t drawn = -1;
        for (size_t attempt = 0; attempt < keys.size() && drawn < 0; ++attempt) {
          const int64_t vertex = vertices[fold_word(keys[attempt], word) % vertices.size()];
          if (!std::binary_search(none.begin(), none.end(), vertex)) drawn = vertex;
        }
        out.data[i * out.stride + c] = drawn;
      }
    }
  });
}

template void score_pairs(const Scored<float>&, std::span<const int64_t>, std::span<float>, int);
template void score_pairs(const Scored<double>&, std::span<const int64_t>, std::span<double>, int);
template void count_shared(const Scored<float>&, std::span<const float>, const SharedRows&, Counts, int);
template void count_shared(const Scored<double>&, std::span<const double>, const SharedRows&, Counts, int);
template void count_listed(const Scored<float>&, std::span<const float>, const RowLists&, int64_t, Counts, int);
template void count_listed(const Scored<double>&, std::span<const double>, const RowLists&, int64_t, Counts, int);
template void best_rows(const Scored<float>&, const SharedRows&, std::span<const int64_t>, const RowLists&,
                        Matrix<int64_t>, Matrix<float>, int);
template void best_rows(const Scored<double>&, const SharedRows&, std::span<const int64_t>, const RowLists&,
                        Matrix<int64_t>, Matrix<double>, int);

}  // namespace gsplit
