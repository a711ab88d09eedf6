#include "fabric/ucx/replacements.hpp"

#include <chrono>
#include <string>
#include <utility>

namespace outrigger::fabric::ucx {
namespace {

constexpr std::chrono::seconds kRestTime{2};
constexpr std::uint32_t kTurnsUntilSure = 2;  // turns until a peer counts as alive

}  // namespace

Status Replacements::moved(SpId sp, Epoch epoch, std::span<const std::byte> address) {
  const Peer* known = peers_.named(sp);
  if (known == nullptr) return Error{"service process " + std::to_string(sp.value()) + " is not on another node"};
  if (epoch <= known->epoch) return Done{};
  const Result<Peers::Replaced> replaced = peers_.replace(sp, epoch, address);
  if (!replaced) return Error{replaced.error()};
  auto& [former, fresh] = replaced.value();
  channels_.forget(former);
  rooms_.server.forget(former);
  rooms_.eager_out.forget(former);
  rooms_.chunks.forget(former);
  rooms_.receiver.forget(former);
  rooms_.transfers.begin_again(former, fresh);
  channels_.set_busy();
  (void)let_go();
  return Done{};
}

// The predecessors' receives have ended. Calls peers that are in use, as earlier calls may have been ignored.
bool Replacements::let_go() {
  bool any = false;
  for (Peer* peer = peers_.next_let_go(); peer != nullptr; peer = peers_.next_let_go()) {
    any = true;
    if (peer->is_known()) channels_.call(*peer);
  }
  return any;
}

// A live process is not replaced because its connection broke. It may also have died just now, unnoticed by its keeper.
// So one answer a turn counts: those to other service processes of this node come here, too.
void Replacements::expect(SpId sp, Epoch epoch) {
  Peer* peer = peers_.named(sp);
  if (peer == nullptr) return;
  if (!peer->broken || peer->epoch != epoch) {
    peer->silent_turns = 0;
  } else if (std::exchange(peer->asked_for, false) && ++peer->living_turns >= kTurnsUntilSure) {
    peers_.begin_anew("has lost its connection", *peer);
  }
}

// A former peer's chunks may still be written to the move's destination.
void Replacements::await_rest() {
  const auto deadline = std::chrono::steady_clock::now() + kRestTime;
  while (true) {
    (void)let_go();
    const Peer* held_back = peers_.one_held_back();
    if (held_back == nullptr) return;
    const bool goes_on = memory_.progress_memory();
    if (!network_.data().progress() && !goes_on && std::chrono::steady_clock::now() > deadline) {
      return peers_.lose(*held_back, "has died, and its last transfer does not end");
    }
  }
}

}  // namespace outrigger::fabric::ucx
