// Members of a communicator tell each other about the order of its sums, by their node's team or by that of several
// nodes.
//
// All functions are collective, and end the program if the members' calls differ or one does not come.
//
// Thread rule: the team's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "intranode/call_word.hpp"
#include "intranode/member_blocks.hpp"
#include "intranode/sums/order_learner.hpp"
#include "mpi/intranode/team_arguments.hpp"
#include "mpi/native/die.hpp"

namespace outrigger::mpi {

class OrderTalk {
 public:
  explicit OrderTalk(const TeamPlace& place) : place_(place) {}
  virtual ~OrderTalk() = default;
  OrderTalk(const OrderTalk&) = delete;
  OrderTalk& operator=(const OrderTalk&) = delete;

  [[nodiscard]] const TeamPlace& place() const { return place_; }
  // The largest number that a member gives.
  [[nodiscard]] virtual std::uint8_t most_of(std::uint8_t mine) = 0;
  // `own` of one member.
  [[nodiscard]] virtual std::string text_of(std::uint32_t member, std::string own) = 0;

  // The worst of all members.
  [[nodiscard]] intranode::SumRefusal worst_of(intranode::SumRefusal mine) {
    return static_cast<intranode::SumRefusal>(most_of(static_cast<std::uint8_t>(mine)));
  }
  // The order of one member, which has one.
  [[nodiscard]] intranode::SumOrder order_of(std::uint32_t member, const std::optional<intranode::SumOrder>& own) {
    const std::string text = text_of(member, own ? own->text() : std::string());
    const std::optional<intranode::SumOrder> order = intranode::SumOrder::parse(text);
    if (!order) die("a rank sent a malformed order of addition: %s; this is a bug, please report it", text.c_str());
    return *order;
  }

 private:
  TeamPlace place_;
};

// `AnyTeam`: intranode::Team or NodesTeam. It outlives this.
template <class AnyTeam>
class TalkOf final : public OrderTalk {
 public:
  TalkOf(AnyTeam& team, const TeamPlace& place) : OrderTalk(place), team_(team), all_(place.size) {}

  std::uint8_t most_of(std::uint8_t mine) override {
    const auto blocks = intranode::Blocks::regular(std::as_writable_bytes(std::span(all_)).data(), 1);
    expect(team_.allgather(std::as_bytes(std::span(&mine, 1)), blocks));
    return *std::ranges::max_element(all_);
  }
  std::string text_of(std::uint32_t member, std::string own) override {
    std::uint64_t length = own.size();
    expect(team_.broadcast(std::as_writable_bytes(std::span(&length, 1)), member));
    if (member != place().rank) own.assign(length, ' ');
    expect(team_.broadcast(std::as_writable_bytes(std::span(own)), member));
    return own;
  }

 private:
  void expect(intranode::Outcome outcome) const {
    if (outcome == intranode::Outcome::done) return;
    const std::string why = team_.difference() ? team_.difference()->description(place().rank)
                                               : "a rank does not come, or the MPI has returned an error";
    die("the ranks of a communicator could not agree on an order of addition: %s", why.c_str());
  }

  AnyTeam& team_;
  std::vector<std::uint8_t> all_;  // what members give
};

}  // namespace outrigger::mpi
