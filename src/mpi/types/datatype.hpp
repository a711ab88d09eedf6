// Is one element of a datatype a single piece of memory whose bytes are in typemap order? Then blocks of it need no
// packing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

struct Job;

struct TypeShape {
  std::int64_t size = 0;    // bytes of data
  std::int64_t extent = 0;  // from one element to the next
  std::int64_t first = 0;   // offset of the first byte (true lower bound)
  bool dense = false;       // the bytes are [first, first + size), in typemap order
  bool predefined = false;  // cannot be freed
  bool committed = false;

  // `count` elements are one dense piece.
  [[nodiscard]] bool dense_for(std::int64_t count) const { return dense && (count <= 1 || extent == size); }
};

[[nodiscard]] bool register_datatypes(Job& job);
void forget_datatypes(Job& job);

namespace detail {
// Predefined types live for ever, so what is known of them may too. Direct mapped, replaced never: later types that
// fall on a taken entry are looked at anew each time.
struct Predefined {
  std::uint64_t key;
  TypeShape shape;
};
inline constexpr std::size_t kPredefinedEntriesLog2 = 9;
extern constinit std::array<std::atomic<const Predefined*>, 1U << kPredefinedEntriesLog2> predefined_types;

[[nodiscard]] inline std::atomic<const Predefined*>& predefined_entry(MPI_Datatype type) {
  return predefined_types[(handle_key(type) * 0x9E3779B97F4A7C15ULL) >> (64 - kPredefinedEntriesLog2)];
}
[[nodiscard]] TypeShape find_shape(const Job& job, MPI_Datatype type);
// nullptr: not known, or not predefined.
[[nodiscard, gnu::always_inline]] inline const TypeShape* predefined_shape(MPI_Datatype type) {
  const Predefined* known = predefined_entry(type).load(std::memory_order_acquire);
  return known != nullptr && known->key == handle_key(type) ? &known->shape : nullptr;
}
}  // namespace detail

// Found once per type (cached: on an attribute for derived types). The type must not be MPI_DATATYPE_NULL. Any thread.
[[nodiscard, gnu::always_inline]] inline TypeShape shape_of(const Job& job, MPI_Datatype type) {
  const TypeShape* known = detail::predefined_shape(type);
  return known != nullptr ? *known : detail::find_shape(job, type);
}

// The same without a job and a cache; `committed` is unknown.
[[nodiscard]] TypeShape uncommitted_shape_of(MPI_Datatype type);

}  // namespace outrigger::mpi
