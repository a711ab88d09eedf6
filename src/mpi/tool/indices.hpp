// Where our variables and categories stand among the MPI's own (MPI_T): behind those that it had when a tool first
// asked. What the MPI adds later, as when it loads a component, comes behind ours, so that an index never changes its
// meaning.
//
//     native 0 ... n-1 | ours 0 ... m-1 | native n ...
#pragma once

#include <atomic>
#include <optional>

namespace outrigger::mpi {

class Indices {
 public:
  constexpr explicit Indices(int (*count_of_ours)()) : ours_(count_of_ours) {}

  // What the MPI says that it has now. Before anything else, each time.
  void see_native(int count) {
    int unknown = -1;
    native_before_.compare_exchange_strong(unknown, count, std::memory_order_acq_rel);
  }
  // All that there is where the MPI has so many.
  [[nodiscard]] int total(int native_count) const { return native_count + ours_(); }
  // Which of ours; none: a native one, or no index at all.
  [[nodiscard]] std::optional<int> ours(int index) const {
    const int place = index - native_before_.load(std::memory_order_acquire);
    return place >= 0 && place < ours_() ? std::optional(place) : std::nullopt;
  }
  // Of one that is not ours: what the MPI, which has so many, calls it. None: nobody has it. MPICH 4.0 is not to be
  // asked for what it does not have.
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
