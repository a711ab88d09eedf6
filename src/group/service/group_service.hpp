// A member's side of its group's service process: who does a collective, posts, and waits for them.
//
// In a group on several nodes, members cannot go on from what a service process has begun. So its end is an error.
//
// A member that wants the service process may come before, or after, one that waits in the call. The one that comes
// first decides for all.
//
// Thread rule: one thread at a time, in the order of the group's collectives.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
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

  enum class Served : std::uint8_t {
    done,
    by_members,  // it must be done again, by the members: they all get this answer
    failed       // the group has failed
  };
  // The collective for which begin() was true. Numbers the post.
  [[nodiscard]] Served serve(Post& post, std::chrono::milliseconds timeout);
  // After `by_members`, of a reduction to one vector: bytes at the start of the result that are complete. Completes
  // them in `into`.
  [[nodiscard]] std::uint64_t finish_pieces(std::byte* into, std::uint64_t bytes) const;
  // Looks at the heartbeat. For a member that waits for others, each second at least.
  void end_hung_process();

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] ServiceHead& head() const { return area_.head(); }
  [[nodiscard]] bool has_ended() const { return process_.has_ended(0); }
  void put(const Post& post);
  // Nothing: not yet.
  [[nodiscard]] std::optional<Served> look();
  // Fails the group if a member will not come. Kills the process if it does nothing.
  void check(Clock::time_point began, std::chrono::milliseconds timeout);
  [[nodiscard]] bool has_posted(std::uint32_t place) const;
  void fail_late(std::uint32_t member, Clock::duration waited);
  // Fails the group if the service process waits in vain for other nodes.
  void check_nodes(Clock::time_point began, std::chrono::milliseconds timeout);
  void check_node(std::uint32_t node, bool is_lost);
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
  std::uint64_t calls_ = 0;  // collectives of the group
  std::uint64_t posts_ = 0;  // those that the service process has got
  std::uint64_t beats_ = 0;
  std::uint64_t moves_ = 0;
  Clock::time_point last_beat_{};
  Clock::time_point last_move_{};
  Clock::time_point last_look_{};
};

}  // namespace outrigger::group
