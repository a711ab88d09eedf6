// Which entries for courses in the rank's segment are free (protocol/course.hpp).
//
// Under the lock.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/shared/segment.hpp"

namespace outrigger::client {

class CourseNumbers {
 public:
  explicit CourseNumbers(SegmentView segment) : segment_(segment) {}

  // A fresh entry; at the limit none.
  [[nodiscard]] CourseNumber take() {
    CourseNumber number;
    if (!free_.empty()) {
      number = free_.back();
      free_.pop_back();
    } else if (used_ < kCourseEntries) {
      number.value = static_cast<std::uint16_t>(++used_);
    } else {
      return number;
    }
    segment_.course(number).clear();
    return number;
  }
  // No service process looks at it any more.
  void give_back(CourseNumber number) {
    if (number.valid()) free_.push_back(number);
  }

 private:
  SegmentView segment_;
  std::uint32_t used_ = 0;  // from 1 on
  std::vector<CourseNumber> free_;
};

}  // namespace outrigger::client
