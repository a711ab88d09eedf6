#include "heap/ranges.hpp"

namespace outrigger::heap {
namespace {

Range both(const Range& one, const Range& other) {
  return {std::min(one.begin, other.begin), std::max(one.end, other.end)};
}

}  // namespace

void RangeSet::add(Range wanted) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    if (ranges_[i].meets(wanted)) {
      wanted = both(ranges_[i], wanted);
    } else {
      ranges_[kept++] = ranges_[i];
    }
  }
  count_ = kept;
  if (count_ == kMost) {
    --count_;
    ranges_[count_ - 1].end = ranges_[count_].end;
    return add(wanted);
  }
  std::size_t place = count_++;
  for (; place > 0 && wanted.begin < ranges_[place - 1].begin; --place) ranges_[place] = ranges_[place - 1];
  ranges_[place] = wanted;
}

}  // namespace outrigger::heap
