// Memory that a collective's arguments describe. Only for calls that the MPI has accepted: arrays of counts are read.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "mpi/native/real.hpp"
#include "mpi/windows/guards.hpp"
#include "protocol/collective_calls.hpp"

namespace outrigger::mpi {

// The whole pages inside the data that this rank sends and receives. Empty: the data have gaps, or a side has data but
// no whole page, or this is a call that is not measured.
class CallBuffers {
 public:
  CallBuffers() = default;
  CallBuffers(CollectiveCall call, std::span<const Word> words, bool large_counts);
  // False: nothing to use later, or the rank is alone. Then requests may be shared with other calls.
  [[nodiscard]] bool has_data() const { return has_data_; }
  [[nodiscard]] std::span<const GuardedPages> pages() const { return {pages_.data(), is_known_ ? count_ : 0}; }

 private:
  std::array<GuardedPages, 2> pages_{};
  std::size_t count_ = 0;
  bool is_known_ = true;
  bool has_data_ = false;
};

// The same for several calls that end together. Empty if those of one call are, or if there are too many.
class BuffersOfCalls {
 public:
  void add(const CallBuffers& call);
  [[nodiscard]] bool has_data() const { return has_data_; }
  [[nodiscard]] std::span<const GuardedPages> pages() const { return {pages_.data(), is_known_ ? count_ : 0}; }

 private:
  std::array<GuardedPages, kMostGuardedRanges> pages_{};
  std::size_t count_ = 0;
  bool is_known_ = true;
  bool has_data_ = false;
};

}  // namespace outrigger::mpi
