#include "client/memory/mapped_segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace outrigger::client {

MappedSegment::MappedSegment(MappedSegment&& other) noexcept : view_(std::exchange(other.view_, SegmentView())) {}

MappedSegment& MappedSegment::operator=(MappedSegment&& other) noexcept {
  if (this != &other) {
    unmap();
    view_ = std::exchange(other.view_, SegmentView());
  }
  return *this;
}

Result<MappedSegment> MappedSegment::map(const UniqueFd& fd, WorldRank rank, std::uint32_t world_size) {
  constexpr int kWantedSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kWantedSeals) != kWantedSeals) {
    return Error{"the keeper sent a control segment that is not sealed against a change of its size"};
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || status.st_size != static_cast<off_t>(SegmentView::segment_bytes())) {
    return Error{
        "the keeper sent a control segment of the wrong size; use the library and outriggerd of one installation"};
  }
  void* base = ::mmap(nullptr, SegmentView::segment_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return Error{std::string("cannot map the control segment: ") + std::strerror(errno)};
  MappedSegment segment;
  segment.view_ = SegmentView(static_cast<std::byte*>(base));
  if (::madvise(base, SegmentView::segment_bytes(), MADV_DONTFORK) != 0) {
    return Error{std::string("cannot keep the control segment from forked children (madvise): ") +
                 std::strerror(errno)};
  }
  if (!segment.view_.valid_for(rank) || segment.view_.header().world_size != world_size) {
    return Error{"the keeper sent a control segment that is not for rank " + std::to_string(rank.value()) +
                 "; use the library and outriggerd of one installation"};
  }
  return segment;
}

void MappedSegment::unmap() {
  if (view_) ::munmap(view_.base(), SegmentView::segment_bytes());
  view_ = SegmentView();
}

}  // namespace outrigger::client
