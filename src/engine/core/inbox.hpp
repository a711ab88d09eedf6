// Messages of peers. Each is checked on arrival, and again when it is processed: more may be known by then.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "engine/core/context.hpp"
#include "engine/core/group_table.hpp"
#include "engine/core/overdue.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine {

class Inbox {
 public:
  Inbox(Context& context, GroupTable& groups) : context_(context), groups_(groups) {}

  // False: the message is malformed or makes an impossible claim. Nothing was changed.
  [[nodiscard]] bool receive(SpId from, std::span<const std::byte> bytes);
  void peer_restarted(SpId peer, Epoch epoch);

  // Processes one message. False if there is none.
  bool dispatch_next();
  // Announces all open operations again to restarted peers. False if there are none.
  bool reannounce();
  [[nodiscard]] bool idle() const { return inbound_.empty() && restarted_.empty(); }

 private:
  struct Inbound {
    SpId from;
    peer::Message message;
  };

  [[nodiscard]] bool claims_hold(SpId from, const peer::Message& message) const;
  // An operation with known members, or nullptr.
  [[nodiscard]] Operation* find_open(const OperationId& id) const;

  void handle(SpId from, const OperationId& id, peer::Announce& announce);
  void handle(SpId from, const OperationId& id, const peer::Delivered& delivered);
  void handle(SpId from, const OperationId& id, const peer::Release& release);
  void handle(SpId from, const OperationId& id, const peer::Finished& finished);
  void handle(SpId from, const OperationId& id, const peer::Refusal& refusal);
  void handle(SpId from, const OperationId& id, const peer::ReplicaRequest& request);
  void handle(SpId from, const OperationId& id, const peer::ReplicaAnswer& answer);
  void handle(SpId from, const OperationId& id, const peer::ReplicaDone& done);
  void handle(SpId from, const OperationId& id, const peer::Quiesce& quiesce);
  void handle(SpId from, const OperationId& id, const peer::Overdue& overdue) {
    answer_overdue(groups_, context_, from, id, overdue);
  }

  Context& context_;
  GroupTable& groups_;
  std::deque<Inbound> inbound_;
  std::vector<SpId> restarted_;
};

}  // namespace outrigger::engine
