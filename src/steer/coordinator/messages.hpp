// Messages between the coordinators of service processes about a communicator's dispatch plan. The leader is the
// service process of the communicator's first rank. Headers and the rules of encoding are those of the engine's
// messages (protocol/wire/peer_messages.hpp), which travel by the same connections.
//
// Plain values without ownership ties; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "protocol/wire/peer_messages.hpp"
#include "steer/plan/dispatch_plan.hpp"

namespace outrigger::steer {

// To the leader: the suspension that the sender votes for.
struct Vote {
  Suspended suspended;
  static constexpr void fields(auto& io, auto& vote) {
    io.value(vote.suspended.busy, vote.suspended.small);
    io.flag(vote.suspended.failing);
  }
};

// From the leader: the receiver holds its ranks. The operation's sequence is the number of the change, here and in what
// follows.
struct Hold {
  bool holds = true;
  static constexpr void fields(auto& io, auto& hold) {
    io.flag(hold.holds);
    io.require(hold.holds);
  }
};

// To a Hold: how many calls the receiver's ranks have begun.
struct Held {
  bool held = false;  // false: not all of them can be
  std::uint64_t least = 0;
  std::uint64_t most = 0;
  static constexpr void fields(auto& io, auto& held) {
    io.flag(held.held);
    io.value(held.least, held.most);
    io.require(held.least <= held.most);
  }
};

// A plan travels in the form that it has in ranks' segments.
void plan_field(Writer& out, const DispatchPlan& plan);
void plan_field(Reader& in, DispatchPlan& plan);

// From the leader: ranks are released.
struct Resume {
  bool changes = false;  // and this change applies
  PlanChange change;
  static constexpr void fields(auto& io, auto& resume) {
    io.flag(resume.changes);
    io.value(resume.change.from);
    plan_field(io, resume.change.before);
    plan_field(io, resume.change.after);
  }
};

// To the leader: what all of the sender's ranks have measured in a trial.
struct Measured {
  std::uint16_t trial = 0;  // its number
  TrialTimes times;
  static constexpr void fields(auto& io, auto& measured) { io.value(measured.trial, measured.times); }
};

// Their kinds on the wire are peer::kCoordinatorKinds and the following numbers.
using Body = std::variant<Vote, Hold, Held, Resume, Measured>;
static_assert(peer::kCoordinatorKinds + std::variant_size_v<Body> == peer::kCoordinatorKindsEnd);

struct Message {
  peer::Header header;
  Body body;
};

// Appends the encoded message to `out`.
void encode(const Message& message, std::vector<std::byte>& out);

// Nothing for anything that encode() would not have written.
[[nodiscard]] std::optional<Message> decode(std::span<const std::byte> bytes);

}  // namespace outrigger::steer
