// This rank's connection to the keeper after the welcome. It announces and drops regions, and the end of the connection
// means the end of the keeper. Without a keeper no region is accepted any more, and dead service processes are not
// replaced.
//
// Thread rule: any thread. answer(), lost(), and calls with `may_wait` false never wait for the keeper.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/memory/region.hpp"
#include "protocol/wire/control.hpp"

namespace outrigger::client {

enum class RegionAnswer { pending, accepted, refused };

class ControlChannel {
 public:
  // `segment`: of this rank, by which it sees that its service process lives when the keeper is gone (life_lock.hpp).
  // Invalid: the rank cannot continue without a keeper.
  ControlChannel(ControlSocket socket, WorldRank rank, UniqueFd segment)
      : socket_(std::move(socket)), rank_(rank), segment_(std::move(segment)) {}

  // Assigns the region's id and announces it to the service processes. The keeper requires increasing ids, in the order
  // of announcements. False: not sent (the keeper is gone, or with `may_wait` false: busy).
  [[nodiscard]] bool announce(Region& region, bool may_wait);
  // Their answer, without waiting. A final answer is given once.
  [[nodiscard]] RegionAnswer answer(RegionId region);
  // The same, waiting. Never returns `pending`: a missing answer is a refusal.
  [[nodiscard]] RegionAnswer wait_for_answer(RegionId region, std::chrono::milliseconds at_most);
  // With `may_wait` false it may not be sent; the service processes then keep their mapping until the rank leaves.
  void drop_region(RegionId region, bool may_wait);

  // For the first rank of a node, in a job of several, right after it has attached: what the others need to know of
  // this node, to be exchanged.
  [[nodiscard]] Result<std::vector<std::byte>> node_descriptor(std::chrono::milliseconds at_most);
  [[nodiscard]] Status take_job_map(std::span<const std::byte> descriptors, std::uint32_t node,
                                    std::chrono::milliseconds at_most);

  // Service processes of this node replace those on the DPU: receives the segment and the doorbell, as in a welcome.
  [[nodiscard]] Result<UniqueFd> leave_dpu(std::chrono::milliseconds at_most);
  // The DPU reaches nothing here any more. Announces the regions that service processes may map (Regions::leave_dpu).
  void has_left_dpu(std::span<const Region> mapped);

  // Gives the keeper of this node memory that holds what this rank counts (report/ledger.hpp): it outlives the rank.
  // Or its events (trace/event_memory.hpp), which the service process of this rank adds to: it says there when it does.
  // `what`: counts or trace; or, without a descriptor, trace_settle: what a service process on a DPU has noted until
  // now is to be in that memory, which says when it is.
  void show(ControlKind what, int fd = -1);
  // False: it could not be sent.
  bool goodbye();
  // In a forked child, where another thread may hold the lock for ever: closes without locking.
  void close_in_child() {
    socket_.close();
    segment_.reset();
  }

  // The reason why this rank is not served any more; empty while the keeper lives, or has died and the service process
  // lives. Checks at most every 5 ms.
  [[nodiscard]] std::optional<std::string> lost();
  // The keeper has died, and the service process continues without it, as far as is known.
  [[nodiscard]] bool is_unprotected() const { return is_lost() && !is_over_.load(std::memory_order_acquire); }
  // As far as is known, without a check.
  [[nodiscard]] bool is_lost() const { return is_lost_.load(std::memory_order_acquire); }

 private:
  // Without `may_wait` the lock may not be held.
  [[nodiscard]] std::unique_lock<std::mutex> locked(bool may_wait);
  // The next message of that kind, which the keeper sends once. Errors: lost, or timeout.
  [[nodiscard]] Result<ControlMessage> wait_for(ControlKind kind, std::chrono::milliseconds at_most);
  // Receives at most one message; true if there was one. Under the lock.
  bool receive_one(int timeout_ms);
  void lose(std::string reason);
  void note_what_is_lost();
  static void let_go_on(int segment);
  [[nodiscard]] RegionAnswer take_answer(RegionId region);

  std::mutex mutex_;
  ControlSocket socket_;
  const WorldRank rank_;
  std::unordered_map<std::uint32_t, RegionAnswer> answers_;   // of announced regions, until given out
  std::unordered_map<ControlKind, ControlMessage> expected_;  // node_descriptor and other single messages, until taken
  std::uint32_t next_region_ = kFirstAddedRegion.value();
  std::string lost_reason_;
  UniqueFd segment_;
  bool keeper_died_ = false;
  std::atomic<bool> is_lost_{false};
  std::atomic<bool> is_over_{false};  // and this rank is not served any more
  std::atomic<std::int64_t> next_look_ns_{0};
};

}  // namespace outrigger::client
