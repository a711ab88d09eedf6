// This rank's control segment, mapped. Not inherited by forked children.
#pragma once

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

class MappedSegment {
 public:
  MappedSegment() = default;
  MappedSegment(MappedSegment&& other) noexcept;
  MappedSegment& operator=(MappedSegment&& other) noexcept;
  MappedSegment(const MappedSegment&) = delete;
  MappedSegment& operator=(const MappedSegment&) = delete;
  ~MappedSegment() { unmap(); }

  // Checks that `fd` is a sealed segment for this rank and world before anything else is read from it.
  [[nodiscard]] static Result<MappedSegment> map(const UniqueFd& fd, WorldRank rank, std::uint32_t world_size);

  [[nodiscard]] const SegmentView& view() const { return view_; }
  void unmap();
  // In a forked child other memory may be at these addresses: forgets them without unmapping.
  void forget() { view_ = SegmentView(); }

 private:
  SegmentView view_;
};

}  // namespace outrigger::client
