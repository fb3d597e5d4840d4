// Numbers of bfloat16: the upper halves of float32. They are stored and sent; what is computed of them is float32.
#pragma once

#include <cstdint>

namespace gsplit {

struct BFloat16 {
  uint16_t bits;
};

/// The type that rows of a type are computed in: their own, or float32 of bfloat16.
template <class T>
struct ComputedIn {
  using type = T;
};
template <>
struct ComputedIn<BFloat16> {
  using type = float;
};
template <class T>
using Computed = typename ComputedIn<T>::type;

/// Whether rows of a type are computed in a wider one.
template <class T>
inline constexpr bool NARROW = sizeof(T) < sizeof(Computed<T>);

inline float widened(BFloat16 value) { return __builtin_bit_cast(float, static_cast<uint32_t>(value.bits) << 16); }

/// The nearest, of two the even one; NaN stays NaN.
inline BFloat16 narrowed(float value) {
  const auto bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return {static_cast<uint16_t>(value == value ? rounded : 0x7fc0u)};
}

}  // namespace gsplit
