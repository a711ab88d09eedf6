#include "fabric/dpu/host_copies.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace outrigger::fabric::dpu {
namespace {

Block part_of(const Block& block, const RankLender::Part& part) {
  return Block{block.memory.at(part.offset), part.bytes};
}

}  // namespace

void HostCopies::begin(const Block& from, const Block& to, MoveCompletion& completion) {
  const bool may_share = options_.host_copies && from.bytes >= copy::kLeastBytesToLend && from.bytes == to.bytes;
  if (!may_share || (lender_of(to.memory.owner) == nullptr && lender_of(from.memory.owner) == nullptr)) {
    return moves_.begin(from, to, completion);
  }
  const std::uint64_t id = next_++;
  shared_.emplace(id, Shared{from, to, &completion, Clock::now()});
  check_range(from, [this, id, to](bool good) {
    if (!good) return leave_to_card(id);
    check_range(to, [this, id](bool both) { both ? waiting_.push_back(id) : leave_to_card(id); });
  });
}

// `then` is also called if the rank goes away.
void HostCopies::check_range(const Block& block, const std::function<void(bool)>& then) {
  RemoteRank* owner = ranks_.find(block.memory.owner);
  if (owner == nullptr) return then(false);
  owner->remote->with_range(block.memory.region, [block, then](const RemoteRangePtr& range) {
    then(range && range->holds(block.memory.address, block.bytes));
  });
}

void HostCopies::leave_to_card(std::uint64_t id) {
  const auto found = shared_.find(id);
  if (found == shared_.end()) return;  // cancelled
  const Shared move = found->second;
  shared_.erase(found);
  moves_.begin(move.from, move.to, *move.completion);
}

HostCopies::Shared* HostCopies::find(std::uint64_t id) {
  const auto found = shared_.find(id);
  return found == shared_.end() ? nullptr : &found->second;
}

// ---------------------------------------------------------------- sharing out

bool HostCopies::step() {
  if (!options_.host_copies) return false;
  bool idle = shared_.empty();
  for (const auto& [number, rank] : ranks_.all()) {
    if (!rank->serves || !rank->is_reached()) continue;
    RankLender& lender = make_lender(*rank);
    lender.saw(rank->is_known() && !rank->left ? rank->reader->offer() : copy::Offer::none, rank->reader->turns());
    idle = idle && lender.idle();
  }
  if (idle) return false;
  const Clock::time_point now = Clock::now();
  const bool card_is_free = card_bytes_ < copy::kMostBytesByCard;
  // Each waiting move has a served rank at one end.
  bool somebody_can_take = false;
  for (const auto& [number, rank] : ranks_.all()) {
    if (!rank->lender) continue;
    rank->lender->step(now, card_is_free);
    somebody_can_take = somebody_can_take || rank->lender->lends() || (card_is_free && !rank->lender->waits());
  }
  if (somebody_can_take || !returned_.empty()) share_out(now);
  return !shared_.empty();
}

void HostCopies::share_out(Clock::time_point now) {
  move_returned_by_card();
  for (std::size_t left = std::min(waiting_.size(), kLooksAStep); left > 0; --left) {
    const std::uint64_t id = waiting_.front();
    waiting_.pop_front();
    Shared* move = find(id);
    if (move == nullptr) continue;
    bool started = true;
    while (started && move->has_more()) started = start_chunk(id, *move, now);
    if (!started) waiting_.push_back(id);
  }
}

bool HostCopies::start_chunk(std::uint64_t id, Shared& move, Clock::time_point now) {
  const WorldRank source = move.from.memory.owner;
  const WorldRank destination = move.to.memory.owner;
  RankLender* puller = lender_of(destination);
  RankLender* pusher = lender_of(source);
  const auto offer = [](const RankLender* lender) { return lender != nullptr ? lender->offer() : copy::Offer::none; };
  const bool is_young = now - move.begun < copy::kUntilComputes;
  const auto may_wait = [is_young](const RankLender* lender) {
    return lender != nullptr && (lender->waits() || (is_young && lender->can_help()));
  };
  const copy::HostMover mover =
      copy::host_mover_of(offer(puller), offer(pusher), may_wait(puller) || may_wait(pusher), card_bytes_);
  if (mover == copy::HostMover::none) return false;
  const std::uint64_t left = move.from.bytes - move.started_bytes;
  const std::uint64_t most = mover == copy::HostMover::card ? kCardChunkBytes : kChunkBytes;
  const RankLender::Part part{id, move.started_bytes, std::min(most, left)};
  move.started_bytes += part.bytes;
  ++move.open_chunks;
  const bool pull = mover == copy::HostMover::destination;
  if (mover == copy::HostMover::card) {
    move_by_card(part);
  } else if (!give(pull ? *puller : *pusher, pull, move, part)) {
    returned_.push_back(part);
  }
  return true;
}

// nullptr if this service process does not serve the rank, or has not reached it.
RankLender* HostCopies::lender_of(WorldRank rank) {
  RemoteRank* found = ranks_.find(rank);
  return found == nullptr || !found->serves || !found->is_known() ? nullptr : found->lender.get();
}

RankLender& HostCopies::make_lender(RemoteRank& rank) {
  if (!rank.lender) {
    rank.lender = std::make_unique<RankLender>(
        *rank.remote, [this](const RankLender::Part& part, bool copied) { copy_ended(part, copied); });
  }
  return *rank.lender;
}

// False: the lender cannot name the other process.
bool HostCopies::give(RankLender& lender, bool pull, const Shared& move, const RankLender::Part& part) {
  const MemoryRef from = move.from.memory.at(part.offset);
  const MemoryRef to = move.to.memory.at(part.offset);
  const RemoteRank* other = ranks_.find(pull ? from.owner : to.owner);
  CopyJob job;
  job.bytes = part.bytes;
  job.own_address = pull ? to.address : from.address;
  job.other_address = pull ? from.address : to.address;
  // Also within a rank: memory that only the card reaches must not end the program.
  job.kind = static_cast<std::uint32_t>(pull ? CopyKind::pull : CopyKind::push);
  if (other == nullptr || other->process.pid == 0) return false;
  job.other_pid = other->process.pid;
  job.probe_address = other->process.probe_address;
  job.probe_value = other->process.probe_value;
  lender.give(job, part);
  return true;
}

void HostCopies::move_returned_by_card() {
  while (!returned_.empty() && card_bytes_ < copy::kMostBytesByCard) {
    const RankLender::Part part = returned_.front();
    returned_.pop_front();
    move_by_card(part);
  }
}

void HostCopies::move_by_card(const RankLender::Part& part) {
  const Shared* move = find(part.move);
  assert(move != nullptr && "a move stays until its chunks have ended");
  card_bytes_ += part.bytes;
  ByCard& chunk = by_card_.emplace_back(*this, part.move, part.bytes);
  moves_.begin(part_of(move->from, part), part_of(move->to, part), chunk);
}

// ---------------------------------------------------------------- ends

void HostCopies::copy_ended(const RankLender::Part& part, bool copied) {
  if (closed_) return;
  Shared* move = find(part.move);
  assert(move != nullptr && "a move stays until its chunks have ended");
  if (copied) move->copied_bytes += part.bytes;
  if (copied || move->completion == nullptr) return chunk_ended(part.move, move->outcome);
  returned_.push_back(part);
}

void HostCopies::card_ended(const ByCard& chunk, const MoveOutcome& outcome) {
  const std::uint64_t id = chunk.move;
  card_bytes_ -= chunk.bytes;
  by_card_.remove_if([&chunk](const ByCard& one) { return &one == &chunk; });
  chunk_ended(id, outcome);
}

void HostCopies::chunk_ended(std::uint64_t id, const MoveOutcome& outcome) {
  Shared* move = find(id);
  if (move == nullptr) return;
  assert(move->open_chunks != 0 && "every chunk ends once");
  --move->open_chunks;
  if (outcome.reach != Reach::copier) move->outcome.reach = outcome.reach;
  if (move->outcome.status == MoveStatus::ok) move->outcome.status = outcome.status;
  if (move->outcome.status != MoveStatus::ok) move->started_bytes = move->from.bytes;
  if (move->open_chunks != 0 || move->has_more()) return;
  // One reach for all bytes, that of the larger part.
  if (move->copied_bytes > move->from.bytes / 2) move->outcome.reach = Reach::copier;
  if (move->completion != nullptr) finished_.add(*move->completion, move->outcome);
  shared_.erase(id);
}

// ---------------------------------------------------------------- cancelling

void HostCopies::cancel(MoveCompletion& completion) {
  finished_.forget(completion);
  const auto found =
      std::ranges::find_if(shared_, [&](const auto& item) { return item.second.completion == &completion; });
  if (found == shared_.end()) return;
  const std::uint64_t id = found->first;
  Shared& move = found->second;
  move.completion = nullptr;
  move.started_bytes = move.from.bytes;
  if (move.open_chunks == 0) {
    shared_.erase(found);
    return;
  }
  cancel_chunks(id);
}

void HostCopies::cancel_chunks(std::uint64_t id) {
  const std::size_t dropped = std::erase_if(returned_, [id](const RankLender::Part& part) { return part.move == id; });
  for (std::size_t i = 0; i < dropped; ++i) chunk_ended(id, MoveOutcome{MoveStatus::owner_lost, Reach::copier});
  std::vector<ByCard*> chunks;
  for (ByCard& chunk : by_card_) {
    if (chunk.move == id) chunks.push_back(&chunk);
  }
  for (ByCard* chunk : chunks) {
    moves_.cancel(*chunk);
    card_ended(*chunk, MoveOutcome{MoveStatus::owner_lost, Reach::rdma});
  }
  const Clock::time_point deadline = Clock::now() + kLandingTime;
  while (const Shared* move = find(id)) {
    if (Clock::now() >= deadline) return;
    for (const WorldRank rank : {move->from.memory.owner, move->to.memory.owner}) {
      RankLender* lender = lender_of(rank);
      if (lender == nullptr) continue;
      lender->recall();
      lender->step(Clock::now(), true);
    }
    (void)ranks_.progress_memory();
  }
}

bool HostCopies::writes_late_to(WorldRank rank) const {
  return std::ranges::any_of(shared_, [rank](const auto& item) {
    const Shared& move = item.second;
    return move.completion == nullptr && move.open_chunks != 0 && move.to.memory.owner == rank;
  });
}

void HostCopies::take_over(RemoteRank& rank, Rma::Done done) {
  if (!options_.host_copies) return done(true);
  make_lender(rank).take_over(std::move(done));
}

void HostCopies::drop(RemoteRank& rank) {
  if (rank.lender) rank.lender->abandon();
}

void HostCopies::clear() {
  closed_ = true;
  shared_.clear();
  waiting_.clear();
  returned_.clear();
  by_card_.clear();
}

}  // namespace outrigger::fabric::dpu
