#include "sim/invariants.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/core/slices.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::sim {

using fabric::CompletionRecord;
using fabric::sim::RankMemory;

void Invariants::chunk_moves(SpId by, const Block& from, const Block& to) {
  ++job_.result.moved_chunks;
  const auto slot_of = [this](const MemoryRef& memory, bool sends) -> const Slot* {
    const std::uint32_t buffer = RankMemory::buffer_of(memory.address);
    for (const Slot& slot : job_.ranks[memory.owner.value()].slots) {
      if ((sends ? slot.send_buffer : slot.receive_buffer) == buffer) return &slot;
    }
    return nullptr;
  };
  const Slot* source = slot_of(from.memory, true);
  const Slot* target = slot_of(to.memory, false);
  const bool passed_on = target != nullptr && (passes_on(job_.plan_of(*target).collective, job_.options.algorithm) ||
                                               job_.plan_of(*target).reduces());
  if (source == nullptr && passed_on) source = slot_of(from.memory, false);
  const auto describe = [&](const char* what) {
    return fmt::format("{} (service process {} moves from rank {} to rank {})", what, by.value(),
                       from.memory.owner.value(), to.memory.owner.value());
  };
  if (source == nullptr || target == nullptr) return job_.broken(describe("a move leaves the posted buffers"));
  if (source->completed) job_.broken(describe("released too early: a move reads a completed operation's buffer"));
  if (target->completed) job_.broken(describe("a move writes a completed operation's receive buffer"));
  const bool once = job_.options.algorithm == Algorithm::node_pull || job_.options.algorithm == Algorithm::hierarchical;
  if (once && !job_.plan_of(*target).broadcasts()) count_crossing(*target, from, to);
}

// No byte of a block comes to a node twice. (A broadcast's ranks complete before late ranks of their node have posted.)
void Invariants::count_crossing(const Slot& target, const Block& from, const Block& to) {
  const OperationPlan& plan = job_.plan_of(target);
  const std::uint32_t node = job_.scenario.node_of(to.memory.owner);
  if (job_.scenario.node_of(from.memory.owner) == node || plan.wrong_kinds || plan.wrong_sizes) return;
  if (job_.result.crashes + job_.result.losses != 0) return;
  const std::vector<WorldRank>& members = *job_.scenario.groups[target.group].members;
  // Ranks that contribute nothing may complete before the others of their node have posted.
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (job_.scenario.node_of(members[i]) == node && plan.sent[i][i] == 0) return;
  }
  for (std::size_t source = 0; source < members.size(); ++source) {
    const Block block = target.receive.block(GroupRank{static_cast<std::uint32_t>(source)});
    if (to.memory.address < block.memory.address || to.memory.address >= block.memory.address + block.bytes) continue;
    auto& crossed = crossed_[{target.group, target.sequence, source, node}];
    crossed.resize(block.bytes);
    const auto first = crossed.begin() + static_cast<std::ptrdiff_t>(to.memory.address - block.memory.address);
    const auto last = first + static_cast<std::ptrdiff_t>(to.bytes);
    const WorldRank owner = to.memory.owner;
    const auto other = [owner](const std::optional<WorldRank>& before) { return before && *before != owner; };
    if (std::any_of(first, last, other))
      job_.broken(fmt::format("the block of {} comes to node {} twice", source, node));
    std::fill(first, last, owner);
  }
}

void Invariants::eager_read(SpId by, const Block& from) {
  ++job_.result.blocks_eager;
  const std::uint32_t buffer = RankMemory::buffer_of(from.memory.address);
  const auto& slots = job_.ranks[from.memory.owner.value()].slots;
  const auto slot = std::find_if(slots.begin(), slots.end(), [&](const Slot& each) {
    return each.send_buffer == buffer || each.receive_buffer == buffer;
  });
  if (slot == slots.end())
    return job_.broken(fmt::format("service process {} sends an eager block that was not posted", by.value()));
  if (slot->completed)
    job_.broken(fmt::format("service process {} reads eagerly from a completed operation", by.value()));
}

// The block that a mark stands for: a source's block, or an owner's slice of a result.
Block Invariants::marked_block(const Slot& slot, GroupRank source) const {
  Block block = slot.receive.block(source);
  const OperationPlan& plan = job_.plan_of(slot);
  if (!plan.reduces()) return block;
  if (plan.reduces_by_parts() || is_prefix(plan.collective)) {
    if (source != slot.me) block.bytes = 0;
    return block;
  }
  if (job_.options.algorithm == Algorithm::rooted) {
    if (source != GroupRank{0}) block.bytes = 0;
    return block;
  }
  const PairExtent slice = engine::cut_into_slices(block.bytes, plan.reduction->element_bytes(), plan.sent.size(),
                                                   job_.scenario.limits.split_bytes)[source.value()];
  block.memory.address += static_cast<std::uint64_t>(slice.offset_bytes);
  block.bytes = slice.bytes;
  return block;
}

void Invariants::marked(SpId by, WorldRank destination, SlotIndex slot_index, GroupRank source, BlockMark mark) {
  Rank& rank = job_.ranks[destination.value()];
  if (rank.lost) return;
  if (slot_index.value() >= rank.slots.size()) return job_.broken("a mark names a slot that was never posted");
  Slot& slot = rank.slots[slot_index.value()];
  if (source.value() >= slot.marks.size()) return job_.broken("a mark names a rank outside the group");
  if (slot.completed) return job_.broken("a mark after the completion");
  job_.trace("service {} marks group {} operation {} {} -> {}{}", by.value(), slot.group, slot.sequence, source.value(),
             slot.me.value(), mark == BlockMark::failed ? " as failed" : "");
  slot.marks[source.value()] = static_cast<std::uint8_t>(mark);
  if (mark == BlockMark::failed) return;
  const Block block = marked_block(slot, source);
  const std::uint64_t bytes = std::min(block.bytes, job_.plan_of(slot).sent[source.value()][slot.me.value()]);
  const std::uint64_t offset = block.memory.address - RankMemory::address_of(slot.receive_buffer, 0);
  const std::span<std::byte> here =
      job_.world.memory[destination.value()].buffer(slot.receive_buffer).subspan(offset, bytes);
  if (bytes != 0 && std::memcmp(here.data(), slot.image.data() + offset, bytes) != 0) {
    job_.broken(
        fmt::format("rank {}: block of {} marked before its bytes have arrived", destination.value(), source.value()));
  }
}

bool Invariants::image_holds(WorldRank rank, const Slot& slot) {
  const std::span<std::byte> here = job_.world.memory[rank.value()].buffer(slot.receive_buffer);
  return std::equal(here.begin(), here.end(), slot.image.begin(), slot.image.end());
}

CompletionStatus Invariants::expected_status(const Slot& slot, const OperationPlan& plan) const {
  const std::size_t me = slot.me.value();
  for (std::size_t peer = 0; peer < plan.sent.size(); ++peer) {
    const bool own_done = peer == me && plan.own_block_done[me] != 0;
    // If nothing is expected, no rank waits, so a surplus may or may not be noticed.
    if (!own_done && plan.expected[peer][me] != 0 && plan.sent[peer][me] > plan.expected[peer][me]) {
      return CompletionStatus::truncated;
    }
  }
  return CompletionStatus::ok;
}

// A rank that exchanges bytes with one in a different call must get an error, unless the process that knew has crashed.
void Invariants::check_disagreement(WorldRank rank, const Slot& slot, CompletionStatus status) {
  const OperationPlan& plan = job_.plan_of(slot);
  const std::string what = fmt::format("rank {} group {} operation {}", rank.value(), slot.group, slot.sequence);
  const std::size_t me = slot.me.value();
  for (std::size_t peer = 0; peer < plan.sent.size(); ++peer) {
    if (plan.differs[peer] == plan.differs[me] || job_.result.crashes != 0) continue;
    if (plan.expected[peer][me] == 0 || plan.sent[peer][me] == 0) continue;
    if (status != CompletionStatus::mismatch) job_.broken(what + ": ranks disagree, and it got no error");
  }
  if (status == CompletionStatus::ok && job_.result.crashes == 0 && !image_holds(rank, slot)) {
    job_.broken(what + ": wrong bytes at completion");
  }
}

void Invariants::check_bytes(const Slot& slot, const std::string& what, const fabric::CompletionRecord& record) {
  const OperationPlan& plan = job_.plan_of(slot);
  std::uint64_t received = 0;
  for (std::size_t peer = 0; peer < plan.sent.size(); ++peer) {
    const std::size_t me = slot.me.value();
    const bool own_done = peer == me && plan.own_block_done[me] != 0;
    const std::uint64_t bytes = plan.reduces() ? marked_block(slot, GroupRank{static_cast<std::uint32_t>(peer)}).bytes
                                               : std::min(plan.sent[peer][me], plan.expected[peer][me]);
    if (own_done || bytes == 0) continue;
    received += bytes;
    if (slot.marks[peer] != static_cast<std::uint8_t>(BlockMark::delivered) && job_.options.check_marks_at_completion) {
      job_.broken(fmt::format("{}: completed while the block of {} is not marked as delivered", what, peer));
    }
  }
  const std::uint64_t counted =
      std::accumulate(record.bytes_by_reach.begin(), record.bytes_by_reach.end(), std::uint64_t{0});
  if (job_.result.crashes == 0 && counted != received) {
    job_.broken(fmt::format("{}: {} bytes received, {} counted", what, received, counted));
  }
}

bool Invariants::all_have_posted(const Slot& slot) const {
  const std::vector<WorldRank>& members = *job_.scenario.groups[slot.group].members;
  return std::ranges::all_of(members, [&](WorldRank member) {
    const auto posted = job_.ranks[member.value()].posted.find(slot.group);
    return posted != job_.ranks[member.value()].posted.end() && posted->second > slot.sequence;
  });
}

void Invariants::check_completion(WorldRank rank, const Slot& slot, const CompletionRecord& record) {
  const OperationPlan& plan = job_.plan_of(slot);
  const std::string what = fmt::format("rank {} group {} operation {}", rank.value(), slot.group, slot.sequence);
  if (record.status == CompletionStatus::peer_lost && job_.has_lost_member(slot)) return;
  if (plan.wrong_kinds) return check_disagreement(rank, slot, record.status);
  const bool surplus_unseen = plan.sent != plan.expected && record.status == CompletionStatus::truncated;
  if (record.status != expected_status(slot, plan) && !surplus_unseen) {
    // A truncation seen by a crashed incarnation may be lost.
    if (record.status != CompletionStatus::ok || job_.result.crashes == 0) {
      job_.broken(fmt::format("{}: completed as '{}'", what, name_of(record.status)));
    }
  }
  // A loss that only a crashed incarnation knew may be forgotten.
  const bool loss_forgotten = job_.has_lost_member(slot) && job_.result.crashes != 0;
  if (plan.meets() && !loss_forgotten && !all_have_posted(slot)) {
    job_.broken(what + ": leaves a barrier before all have arrived");
  }
  if (!image_holds(rank, slot)) job_.broken(what + ": wrong bytes at completion");
  check_bytes(slot, what, record);
}

Slot* Invariants::completing(SpId by, WorldRank rank, SlotIndex slot_index, const CompletionRecord& record) {
  Rank& state = job_.ranks[rank.value()];
  if (slot_index.value() >= state.slots.size()) {
    job_.broken("a completion names a slot that was never posted");
    return nullptr;
  }
  if (state.lost) return nullptr;
  Slot& slot = state.slots[slot_index.value()];
  if (slot.completed) {
    job_.broken(fmt::format("rank {}: completed twice", rank.value()));
    return nullptr;
  }
  job_.trace("service {} completes rank {} group {} operation {}: {}", by.value(), rank.value(), slot.group,
             slot.sequence, name_of(record.status));
  check_completion(rank, slot, record);
  slot.completed = true;
  ++job_.result.operations;
  return &slot;
}

void Invariants::sent(std::span<const std::byte> message) {
  ++job_.result.messages;
  if (message.size() > std::max<std::size_t>(job_.scenario.limits.message_bytes, peer::announce_bytes() + 16)) {
    job_.broken(fmt::format("message of {} bytes is longer than the limit", message.size()));
  }
}

// True if it waits for a rank that has not posted and exchanges bytes with it, or for a credit that an earlier
// operation holds.
bool Invariants::may_wait(const Slot& slot) const {
  const GroupPlan& group = job_.scenario.groups[slot.group];
  const OperationPlan& plan = job_.plan_of(slot);
  if (plan.wrong_kinds) return true;
  // The root learns of the loss when it looks for overdue operations.
  if (job_.options.algorithm == Algorithm::rooted && job_.has_lost_member(slot)) return true;
  const auto count_of = [&](const std::map<std::uint32_t, std::uint64_t>& counts) {
    const auto found = counts.find(slot.group);
    return found == counts.end() ? 0 : found->second;
  };
  std::size_t open_before = 0;
  for (std::uint64_t sequence = 0; sequence < slot.sequence; ++sequence) {
    const auto open = [&](WorldRank member) { return count_of(job_.ranks[member.value()].done) <= sequence; };
    if (std::any_of(group.members->begin(), group.members->end(), open)) ++open_before;
  }
  if (open_before >= job_.scenario.limits.announce_credits) return true;
  const std::size_t me = slot.me.value();
  for (std::size_t peer = 0; peer < plan.sent.size(); ++peer) {
    const bool late = count_of(job_.ranks[(*group.members)[peer].value()].posted) <= slot.sequence;
    // Contributions are needed from all ranks.
    const bool exchange =
        plan.reduces() ? plan.vector_bytes() != 0 : plan.sent[me][peer] != 0 || plan.expected[peer][me] != 0;
    if (late && (exchange || plan.meets())) return true;
  }
  return false;
}

// No rank waits for one with which it exchanges nothing.
void Invariants::check_waiting() {
  for (std::uint32_t rank = 0; rank < job_.ranks.size(); ++rank) {
    for (const Slot& slot : job_.ranks[rank].slots) {
      if (job_.ranks[rank].lost || slot.completed || may_wait(slot)) continue;
      job_.broken(fmt::format("rank {} group {} operation {} waits for a late rank without need", rank, slot.group,
                              slot.sequence));
    }
  }
}

// It keeps announcements for a lost rank that has not posted on their group while it has another rank, which may be a
// member too.
bool Invariants::may_keep_announcements(SpId service) const {
  const auto keeps = [&](const GroupPlan& group) {
    bool any_lost = false;
    bool any_else = false;
    for (std::uint32_t index = 0; index < job_.ranks.size(); ++index) {
      if (job_.scenario.sp_of_rank[index] != service) continue;
      const bool member = std::ranges::find(*group.members, WorldRank{index}) != group.members->end();
      any_lost = any_lost || (member && job_.ranks[index].lost);
      any_else = any_else || (!member && !job_.ranks[index].lost);
    }
    return any_lost && any_else;
  };
  return std::ranges::any_of(job_.scenario.groups, keeps);
}

void Invariants::check_end() {
  for (std::uint32_t rank = 0; rank < job_.ranks.size(); ++rank) {
    const Rank& state = job_.ranks[rank];
    if (state.lost) continue;
    if (state.next_step != job_.scenario.steps[rank].size()) {
      job_.broken(fmt::format("deadlock: rank {} never posted step {}", rank, state.next_step));
    }
    for (const Slot& slot : state.slots) {
      if (!slot.completed) {
        job_.broken(
            fmt::format("deadlock: rank {} group {} operation {} never completes", rank, slot.group, slot.sequence));
      }
      if (!image_holds(WorldRank{rank}, slot)) {
        job_.broken(fmt::format("rank {} group {} operation {}: bytes changed after completion", rank, slot.group,
                                slot.sequence));
      }
    }
  }
  for (Service& service : job_.services) {
    if (!service.alive) continue;
    service.engine->run();
    if (may_keep_announcements(service.id)) continue;
    if (!service.engine->idle() || service.engine->open_operations() != 0) {
      job_.broken(fmt::format("service process {} is not idle at the end: {} operations open", service.id.value(),
                              service.engine->open_operations()));
    }
    if (service.fabric->moves_in_flight() != 0) job_.broken("moves in flight at the end");
  }
}

}  // namespace outrigger::sim
