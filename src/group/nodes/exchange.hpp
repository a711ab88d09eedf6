// The transfers of a collective between members of different nodes. All members make the same calls in the same order,
// so each knows which bytes come next from another: nothing is matched. A head before each transfer tells its call and
// its length, for comparison.
//
// A transfer begins when it is posted, as far as the stream has room, and goes on in finish(). So post all that others
// wait for before anything else is waited for.
//
// Thread rule: one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/long_yields.hpp"
#include "group/layout.hpp"
#include "group/member_waiter.hpp"
#include "group/member_watch.hpp"
#include "group/stream.hpp"
#include "intranode/call_word.hpp"
#include "intranode/member_blocks.hpp"

namespace outrigger::group {

class Exchange {
 public:
  // `streams` by rank; nullptr for members of this node. The others outlive it.
  Exchange(const Layout& layout, std::vector<std::unique_ptr<Stream>> streams, MemberWatch& watch,
           const MemberWaiter& waiter);

  // The next call, which all members make.
  void begin(intranode::CallWord call);
  // Transfers of a pair are in the order of these. The memory is the caller's again when they have finished.
  void send(std::uint32_t member, std::span<const std::byte> from);
  void receive(std::uint32_t member, std::span<std::byte> into);
  // All that was posted. `ended`: the group has failed, or difference() is set.
  intranode::Outcome finish() { return wait(true); }
  intranode::Outcome finish_receives() { return wait(false); }

  [[nodiscard]] const std::optional<intranode::Difference>& difference() const { return difference_; }

  // Before the end of a group that has failed.
  void abandon() {
    for (Line& line : lines_) {
      if (line.stream != nullptr) line.stream->abandon();
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Head {
    std::uint64_t call = 0;
    std::uint64_t bytes = 0;
  };
  struct Transfer {
    std::uint64_t moved = 0;  // of the head, and then of the bytes
    Head head{};
    const std::byte* from = nullptr;
    std::byte* into = nullptr;
    std::uint64_t bytes = 0;
    [[nodiscard]] bool is_done() const { return moved == sizeof(Head) + bytes; }
  };
  struct Line {
    std::unique_ptr<Stream> stream;
    std::deque<Transfer> sends;
    std::deque<Transfer> receives;
    Clock::time_point came{};  // the last bytes
  };

  [[nodiscard]] intranode::Outcome wait(bool for_sends);
  [[nodiscard]] bool is_pending(bool for_sends) const;
  // True: bytes have moved.
  bool move();
  bool move_sends(Line& line);
  bool move_receives(std::uint32_t member);
  void check(std::uint32_t member, const Transfer& transfer);
  // Will no more bytes come?
  [[nodiscard]] bool has_all(std::uint32_t member);
  void yield();
  bool sleep();
  // False: the wait has ended.
  [[nodiscard]] bool look_after(bool for_sends, std::chrono::nanoseconds waited);

  const Layout& layout_;
  std::vector<Line> lines_;
  MemberWatch& watch_;
  const MemberWaiter& waiter_;
  intranode::CallWord call_;
  std::uint64_t calls_ = 0;
  LongYields long_yields_;
  std::optional<intranode::Difference> difference_;
};

}  // namespace outrigger::group
