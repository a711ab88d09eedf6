// Does one post of all members of a node together with the service processes of the other nodes. Contributions are
// combined in the order of ranks on each node, and then in the order of nodes, as members do it by themselves.
//
//     copies       each pair of nodes has a lane each way; a lane has a piece under way
//     reductions   rounds: a round's part of the vector is divided among the nodes, which each combine their share
//
//     round r      partial results go out | shares are combined, results go out | results are written
//     round r+1                             partial results go out              | shares are combined ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "group/combines.hpp"
#include "group/failure.hpp"
#include "group/layout.hpp"
#include "group/member_processes.hpp"
#include "group/service/peer_services.hpp"
#include "group/service/posted_calls.hpp"
#include "group/service/reduction_rounds.hpp"
#include "group/service/service_area.hpp"

namespace outrigger::group {

class NodesWork {
 public:
  // `layout` from the view of the node's first member. All of them outlive it.
  NodesWork(ServiceArea area, const MemberProcesses& processes, const Layout& layout, PeerServices& peers);

  enum class Result : std::uint8_t {
    done,
    by_members,  // on all nodes: nothing has been changed
    ended        // ServiceHead says why, or the members have stopped it
  };
  [[nodiscard]] Result run();

 private:
  struct Lane {
    std::vector<Shipment> shipments{};
    std::size_t next = 0;
    std::uint64_t moved = 0;  // of the next one
    bool is_under_way = false;
    std::vector<std::byte> piece{};
  };
  // Memory of a round.
  struct Slot {
    std::vector<std::byte> partial{};
    std::vector<std::vector<std::byte>> partials{};  // of the own share, by node
    std::vector<std::byte> result{};
    std::vector<std::uint64_t> sends{};     // until so many have been sent to each node ...
    std::vector<std::uint64_t> receives{};  // ... or have come from it
  };
  static constexpr std::size_t kSlots = 3;

  [[nodiscard]] const Post& post(std::uint32_t rank) const { return area_.seat(layout_.place_of(rank)).post; }
  [[nodiscard]] const Post& first_post() const { return area_.seat(0).post; }
  // 0: this process cannot do the call.
  [[nodiscard]] std::uint64_t arguments();
  [[nodiscard]] bool can_reach(std::uint32_t rank);
  [[nodiscard]] bool read(std::uint32_t rank, std::uint64_t address, std::span<std::byte> to);
  [[nodiscard]] bool write(std::uint32_t rank, std::uint64_t address, std::span<const std::byte> from);
  void fail(std::uint32_t rank);
  [[nodiscard]] bool wait_for_all();
  template <class Visit>
  void for_each_elsewhere(Visit visit) const {
    for (std::uint32_t distance = 1; distance < layout_.nodes(); ++distance) {
      visit((layout_.node() + distance) % layout_.nodes());
    }
  }

  [[nodiscard]] bool copies();
  [[nodiscard]] bool copy_here(const Shipment& shipment);
  [[nodiscard]] bool compare_lengths();
  [[nodiscard]] std::vector<std::uint64_t> lengths(const std::vector<Shipment>& list, bool given) const;
  [[nodiscard]] std::uint64_t length(const Shipment& shipment, bool given) const;
  // The next piece that is not empty. 0: there is none.
  [[nodiscard]] std::uint64_t next_piece(Lane& lane, bool given) const;
  [[nodiscard]] bool send_on(std::uint32_t node, Lane& lane);
  [[nodiscard]] bool receive_on(std::uint32_t node, Lane& lane);

  [[nodiscard]] bool reductions();
  [[nodiscard]] bool begin_round(const Round& round, Slot& slot);
  [[nodiscard]] bool combine_here(const Round& round, std::span<std::byte> into);
  [[nodiscard]] bool combine_share(const Round& round, Slot& slot);
  [[nodiscard]] bool end_round(const Round& round, Slot& slot);
  [[nodiscard]] bool wait_for_receives(const Slot& slot);
  void send(std::uint32_t node, std::span<const std::byte> from, Slot& slot);
  void receive(std::uint32_t node, std::span<std::byte> into, Slot& slot);

  ServiceArea area_;
  const MemberProcesses& processes_;
  const Layout& layout_;
  PeerServices& peers_;
  NodesCombine::Orders orders_;
  std::optional<NodesCombine> combine_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> wide_;
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> sends_;  // to each node since the beginning
  std::vector<std::uint64_t> receives_;
};

}  // namespace outrigger::group
