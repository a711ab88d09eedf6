// Indices of our variables and categories among the MPI's own (MPI_T): after those that it had when a tool first asked.
// Later ones of the MPI, as of a newly loaded component, come after ours, so that an index never changes its meaning.
//
//     native 0 ... n-1 | ours 0 ... m-1 | native n ...
#pragma once

#include <atomic>
#include <optional>

namespace outrigger::mpi {

class Indices {
 public:
  constexpr explicit Indices(int (*count_of_ours)()) : ours_(count_of_ours) {}

  // Updates the MPI's present number. Call it before all others, each time.
  void see_native(int count) {
    int unknown = -1;
    native_before_.compare_exchange_strong(unknown, count, std::memory_order_acq_rel);
  }
  // The total, if the MPI has `native_count`.
  [[nodiscard]] int total(int native_count) const { return native_count + ours_(); }
  // Index among ours; nullopt: a native index, or none at all.
  [[nodiscard]] std::optional<int> ours(int index) const {
    const int place = index - native_before_.load(std::memory_order_acquire);
    return place >= 0 && place < ours_() ? std::optional(place) : std::nullopt;
  }
  // The MPI's index for one that is not ours; nullopt if there is none. MPICH 4.0 must not be asked for invalid
  // indices.
  [[nodiscard]] std::optional<int> native(int index, int native_count) const {
    const int native_index = native(index);
    return native_index >= 0 && native_index < native_count ? std::optional(native_index) : std::nullopt;
  }
  [[nodiscard]] int of_ours(int place) const { return native_before_.load(std::memory_order_acquire) + place; }
  [[nodiscard]] int of_native(int native_index) const {
    return native_index < native_before_.load(std::memory_order_acquire) ? native_index : native_index + ours_();
  }

 private:
  [[nodiscard]] int native(int index) const {
    return index < native_before_.load(std::memory_order_acquire) ? index : index - ours_();
  }

  int (*ours_)();
  std::atomic<int> native_before_ = -1;
};

}  // namespace outrigger::mpi
