// Which entries for dispatch plans in the rank's segment are free.
//
// Under the lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/shared/segment.hpp"

namespace outrigger::client {

class PlanNumbers {
 public:
  explicit PlanNumbers(SegmentView segment) : segment_(segment) {}

  // A fresh entry; at the limit none.
  [[nodiscard]] PlanNumber take() {
    PlanNumber number;
    if (!free_.empty()) {
      number = free_.back();
      free_.pop_back();
    } else if (used_ < kPlanEntries) {
      number.value = static_cast<std::uint16_t>(++used_);
    } else {
      return number;
    }
    std::fill_n(segment_.plan_entry(number), kPlanEntryBytes, std::byte{0});
    return number;
  }
  // No service process looks at it any more.
  void give_back(PlanNumber number) {
    if (number.valid()) free_.push_back(number);
  }

 private:
  SegmentView segment_;
  std::uint32_t used_ = 0;  // from 1 on
  std::vector<PlanNumber> free_;
};

}  // namespace outrigger::client
