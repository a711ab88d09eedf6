// A member's side of its group's service process: who does a collective, posts, and waits for them.
//
// In a group on several nodes, members cannot go on from what a service process has begun. So its end is an error.
//
// A member that wants the service process may come before, or after, one that waits in the call. The one that comes
// first decides for all.
//
// Posts are settled in their order. A member may post further ones meanwhile, which the process does one after the
// other.
//
// Thread rule: begin(), begin_ahead(), next_post() and put() by one thread at a time, in the order of the group's
// collectives. wait(), finish_pieces() and settle() by one thread at a time, which may be another one. Others by any.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "group/layout.hpp"
#include "group/member_processes.hpp"
#include "group/member_watch.hpp"
#include "group/service/service_area.hpp"

namespace outrigger::group {

class GroupService {
 public:
  // `layout` and `watch` outlive it. `process`: the service process alone.
  GroupService(ServiceArea area, MemberProcesses process, const Layout& layout, MemberWatch& watch);
  GroupService(const GroupService&) = delete;
  GroupService& operator=(const GroupService&) = delete;
  // The process ends when all members have left. The last one kills it if it hangs.
  ~GroupService();

  [[nodiscard]] pid_t process() const { return process_.pid(0); }

  // Begins the next collective. True: the service process is to do it. All members get the same answer.
  [[nodiscard]] bool begin(bool prefers_service);

  // The same for a post that is not waited for at once. False: the members do the collective, or there is no room;
  // nothing has begun.
  [[nodiscard]] bool begin_ahead();
  // The post for the collective that has begun, to be filled in; and hands it over. Returns its number.
  [[nodiscard]] Post& next_post();
  std::uint64_t put();

  [[nodiscard]] bool has_posts() const { return settled() < posted(); }
  // The oldest one that is not settled.
  [[nodiscard]] std::uint64_t first() const { return settled() + 1; }

  enum class Served : std::uint8_t {
    pending,  // not yet
    done,
    by_members,  // it must be done again, by the members: they all get this answer
    failed       // the group has failed
  };
  // The first post. `timeout`: for another member. `pending`: after `limit`.
  [[nodiscard]] Served wait(std::chrono::milliseconds timeout, std::chrono::milliseconds limit);
  // After `by_members`, of a reduction to one vector: bytes at the start of the result that are complete. Completes
  // them in `into`.
  [[nodiscard]] std::uint64_t finish_pieces(std::byte* into, std::uint64_t bytes) const;
  // The first post is done, has been done by the members, or has failed.
  void settle();

  // await_need() returns as soon as the posts so far have ended.
  void want_ends();
  // Sleeps until the first post needs a thread: the members must do it, it has failed, or it has ended and is wanted or
  // has not been settled for a while. False: after wake(), or when there was no post for a second.
  [[nodiscard]] bool await_need(const std::function<std::chrono::milliseconds()>& timeout);
  void wake();

  // Looks at the heartbeat. For a member that waits for others, each second at least.
  void end_hung_process();

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] ServiceHead& head() const { return area_.head(); }
  [[nodiscard]] bool has_ended() const { return process_.has_ended(0); }
  [[nodiscard]] PostSeat& seat() const { return area_.seat(layout_.place()); }
  [[nodiscard]] std::uint64_t posted() const { return seat().posted.load(std::memory_order_seq_cst); }
  [[nodiscard]] std::uint64_t settled() const { return seat().settled.load(std::memory_order_seq_cst); }
  [[nodiscard]] Served look(std::uint64_t number);
  // Now and then: fails the group if a member will not come to this post, the first one. Kills the process if it does
  // nothing.
  void check(std::uint64_t number, std::chrono::milliseconds timeout);
  [[nodiscard]] bool has_posted(std::uint32_t place, std::uint64_t number) const;
  [[nodiscard]] bool have_all_posted(std::uint64_t number) const;
  void fail_late(std::uint32_t member, Clock::duration waited);
  // With the lock: fails the group if the service process waits in vain for other nodes.
  void check_nodes(std::chrono::milliseconds timeout);
  void check_node(std::uint32_t node, bool is_lost);
  void look_at_beats();
  [[nodiscard]] bool have_all_left() const;
  // After the last member: it ends, or shows that it will.
  void wait_for_its_end(std::uint64_t beats) const;
  // Returns when the process touches no memory of members any more.
  void stop();
  void kill_process() const;

  ServiceArea area_;
  MemberProcesses process_;
  const Layout& layout_;
  MemberWatch& watch_;
  pid_t owner_;
  std::uint64_t calls_ = 0;  // collectives of the group
  std::atomic<bool> is_woken_{false};
  std::mutex lock_;  // of all below
  std::uint64_t checked_ = 0;
  Clock::time_point began_{};  // to be checked for this post
  Clock::time_point next_check_{};
  std::uint64_t beats_ = 0;
  std::uint64_t moves_ = 0;
  Clock::time_point last_beat_{};
  Clock::time_point last_move_{};
  Clock::time_point last_look_{};
};

}  // namespace outrigger::group
