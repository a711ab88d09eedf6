// The service processes of a group's other nodes, with a stream to each.
//
// Members of a node decide who does a collective, and those of another node may decide otherwise. So a service process
// votes on each call that it gets. It does the call if all vote for it with the same arguments. If members of a node do
// the call by themselves, their process votes against it once another one has voted for it. A vote on a later call also
// is one against.
//
//     node 0    votes for 7 ──▶ ◀── votes for 7        node 1    both do 7
//     node 0    votes for 8 ──▶ ◀── votes against 8    node 1    all members do 8 by themselves
//
// All processes have the same votes, so they come to the same verdict. Only transfers of calls that all do follow.
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/long_yields.hpp"
#include "group/nodes/node_transfers.hpp"
#include "group/service/service_area.hpp"
#include "group/stream.hpp"

namespace outrigger::group {

class PeerServices {
 public:
  // `streams` by node; nullptr for the own one. `is_over`: no member needs the process any more.
  PeerServices(std::vector<std::unique_ptr<Stream>> streams, ServiceArea area, std::function<bool()> is_over);

  enum class Verdict : std::uint8_t {
    together,
    apart,  // members do it by themselves, on all nodes
    ended   // the wait has ended, as described below
  };
  // `call` is the same for equal arguments, and not 0. 0: this process cannot do it.
  [[nodiscard]] Verdict agree(std::uint64_t number, std::uint64_t call);
  // Votes against calls that members of this node do by themselves.
  void answer();
  // Before the process ends without an error. Votes against all later calls.
  void leave() { vote({.number = kNoMore}); }

  // By node. All of an agreed call must have finished before the next one.
  [[nodiscard]] Transfers& transfers() { return transfers_; }
  // Moves bytes until `is_ready()`. False: the members stop the process, or are gone, or a node that is waited for
  // cannot be reached, or transfers differ.
  template <class Ready>
  [[nodiscard]] bool wait(Ready is_ready) {
    spins_until_ = Clock::now() + kSpins;
    bool goes_on = true;
    while (!is_ready() && goes_on) goes_on = move();
    area_.head().waits_for.store(0, std::memory_order_relaxed);
    return goes_on;
  }

 private:
  using Clock = std::chrono::steady_clock;
  // Before it sleeps.
  static constexpr std::chrono::microseconds kSpins{50};
  // Higher than any call's number: nothing comes after this vote.
  static constexpr std::uint64_t kNoMore = ~std::uint64_t{0};

  struct Vote {
    std::uint64_t number = 0;
    std::uint64_t call = 0;  // 0: against
  };
  struct Peer {
    Vote last{};
    Vote next{};  // as far as it has come
    std::size_t next_bytes = 0;
    std::vector<std::byte> unsent{};  // votes
  };

  void vote(const Vote& own);
  void send_votes();
  // True: a vote on this call or a later one has come.
  bool read_votes(std::uint32_t node, std::uint64_t number);
  // False: the wait has ended.
  [[nodiscard]] bool move();
  // True: it need not sleep yet. Service processes of several groups may share the core.
  [[nodiscard]] bool spin();
  [[nodiscard]] std::uint64_t awaited() const;
  [[nodiscard]] bool is_lost(std::uint32_t node) const;
  void sleep(std::uint64_t nodes) const;

  Transfers transfers_;
  ServiceArea area_;
  std::function<bool()> is_over_;
  std::vector<Peer> peers_;   // by node
  std::uint64_t voted_ = 0;   // the last call on which this process has voted
  std::uint64_t awaits_ = 0;  // votes on this call; 0: none
  Clock::time_point spins_until_{};
  LongYields long_yields_;
};

}  // namespace outrigger::group
