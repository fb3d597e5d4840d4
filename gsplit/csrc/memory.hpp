// Large arrays: left as they come, on huge pages, lazily committed.
//
// A mini-batch has tens of millions of edges, and every array of it is written before it is read. So an Array
// does not zero what it is resized to (std::vector would write everything twice). From HUGE_BYTES on its memory
// comes straight from the kernel, which is asked for huge pages: random accesses then miss the page tables less.
// Such memory is committed when it is touched, so reserving more than is needed costs address space only.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace gsplit {

inline constexpr size_t HUGE_PAGE = size_t{2} << 20;
inline constexpr size_t HUGE_BYTES = HUGE_PAGE / 2;  // below this malloc does as well

inline size_t whole_pages(size_t bytes) { return (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1); }

template <class T>
struct LazyAllocator {
  using value_type = T;

  LazyAllocator() = default;
  template <class U>
  LazyAllocator(const LazyAllocator<U>&) {}

  T* allocate(size_t n) {
    if (n > SIZE_MAX / 2 / sizeof(T)) throw std::bad_alloc();
    const size_t bytes = n * sizeof(T);
    if (bytes < HUGE_BYTES) return static_cast<T*>(::operator new(bytes));
    // Whole huge pages: more than enough is mapped, and what stands over at both ends is given back.
    const size_t size = whole_pages(bytes);
    void* mapped =
        mmap(nullptr, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    const auto from = reinterpret_cast<uintptr_t>(mapped);
    const uintptr_t begin = (from + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    if (begin > from) munmap(mapped, begin - from);
    if (begin < from + HUGE_PAGE) munmap(reinterpret_cast<void*>(begin + size), from + HUGE_PAGE - begin);
    madvise(reinterpret_cast<void*>(begin), size, MADV_HUGEPAGE);  // a wish; without it the pages are small
    return reinterpret_cast<T*>(begin);
  }

  void deallocate(T* memory, size_t n) {
    if (n * sizeof(T) < HUGE_BYTES) ::operator delete(memory);
    else munmap(memory, whole_pages(n * sizeof(T)));
  }

  /// Elements begin unset, where std::allocator would zero them.
  template <class U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }

  friend bool operator==(const LazyAllocator&, const LazyAllocator&) { return true; }
};

template <class T>
using Array = std::vector<T, LazyAllocator<T>>;

/// Room for `size` elements, and for more to come where it has to grow.
template <class T>
void make_room(Array<T>& values, size_t size) {
  if (size > values.capacity()) values.reserve(std::max(size, 2 * values.capacity()));
}

/// Asks for huge pages under memory that others own, where the kernel offers them (files need large folios).
template <class T>
void wish_for_huge_pages(std::span<const T> memory) {
  const auto begin = (reinterpret_cast<uintptr_t>(memory.data()) + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
  const auto end = reinterpret_cast<uintptr_t>(memory.data() + memory.size()) & ~(HUGE_PAGE - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace gsplit
