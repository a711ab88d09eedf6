// This rank's help with its service process's copies (copy/policy.hpp): a copier, waiting threads, and huge pages for
// memory that others read.
//
// Any thread, except posted().
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "client/copies/copier.hpp"
#include "client/copies/spare_copier.hpp"
#include "client/copies/wait_helper.hpp"
#include "client/endpoint_lock.hpp"
#include "client/memory/huge_pages.hpp"
#include "client/operations/doorbell.hpp"
#include "client/operations/slot_request.hpp"
#include "protocol/shared/segment.hpp"
#include "protocol/wire/control.hpp"

namespace outrigger::client {

class Lending {
 public:
  struct Allowed {
    bool wait_copies = false;
    bool huge_pages = false;
    SpareCores spare_cores{};  // for a DPU
  };
  Lending(EndpointLock& lock, SegmentView segment, const Doorbell& doorbell, const WelcomeBody& welcome,
          Allowed allowed);

  // Under the lock. An operation has been posted: others read its send memory, and its receive memory if its algorithm
  // passes that on.
  void posted(const OperationRequest& request, const SideMemory& send, const SideMemory& receive) {
    if (copy_queue_.wanted.load(std::memory_order_acquire) != 0) start_copier();
    spare_copier_.posted(std::max(send.bytes, receive.bytes));
    note_source(send);
    if (passes_on(request.collective, request.algorithm)) note_source(receive);
  }

  // A thread of this process makes copies for its service process (started by a post when there is work for it). Then
  // a rank's own block in private memory is better left to the service process.
  [[nodiscard]] bool copier_runs() const { return !lock_.is_inert() && copier_.runs(); }
  // The calling thread waits. Unless this returns `no`, it calls help() between its checks, and leave_wait() at the
  // end. help() makes one copy of at most a few hundred KiB for the service process. If help() returns true, it has
  // copied, and the thread checks again.
  [[nodiscard]] copy::Waits enter_wait();
  void leave_wait(copy::Waits waits);
  [[nodiscard]] bool help();
  // The same for a thread that tests, if there is no copier; false if there is one.
  [[nodiscard]] bool help_where_alone() { return helper_.alone() && help(); }
  [[nodiscard]] bool wants_help() const { return helper_.wanted(); }
  // The thread that posted may wait from now on.
  void may_wait(std::uint64_t bytes) { helper_.posted(bytes); }
  [[nodiscard]] std::uint64_t helped_bytes() const { return helper_.bytes(); }
  // By the copier on a spare core.
  [[nodiscard]] std::uint64_t spare_bytes() const { return spare_copier_.bytes(); }
  [[nodiscard]] std::uint64_t huge_bytes() const { return huge_pages_.bytes(); }

  // Before the program's memory goes away, at its exit. Waits for copies in progress.
  void stop() {
    copier_.stop();
    spare_copier_.stop();
    helper_.stop();
  }
  void forget_in_child() {
    copier_.forget();
    spare_copier_.forget();
    helper_.forget();
  }

 private:
  void start_copier();
  void note_source(const SideMemory& side);

  EndpointLock& lock_;
  CopyQueue& copy_queue_;
  const Doorbell& doorbell_;
  const int cpu_;                      // of the service process
  const bool copier_lends_;            // a copier is possible
  SegmentHeader* const shown_to_dpu_;  // nullptr: service processes are on the host
  HugePages huge_pages_;
  Copier copier_;
  SpareCopier spare_copier_;
  WaitHelper helper_;
};

}  // namespace outrigger::client
