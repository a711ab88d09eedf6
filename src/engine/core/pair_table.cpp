#include "engine/core/pair_table.hpp"

#include <fmt/format.h>

namespace outrigger::engine {

PairTable::PairTable(Pool& pool, std::size_t size, GroupRank me)
    : pairs_(pool, size, PairState()),
      ready_(pool, size, me),
      unfilled_(static_cast<std::uint32_t>(size)),
      unreleased_(static_cast<std::uint32_t>(size)) {}

void PairTable::begin(peer::Side side) {
  assert(!has_begun() && "a rank announces once");
  side_ = side;
  untaken_ = side == peer::Side::send ? unfilled_ : unreleased_;
}

void PairTable::end_segment() {
  assert(extra_moves_ != 0 && "a segment ends once");
  --extra_moves_;
}

void PairTable::set_pushed(GroupRank destination, CompletionStatus status, Reach reach) {
  PairState& pair = at(destination);
  pair.send = SendState::pushed;
  pair.pushed_status = static_cast<std::uint8_t>(status) & 0x7U;
  pair.pushed_reach = static_cast<std::uint8_t>(reach) & 0x7U;
}

void PairTable::skip_push(GroupRank destination) {
  forget_untaken(destination);
  at(destination).send = SendState::pushed;
}

void PairTable::set_eager(GroupRank destination) {
  at(destination).eager = true;
  ++eager_;
}

std::optional<std::string> PairTable::broken_invariant() const {
  std::uint32_t unfilled = 0;
  std::uint32_t unreleased = 0;
  std::uint32_t moving = 0;
  std::uint32_t ready = 0;
  std::uint32_t untaken = 0;
  std::uint32_t eager = 0;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const ReceiveState receive = pairs_[i].receive;
    const SendState send = pairs_[i].send;
    if (receive != ReceiveState::filled) ++unfilled;
    if (send != SendState::released) ++unreleased;
    if (pairs_[i].eager) ++eager;
    if (receive == ReceiveState::moving || send == SendState::moving) ++moving;
    if (receive == ReceiveState::ready || send == SendState::ready) {
      ++ready;
      if (!ready_.contains(group_rank(i))) return fmt::format("peer {} ready but not in the ready set", i);
    }
    if (side_ == peer::Side::send && (receive == ReceiveState::waiting || receive == ReceiveState::ready)) ++untaken;
    if (side_ == peer::Side::receive && (send == SendState::waiting || send == SendState::ready)) ++untaken;
  }
  struct Count {
    const char* what;
    std::uint32_t counted;
    std::size_t kept;
  };
  for (const Count& count : {Count{"unfilled", unfilled, unfilled_}, Count{"unreleased", unreleased, unreleased_},
                             Count{"eager", eager, eager_}, Count{"moving", moving, moving_},
                             Count{"ready", ready, ready_.count()}, Count{"untaken", untaken, untaken_}}) {
    if (count.counted != count.kept)
      return fmt::format("{} pairs {}, counter says {}", count.counted, count.what, count.kept);
  }
  return std::nullopt;
}

}  // namespace outrigger::engine
