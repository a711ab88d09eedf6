// Tells which members have ended, and why the group fails. Members of other nodes have a line each: a connection that
// breaks when the process ends. A member that notices a failure sets the word of its node, and sends the word to all
// other nodes.
//
//     line     a failure's word, or 0 when the member destroys the group
//
// Thread rule: any.
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "group/group_area.hpp"
#include "group/layout.hpp"
#include "group/member_processes.hpp"

namespace outrigger::group {

// From one look at members that are waited for to the next.
inline constexpr std::chrono::milliseconds kBetweenLooks{100};
// Time for the bytes of another node's member that has ended, from its end or from its last bytes on.
inline constexpr std::chrono::milliseconds kOnTheWay{500};

class MemberWatch {
 public:
  // `processes` are those of this node. `lines` by rank; invalid for members of this node. `layout` outlives it.
  MemberWatch(const Layout& layout, GroupArea area, MemberProcesses processes, std::vector<UniqueFd> lines);
  ~MemberWatch();
  MemberWatch(const MemberWatch&) = delete;
  MemberWatch& operator=(const MemberWatch&) = delete;

  [[nodiscard]] Failure failure() const { return area_.failure(); }
  // Returns the failure that counts: the first one of this node.
  Failure fail(const Failure& failure);

  // Reads the lines. Others than look() know what it has read.
  void look();
  // Has the member's process ended, or, on this node, destroyed its group? On another node: for so long at least, as
  // bytes may be on their way.
  [[nodiscard]] bool has_ended(std::uint32_t member, std::chrono::milliseconds for_at_least = {});
  // Has it ended or, also on another node, destroyed its group?
  [[nodiscard]] bool is_gone(std::uint32_t member);
  // The failure of a group that waits for a member that has ended.
  [[nodiscard]] Failure end_of(std::uint32_t member) const;
  // Descriptors that become readable when there is something to look at.
  void add_lines(std::vector<pollfd>& into);

 private:
  using Clock = std::chrono::steady_clock;
  struct Line {
    UniqueFd socket;
    std::array<std::byte, sizeof(std::uint64_t)> word{};
    std::size_t bytes = 0;
    bool has_left = false;
    bool is_broken = false;
    Clock::time_point broke{};
  };

  [[nodiscard]] bool has_left(std::uint32_t member) const;
  void read(std::uint32_t member);
  void send(std::uint64_t word);

  const Layout& layout_;
  GroupArea area_;
  MemberProcesses processes_;
  std::mutex lock_;
  std::vector<Line> lines_;
};

}  // namespace outrigger::group
