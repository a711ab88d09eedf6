// The transfers of a collective between members of different nodes. All members make the same calls in the same order,
// so each knows which bytes come next from another.
//
// A transfer begins when it is posted, and goes on in finish(). So post all that others wait for before anything else
// is waited for.
//
// Thread rule: one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/long_yields.hpp"
#include "group/layout.hpp"
#include "group/member_waiter.hpp"
#include "group/member_watch.hpp"
#include "group/nodes/node_transfers.hpp"
#include "group/stream.hpp"
#include "intranode/call_word.hpp"
#include "intranode/member_blocks.hpp"

namespace outrigger::group {

class Exchange {
 public:
  // `streams` by rank; nullptr for members of this node. The others outlive it.
  Exchange(const Layout& layout, std::vector<std::unique_ptr<Stream>> streams, MemberWatch& watch,
           const MemberWaiter& waiter)
      : layout_(layout), transfers_(std::move(streams)), watch_(watch), waiter_(waiter) {}

  // The next call, which all members make.
  void begin(intranode::CallWord call) { transfers_.begin(call); }
  // As those of Transfers.
  void send(std::uint32_t member, std::span<const std::byte> from) { transfers_.send(member, from); }
  void receive(std::uint32_t member, std::span<std::byte> into) { transfers_.receive(member, into); }
  // All that was posted. `ended`: the group has failed, or difference() is set.
  intranode::Outcome finish() { return wait(true); }
  intranode::Outcome finish_receives() { return wait(false); }

  [[nodiscard]] const std::optional<intranode::Difference>& difference() const { return transfers_.difference(); }

  // Before the end of a group that has failed.
  void abandon() { transfers_.abandon(); }

 private:
  using Clock = Transfers::Clock;

  [[nodiscard]] intranode::Outcome wait(bool for_sends);
  // Will no more bytes come?
  [[nodiscard]] bool has_all(std::uint32_t member);
  void yield();
  bool sleep();
  // False: the wait has ended.
  [[nodiscard]] bool look_after(bool for_sends, std::chrono::nanoseconds waited);

  const Layout& layout_;
  Transfers transfers_;
  MemberWatch& watch_;
  const MemberWaiter& waiter_;
  LongYields long_yields_;
};

}  // namespace outrigger::group
