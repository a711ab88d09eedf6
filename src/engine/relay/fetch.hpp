// One local rank's way to one segment of a source's block: where it is to be read is found out, it is moved, and then
// others may read it at this rank.
//
//     Fetch fetch(operation.replicas(), rank, segment, route);
//     co_await fetch.located();               // at a rank of this service process or of another, or at its source
//     co_await operation.enter_window(rank);
//     ... move from fetch.from() to fetch.to() ...
//     operation.leave_window(rank);
//     fetch.moved(outcome);                   // others may read it here, and the rank stays for those that wait for it
//
// Where the segment is an operand of what the rank makes, and not kept (Use::operand), moved() is left out: it is read
// until the Fetch goes.
#pragma once

#include <coroutine>
#include <cstdint>
#include <optional>

#include "engine/core/group.hpp"
#include "engine/core/local_rank.hpp"
#include "engine/core/move.hpp"
#include "engine/core/suspension.hpp"
#include "fabric/fabric.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine {

class Replicas;

// Of a source's block.
struct Segment {
  GroupRank source;
  std::uint32_t index = peer::kWholeBlock;
  std::uint64_t offset_bytes = 0;
  std::uint64_t bytes = 0;
  [[nodiscard]] std::uint64_t end() const { return offset_bytes + bytes; }
};

// The service processes to ask for a segment, hop after hop; nothing: no more, it is to be read at its source. Along a
// route nobody may wait in a circle.
using Route = std::optional<SpId> (*)(const Membership& group, const Segment& segment, std::uint32_t hop);

// Lives in a coroutine's frame.
class Fetch : private Suspension {
 public:
  enum class Use : std::uint8_t { copy, operand };
  Fetch(Replicas& replicas, LocalRank& rank, const Segment& segment, Route route, Use use = Use::copy);
  ~Fetch();

  // Awaited: it is known where to read it.
  class Located {
   public:
    explicit Located(Fetch& fetch) : fetch_(fetch) {}
    [[nodiscard]] bool await_ready() const;
    void await_suspend(std::coroutine_handle<> waiter) const { fetch_.handle = waiter; }
    void await_resume() const {}

   private:
    Fetch& fetch_;
  };
  [[nodiscard]] Located located() { return Located(*this); }

  [[nodiscard]] bool at_source() const { return from_ == From::source; }
  // Both ends of the move.
  [[nodiscard]] Block from() const;
  [[nodiscard]] Block to() const;
  // Awaited: the move between them, where the holder's service process may have sent a short replica with its answer.
  [[nodiscard]] Move move() const;
  // After the move: whoever was read from is free.
  void moved(const fabric::MoveOutcome& outcome);

 private:
  friend class Replicas;
  enum class From : std::uint8_t { unknown, source, local, remote };

  // What it has waited for is known.
  void resolve(From from);
  void read_from(LocalRank& holder);
  void stop_reading();

  Replicas& replicas_;
  LocalRank& rank_;
  const Segment segment_;
  const Route route_;
  const Use use_;
  From from_ = From::unknown;
  bool queued_ = false;  // behind the one that gets the segment for this service process
  std::uint32_t hop_ = 0;
  bool forwarded_ = false;       // once at most
  bool off_route_ = false;       // whom it asks it was forwarded to
  std::optional<SpId> asked_;    // an answer is outstanding
  std::optional<SpId> reading_;  // its service process keeps the holder for us
  GroupRank holder_;
  Block remote_;
};

}  // namespace outrigger::engine
