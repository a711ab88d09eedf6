// What a service process that takes the place of another reads of a rank's segment, into the mirror, with the rank
// passive: all that says what is posted and not done, and how far the rank is. From there it is found as in a segment
// that is mapped (service/loop/found_posts.hpp). The rank goes on meanwhile; so the order counts:
//
//   ring tail, the service process's line -> slots -> once more those that are done -> groups, until two reads agree
//   -> the arguments of what is posted, and its delivered marks
//
// A slot that was posted before that tail and is not done stays as it is, as nobody is there who would change it. One
// that is done may be given back and used again while it is read: then its line has changed.
//
// Thread rule: one thread. May go away under what it has begun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fabric/dpu/post_reader.hpp"
#include "fabric/dpu/remote_memory.hpp"

namespace outrigger::fabric::dpu {

class SegmentScan {
 public:
  // Both must outlive this.
  SegmentScan(RemoteMemory& remote, PostReader& reader) : remote_(remote), reader_(reader) {}

  // Once. `done`: the mirror has it all, and the reader goes on behind it; false: the rank's memory is not reached.
  void begin(Rma::Done done);

 private:
  // Of what is begun together: the next step when the last has ended.
  using Next = void (SegmentScan::*)();
  [[nodiscard]] Rma::Done step(Next next);
  [[nodiscard]] bool was_posted(SlotIndex slot) const;
  void read_slots();
  void read_done_slots_again();
  void read_groups();
  void compare_groups();
  void read_arguments();
  [[nodiscard]] std::span<std::byte> groups() const;

  RemoteMemory& remote_;
  PostReader& reader_;
  Rma::Done done_;
  std::uint64_t base_ = 0;
  std::uint32_t tail_ = 0;
  std::size_t left_ = 0;  // reads of this step
  bool failed_ = false;
  std::vector<std::byte> groups_before_;
  int group_reads_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace outrigger::fabric::dpu
