// Reads a rank's segment into the mirror for a replacement process, without the rank's help: all posts that are not
// done, and the rank's progress. The rest works as in a mapped segment (service/loop/found_posts.hpp). The rank keeps
// running, so the order matters:
//
//   ring tail, the service process's line -> slots -> once more the done ones -> groups, until two reads agree
//   -> the arguments of the posts, and their delivered marks
//
// A slot that was posted before that tail and is not done does not change: no process serves it. A done slot may be
// reused while it is read; then its line has changed.
//
// Thread rule: one thread. May be destroyed while its operations are in flight.
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

  // Called once. `done`: the mirror is complete and the reader continues behind it. False: the rank's memory is not
  // reached.
  void begin(Rma::Done done);

 private:
  // Completion of reads that start together: runs the next step after the last one.
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
  std::size_t left_ = 0;  // reads of this step in flight
  bool failed_ = false;
  std::vector<std::byte> groups_before_;
  int group_reads_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace outrigger::fabric::dpu
