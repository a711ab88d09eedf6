#include "fabric/host/lending.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "fabric/host/core_loan.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::fabric {
namespace {

using copy::Lane;
using copy::Lenders;

MoveStatus status_of(CopyResult result) {
  switch (result) {
    case CopyResult::copied: return MoveStatus::ok;
    case CopyResult::gone: return MoveStatus::owner_lost;
    default: return MoveStatus::memory_fault;
  }
}

WorldRank other_rank(const HostMove& move, WorldRank rank) {
  return rank == move.to.memory.owner ? move.from.memory.owner : move.to.memory.owner;
}

// Takes the front lender and moves it to the back.
Lender& next_of(std::deque<Lender*>& lenders) {
  Lender* lender = lenders.front();
  lenders.pop_front();
  lenders.push_back(lender);
  return *lender;
}

}  // namespace

void Lending::expect(WorldRank rank) {
  const RankMemory* memory = ranks_.find(rank);
  if (memory == nullptr) return;
  assert(lenders() != Lenders::none && "no rank lends threads here");
  const auto patience = by_ranks_alone() ? options_.rank_patience : options_.copier_patience;
  const LenderQueue copy_queue(memory->segment().header().copies, memory->pid(), patience, lenders());
  lenders_.push_back(std::make_unique<Lender>(rank, copy_queue, moves_));
  if (rank.value() >= by_rank_.size()) by_rank_.resize(std::size_t{rank.value()} + 1);
  by_rank_[rank.value()] = lenders_.back().get();
}

void Lending::drop_rank(WorldRank rank) {
  if (rank.value() >= by_rank_.size() || by_rank_[rank.value()] == nullptr) return;
  Lender* lender = std::exchange(by_rank_[rank.value()], nullptr);
  // The process is gone or has misbehaved: its threads can harm only its own memory.
  std::vector<Chunk> held;
  for (std::uint32_t i = 0; i < lender->copy_queue.pending(); ++i) held.push_back(lender->copy_queue.chunk(i));
  for (const Chunk& chunk : held) give_up(chunk);
  lender->queue.move_all_to(here_);
  std::erase(busy_, lender);
  std::erase_if(lenders_, [lender](const auto& each) { return each.get() == lender; });
}

bool Lending::needs_lender(const HostMove& move) const {
  const MemoryRef& from = move.from.memory;
  const MemoryRef& to = move.to.memory;
  return copy::lane_of(ranks_.kind_of(from), ranks_.kind_of(to), from.owner == to.owner, true) == Lane::lender;
}

Lender* Lending::lender_for(const HostMove& move) {
  const MemoryRef& from = move.from.memory;
  const MemoryRef& to = move.to.memory;
  for (const WorldRank rank : {to.owner, from.owner}) {
    Lender* lender = rank.value() < by_rank_.size() ? by_rank_[rank.value()] : nullptr;
    if (lender == nullptr || !lender->may_reach(other_rank(move, rank))) continue;
    if (lender->copy_queue.usable()) return lender;
    if (copy::wants_lender(move.from.bytes)) lender->copy_queue.want();
  }
  return nullptr;
}

void Lending::queue(const Chunk& chunk) {
  Lender* lender = needs_lender(*chunk.move) ? lender_for(*chunk.move) : nullptr;
  if (lender == nullptr) return here_.push_back(chunk);
  leave_to(*lender, chunk);
}

void Lending::leave_to(Lender& lender, const Chunk& chunk) {
  lender.queue.push_back(chunk);
  if (!std::exchange(lender.listed, true)) busy_.push_back(&lender);
}

// ---------------------------------------------------------------- giving

copy::Waits Lending::all_wait() const {
  copy::Waits latest = lenders_.empty() ? copy::Waits::no : copy::Waits::at_once;
  for (const auto& lender : lenders_) {
    const copy::Waits waits = lender->copy_queue.rank_waits();
    if (waits == copy::Waits::no) return waits;
    latest = std::max(latest, waits);
  }
  return latest;
}

bool Lending::lend_out() {
  if (by_ranks_alone()) return leave_to_waiting_ranks();
  std::uint64_t lent_bytes = 0;
  std::uint64_t left_bytes = here_.bytes();
  for (const Lender* lender : busy_) {
    lent_bytes += lender->copy_queue.unfinished_bytes();
    left_bytes += lender->queue.bytes();
  }
  const bool helped = copy::ranks_are_asked(lenders(), all_wait(), left_bytes + lent_bytes);
  std::uint64_t budget = options_.copiers_bytes;
  if (helped) {
    if (may_share()) share_own_copies();
    budget = options_.helped_bytes - std::min(options_.helped_bytes, lent_bytes);
  } else {
    for (Lender* lender : busy_) lender->copy_queue.ask_no_more();
  }
  bool any = false;
  for (std::size_t left = busy_.size(); left > 0 && budget > 0; --left) {
    Lender& lender = next_of(busy_);  // those that get nothing now come first the next time
    const std::uint64_t most = may_lend_to(lender, helped);
    const std::uint64_t lent = most == 0 ? 0 : lend(lender, most);
    if (lent == 0) continue;
    if (helped) ask(lender);
    lender.copy_queue.ring();
    budget -= std::min(budget, lent);
    any = true;
  }
  return any;
}

// It costs no core, so they get all that they have room for.
bool Lending::leave_to_waiting_ranks() {
  bool any = false;
  for (std::size_t left = busy_.size(); left > 0; --left) {
    Lender& lender = next_of(busy_);  // lend() may add others
    LenderQueue& copy_queue = lender.copy_queue;
    if (lender.queue.empty() || copy_queue.room() == 0) continue;
    const bool idle = copy_queue.pending() == 0;
    if (!copy_queue.usable() || (idle && !copy::worth_lending(lenders(), lender.queue.bytes()))) {
      if (idle) lender.queue.move_all_to(here_);
      continue;
    }
    if (lend(lender, lender.queue.bytes()) == 0) continue;
    copy_queue.ask_rank();
    wake_if_asleep(ranks_.find(lender.rank)->segment().header());
    any = true;
  }
  return any;
}

// Ranks that help have cores of their own: two copy faster than one, whatever the lane. This process keeps as much as
// it copies in the time in which help comes.
void Lending::share_own_copies() {
  for (std::size_t left = here_.chunks(); left > 0 && here_.bytes() > copy::kLeastBytesForLateHelp; --left) {
    Chunk chunk = here_.pop();
    Lender* lender = lender_for(*chunk.move);
    if (lender != nullptr &&
        lender->queue.bytes() + lender->copy_queue.unfinished_bytes() < options_.copier_most_bytes) {
      const Chunk rest = chunk.cut(options_.copier_most_bytes);
      leave_to(*lender, std::exchange(chunk, rest));
    }
    if (chunk.bytes != 0) here_.push_back(chunk);
  }
}

// Copiers get the core only for jobs that they have. Helping ranks run on their own cores and should not wait for the
// last copier.
std::uint64_t Lending::may_lend_to(Lender& lender, bool helped) {
  if (lender.queue.empty()) return 0;
  const bool worth = lender.copy_queue.usable() && copy::worth_lending(lenders(), lender.queue.bytes());
  if (lender.copy_queue.pending() == 0) {
    if (worth) return options_.copier_most_bytes;
    lender.queue.move_all_to(here_);
    return 0;
  }
  const std::uint64_t lent = lender.copy_queue.unfinished_bytes();
  if (!helped || !worth || lent + chunk_bytes_ > options_.copier_most_bytes) return 0;
  return options_.copier_most_bytes - lent;
}

// The copier is rung as well: it takes one chunk while a rank wakes up.
void Lending::ask(Lender& lender) {
  lender.copy_queue.ask_rank();
  if (lender.copy_queue.unfinished_bytes() > chunk_bytes_) wake_if_asleep(ranks_.find(lender.rank)->segment().header());
}

std::uint64_t Lending::lend(Lender& lender, std::uint64_t most) {
  std::uint64_t lent = 0;
  const std::uint64_t chunk_bytes = by_ranks_alone() ? options_.rank_chunk_bytes : chunk_bytes_;
  if (lender.queue.bytes() <= most + copy::kLeastBytesToWakeCopier) most = lender.queue.bytes();  // avoids a small rest
  while (!lender.queue.empty() && lender.copy_queue.room() != 0 && lent < most) {
    Chunk chunk = lender.queue.pop();
    const Chunk rest = chunk.cut(std::min(chunk_bytes, most - lent));
    if (rest.bytes != 0) lender.queue.push_front(rest);
    const std::optional<CopyJob> job = job_of(lender, chunk);
    if (!job) continue;
    ++chunk.move->lent;
    lent += chunk.bytes;
    lender.copy_queue.give(*job, chunk);
  }
  return lent;
}

std::optional<CopyJob> Lending::job_of(Lender& lender, const Chunk& chunk) {
  const MemoryRef& from = chunk.move->from.memory;
  const MemoryRef& to = chunk.move->to.memory;
  const std::uint64_t bytes = chunk.move->from.bytes;
  RankMemory* source = ranks_.find(from.owner);
  RankMemory* destination = ranks_.find(to.owner);
  if (source == nullptr || destination == nullptr) {
    moves_.settle(chunk, MoveStatus::owner_lost, Lane::lender);
    return std::nullopt;
  }
  if (!source->accessible(from.region, from.address, bytes) || !destination->accessible(to.region, to.address, bytes)) {
    moves_.settle(chunk, MoveStatus::memory_fault, Lane::lender);
    return std::nullopt;
  }
  CopyJob job;
  job.bytes = chunk.bytes;
  const bool pull = lender.rank == to.owner;
  job.own_address = (pull ? to.address : from.address) + chunk.offset;
  job.other_address = (pull ? from.address : to.address) + chunk.offset;
  job.kind = static_cast<std::uint32_t>(pull ? CopyKind::pull : CopyKind::push);
  if (from.owner == to.owner) {
    job.kind = static_cast<std::uint32_t>(CopyKind::within);
  } else if (!(pull ? source : destination)->name_process(job)) {
    lender.unreachable.push_back(other_rank(*chunk.move, lender.rank));
    queue(chunk);
    return std::nullopt;
  }
  return job;
}

void Lending::lend_core() const {
  if (!by_ranks_alone()) lend_core_to(busy_, core_share_, !here_.empty());
}

bool Lending::anything_to_do() const {
  return std::ranges::any_of(busy_, [](const Lender* lender) {
    const LenderQueue& copy_queue = lender->copy_queue;
    const auto patience = copy_queue.patience_left();
    return copy_queue.pending() == 0 || copy_queue.has_news() || (patience && patience->count() == 0);
  });
}

std::optional<LenderQueue::Clock::duration> Lending::patience_left() const {
  std::optional<LenderQueue::Clock::duration> least;
  if (!by_ranks_alone()) return least;
  for (const Lender* lender : busy_) {
    const auto left = lender->copy_queue.patience_left();
    if (left && (!least || *left < *least)) least = left;
  }
  return least;
}

// ---------------------------------------------------------------- taking in

bool Lending::take_in() {
  bool any = false;
  for (std::size_t left = busy_.size(); left > 0; --left) {
    Lender& lender = next_of(busy_);
    finished_.clear();
    returned_.clear();
    if (!lender.copy_queue.collect(finished_, returned_)) continue;
    any = true;
    take_in_from(lender);
  }
  std::erase_if(busy_, [](Lender* lender) {
    lender->listed = lender->copy_queue.pending() != 0 || !lender->queue.empty();
    return !lender->listed;
  });
  return any;
}

void Lending::take_in_from(Lender& lender) {
  for (const LenderQueue::Finished& finished : finished_) {
    const Chunk& chunk = finished.chunk;
    if (finished.result == CopyResult::unreachable && chunk.move != nullptr) {
      lender.unreachable.push_back(other_rank(*chunk.move, lender.rank));
      give_up(chunk);
    } else if (chunk.move != nullptr) {
      --chunk.move->lent;
      moves_.settle(chunk, status_of(finished.result), Lane::lender);
    } else {
      --orphans_;
    }
  }
  for (const Chunk& chunk : returned_) give_up(chunk);
  if (!returned_.empty()) lender.queue.move_all_to(here_);
}

// The lender has not copied it.
void Lending::give_up(const Chunk& chunk) {
  if (chunk.move == nullptr) {
    assert(orphans_ != 0 && "each orphan was counted");
    --orphans_;
    return;
  }
  assert(chunk.move->lent != 0 && "the chunk was lent");
  --chunk.move->lent;
  if (moves_.take_back(chunk)) here_.push_back(chunk);
}

// ---------------------------------------------------------------- cancelling

void Lending::recall(HostMove& move) {
  for (Lender* lender : busy_) {
    LenderQueue& copy_queue = lender->copy_queue;
    bool concerned = false;
    for (std::uint32_t i = 0; i < copy_queue.pending(); ++i) concerned |= copy_queue.chunk(i).move == &move;
    if (!concerned) continue;
    std::vector<Chunk> returned;
    copy_queue.take_back(returned);
    for (const Chunk& chunk : returned) {
      if (chunk.move == &move) {
        --move.lent;
      } else {
        give_up(chunk);
      }
    }
    for (std::uint32_t i = 0; i < copy_queue.pending(); ++i) {
      Chunk& chunk = copy_queue.chunk(i);
      if (chunk.move != &move) continue;
      chunk.move = nullptr;  // the copy runs to its end, and the memory counts as busy until then
      ++orphans_;
    }
  }
}

bool Lending::has_orphans(WorldRank destination) const {
  return std::ranges::any_of(busy_, [destination](Lender* lender) {
    for (std::uint32_t i = 0; i < lender->copy_queue.pending(); ++i) {
      const Chunk& chunk = lender->copy_queue.chunk(i);
      if (chunk.move == nullptr && chunk.destination == destination) return true;
    }
    return false;
  });
}

}  // namespace outrigger::fabric
