#include "engine/core/overdue.hpp"

#include <bit>
#include <memory>

#include "engine/core/operation.hpp"
#include "engine/core/settlement.hpp"
#include "protocol/options/selection.hpp"

namespace outrigger::engine {
namespace {

// A local rank that waits for the operation, or nullptr.
const LocalRank* waiting_rank(const Operation& operation) {
  return operation.ranks.find_if([](const LocalRank& rank) { return !rank.is_completed(); });
}

void ask_about(Operation& operation, std::uint32_t native_calls) {
  const Membership& membership = operation.membership();
  for (const Membership::Peer& peer : membership.peers()) ask_for_ends(operation, peer.sp, native_calls);
  for (const GroupRank local : membership.local()) {
    const WorldRank rank = membership.world(local);
    if (!operation.context.fabric.ranks.has_passed(rank, operation.id(), native_calls)) continue;
    end_pairs_with_finished(operation, peer::Finished{rank, CompletionStatus::passed_natively});
  }
}

bool look_at(Operation& operation, const LocalRank& waiting) {
  const PostedOperation& posted = waiting.posted();
  if (!has_alike_blocks(posted.collective)) return false;
  ++operation.looks;
  if (operation.looks == 1 || !std::has_single_bit(operation.looks)) return false;
  ask_about(operation, posted.native_calls);
  return true;
}

// How the operation has ended for a local rank; nullopt if it may be open, or ended because another rank has passed, or
// the group is forgotten, which has an answer of its own.
std::optional<CompletionStatus> ended(const Context& context, const GroupTable& groups, WorldRank rank,
                                      const OperationId& id, std::uint32_t native_calls) {
  if (context.fabric.ranks.has_passed(rank, id, native_calls)) return CompletionStatus::passed_natively;
  if (groups.is_forgotten(id.group)) return std::nullopt;
  if (const Group* group = groups.find(id.group); group != nullptr) {
    const std::optional<CompletionStatus> status = group->finished(rank, id.sequence);
    return status == CompletionStatus::passed_natively ? std::nullopt : status;
  }
  return context.is_dropped(rank) ? std::optional(CompletionStatus::peer_lost) : std::nullopt;
}

}  // namespace

bool look_for_overdue(const GroupTable& groups) {
  bool any = false;
  for (const auto& [id, group] : groups.all()) {
    for (const auto& [sequence, operation] : group->operations()) {
      const LocalRank* waiting = waiting_rank(*operation);
      if (waiting == nullptr) continue;
      any |= look_at(*operation, *waiting);
      break;
    }
  }
  return any;
}

void answer_overdue(const GroupTable& groups, Context& context, SpId from, const OperationId& id,
                    const peer::Overdue& overdue) {
  bool any_passed = false;
  for (std::uint32_t rank = 0; rank < context.config.sp_of_rank.size(); ++rank) {
    const WorldRank local{rank};
    if (!context.is_local(local)) continue;
    const std::optional<CompletionStatus> status = ended(context, groups, local, id, overdue.native_calls);
    if (status) context.send(from, id, peer::Finished{local, *status});
    any_passed = any_passed || status == CompletionStatus::passed_natively;
  }
  if (!any_passed) static_cast<void>(groups.answer_forgotten(from, id, 0));
}

}  // namespace outrigger::engine
