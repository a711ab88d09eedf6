// One pass over all contributions for the trees that MPIs use most, compiled once for each instruction set. As in
// reduce/elementwise.hpp, `Set` is only a name, and nothing of the standard library is called. Vectors are written out:
// the output may be one of the contributions, so the compiler would not find them by itself.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrigger::intranode {

// True: a result is a NaN. `out` may be one of the contributions.
using FusedKernel = bool (*)(const std::byte* const* contributions, std::byte* out, std::size_t elements);

struct FusedKernels {
  static constexpr std::size_t kMostMembers = 8;

  // By type (float, double), operation (sum, product), shape (balanced, linear) and members.
  FusedKernel kernels[2][2][2][kMostMembers + 1];
  // By type. Is one of `elements` a NaN?
  bool (*has_nan[2])(const std::byte* from, std::size_t elements);
  // By type and operation (minimum, maximum), of any number of members. True: the result may depend on the order, or
  // on the thread's mode.
  bool (*extremum[2][2])(const std::byte* const* contributions, std::size_t members, std::byte* out,
                         std::size_t elements);
};

[[nodiscard]] const FusedKernels& fused_baseline();
#if defined(__x86_64__)
[[nodiscard]] const FusedKernels& fused_x86_64_v3();
#endif

// SumTree's nodes, for the compiler.
struct FixedTree {
  std::uint8_t left[FusedKernels::kMostMembers];
  std::uint8_t right[FusedKernels::kMostMembers];
};

template <class Set>
consteval FixedTree fixed_tree(bool linear, std::size_t members) {
  FixedTree tree{};
  std::uint8_t operands[FusedKernels::kMostMembers] = {};
  for (std::size_t i = 0; i < members; ++i) operands[i] = static_cast<std::uint8_t>(i);
  std::size_t node = 0;
  std::size_t power = 1;
  while (2 * power < members) power *= 2;
  // The number of operands to come to in this round; all pairs are at the front.
  for (std::size_t left = members, next = linear ? members - 1 : power; left > 1;
       left = next, next = linear ? left - 1 : left / 2) {
    const std::size_t pairs = left - next;
    for (std::size_t i = 0; i < pairs; ++i) {
      tree.left[node] = operands[2 * i];
      tree.right[node] = operands[2 * i + 1];
      operands[i] = static_cast<std::uint8_t>(members + node++);
    }
    for (std::size_t i = 2 * pairs; i < left; ++i) operands[i - pairs] = operands[i];
  }
  return tree;
}

template <class Set, class T, std::size_t bytes>
struct Lanes {
  typedef T Value __attribute__((vector_size(bytes)));  // gcc ignores the attribute in a using-declaration
  using Mask = decltype(Value{} != Value{});
  using MaskWord = decltype(Mask{}[0] + 0);
  static constexpr std::size_t kCount = bytes / sizeof(T);

  static Value load(const std::byte* from) {
    Value value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  }
  static Mask bits_of(Value value) {
    Mask bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  // Which count as zeros in a thread that flushes them.
  static Mask is_denormal(Value value) {
    constexpr auto kLeastNormal = static_cast<MaskWord>(sizeof(T) == 8 ? 0x10'0000'0000'0000 : 0x80'0000);
    constexpr auto kMagnitude = static_cast<MaskWord>(sizeof(T) == 8 ? 0x7FFF'FFFF'FFFF'FFFF : 0x7FFF'FFFF);
    const Mask magnitude = bits_of(value) & kMagnitude;
    return (magnitude != 0) & (magnitude < kLeastNormal);
  }
  static bool any(Mask mask) {
    bool found = false;
    for (std::size_t i = 0; i < kCount; ++i) found |= mask[i] != 0;
    return found;
  }
};

template <class Set, class T>
struct One {
  using Value = T;
  static Value load(const std::byte* from) {
    Value value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  }
};

template <class Set, class Lane, bool product, FixedTree tree, std::size_t members, std::size_t operand>
[[gnu::always_inline]] inline typename Lane::Value value_of(const std::byte* const* contributions, std::size_t offset) {
  if constexpr (operand < members) {
    return Lane::load(contributions[operand] + offset);
  } else {
    const auto left = value_of<Set, Lane, product, tree, members, tree.left[operand - members]>(contributions, offset);
    const auto right =
        value_of<Set, Lane, product, tree, members, tree.right[operand - members]>(contributions, offset);
    if constexpr (product) {
      return left * right;
    } else {
      return left + right;
    }
  }
}

template <class Set, class T, std::size_t bytes, bool product, bool linear, std::size_t members>
bool fused(const std::byte* const* contributions, std::byte* out, std::size_t elements) {
  using Many = Lanes<Set, T, bytes>;
  constexpr FixedTree tree = fixed_tree<Set>(linear, members);
  constexpr std::size_t root = 2 * members - 2;
  const std::byte* from[members];
  for (std::size_t i = 0; i < members; ++i) from[i] = contributions[i];
  typename Many::Mask nan{};
  const std::size_t end = elements * sizeof(T);
  const std::size_t vectors = end - end % bytes;
  for (std::size_t at = 0; at < vectors; at += bytes) {
    const auto value = value_of<Set, Many, product, tree, members, root>(from, at);
    nan |= value != value;  // NOLINT(misc-redundant-expression): is it a NaN?
    __builtin_memcpy(out + at, &value, bytes);
  }
  bool found = Many::any(nan);
  for (std::size_t at = vectors; at < end; at += sizeof(T)) {
    const T value = value_of<Set, One<Set, T>, product, tree, members, root>(from, at);
    found |= value != value;  // NOLINT(misc-redundant-expression): is it a NaN?
    __builtin_memcpy(out + at, &value, sizeof(T));
  }
  return found;
}

template <class Set, class T, std::size_t bytes>
bool has_nan(const std::byte* from, std::size_t elements) {
  using Many = Lanes<Set, T, bytes>;
  typename Many::Mask nan{};
  const std::size_t end = elements * sizeof(T);
  const std::size_t vectors = end - end % bytes;
  for (std::size_t at = 0; at < vectors; at += bytes) {
    const auto value = Many::load(from + at);
    nan |= value != value;  // NOLINT(misc-redundant-expression): is it a NaN?
  }
  bool found = Many::any(nan);
  for (std::size_t at = vectors; at < end; at += sizeof(T)) {
    const T value = One<Set, T>::load(from + at);
    found |= value != value;  // NOLINT(misc-redundant-expression): is it a NaN?
  }
  return found;
}

// `left` becomes the greater (less) of both. By the two rules for operands that are equal or NaNs (maxpd with its
// operands in either order), the bits differ just where the order shows; equal NaNs are the same in every order.
template <class Set, class Many, bool greatest>
[[gnu::always_inline]] inline void take_extremum(typename Many::Value& left, const typename Many::Value& right,
                                                 typename Many::Mask& shows) {
  const typename Many::Value one = (greatest ? right > left : right < left) ? right : left;
  const typename Many::Value other = (greatest ? left > right : left < right) ? left : right;
  shows |= (Many::bits_of(one) ^ Many::bits_of(other)) | Many::is_denormal(right);
  left = one;
}

template <class Set, class T, std::size_t bytes, bool greatest>
bool extremum(const std::byte* const* contributions, std::size_t members, std::byte* out, std::size_t elements) {
  using Many = Lanes<Set, T, bytes>;
  constexpr std::size_t kAtOnce = 4;
  typename Many::Mask shows{};
  const std::size_t end = elements * sizeof(T);
  std::size_t at = 0;
  for (; at + kAtOnce * bytes <= end; at += kAtOnce * bytes) {
    typename Many::Value values[kAtOnce];
    for (std::size_t k = 0; k < kAtOnce; ++k) {
      values[k] = Many::load(contributions[0] + at + k * bytes);
      shows |= Many::is_denormal(values[k]);
    }
    for (std::size_t i = 1; i < members; ++i) {
      for (std::size_t k = 0; k < kAtOnce; ++k)
        take_extremum<Set, Many, greatest>(values[k], Many::load(contributions[i] + at + k * bytes), shows);
    }
    __builtin_memcpy(out + at, values, sizeof(values));
  }
  for (; at < end; at += sizeof(T)) {  // the other lanes are zeros
    typename Many::Value value{};
    __builtin_memcpy(&value, contributions[0] + at, sizeof(T));
    shows |= Many::is_denormal(value);
    for (std::size_t i = 1; i < members; ++i) {
      typename Many::Value right{};
      __builtin_memcpy(&right, contributions[i] + at, sizeof(T));
      take_extremum<Set, Many, greatest>(value, right, shows);
    }
    __builtin_memcpy(out + at, &value, sizeof(T));
  }
  return Many::any(shows);
}

template <class Set, std::size_t bytes, class T, std::size_t members>
constexpr void add_fused(FusedKernel (&kernels)[2][2][FusedKernels::kMostMembers + 1]) {
  kernels[0][0][members] = fused<Set, T, bytes, false, false, members>;
  kernels[0][1][members] = fused<Set, T, bytes, false, true, members>;
  kernels[1][0][members] = fused<Set, T, bytes, true, false, members>;
  kernels[1][1][members] = fused<Set, T, bytes, true, true, members>;
  if constexpr (members > 2) add_fused<Set, bytes, T, members - 1>(kernels);
}

template <class Set, std::size_t bytes>
constexpr FusedKernels make_fused() {
  FusedKernels all{};
  add_fused<Set, bytes, float, FusedKernels::kMostMembers>(all.kernels[0]);
  add_fused<Set, bytes, double, FusedKernels::kMostMembers>(all.kernels[1]);
  all.has_nan[0] = has_nan<Set, float, bytes>;
  all.has_nan[1] = has_nan<Set, double, bytes>;
  all.extremum[0][0] = extremum<Set, float, bytes, false>;
  all.extremum[0][1] = extremum<Set, float, bytes, true>;
  all.extremum[1][0] = extremum<Set, double, bytes, false>;
  all.extremum[1][1] = extremum<Set, double, bytes, true>;
  return all;
}

}  // namespace outrigger::intranode
