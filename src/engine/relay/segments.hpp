// A block on its way into a local rank's buffer, in one piece or in parts, each of which may come from somewhere else.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/operation.hpp"

namespace outrigger::engine {

// Lives in the frame of the coroutine that gets the block.
class Parts {
 public:
  // In as many parts as `count` asks for, or fewer where the last ones would be empty.
  Parts(Operation& operation, LocalRank& rank, GroupRank source, std::uint32_t count);
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() = default;

  // Starts one coroutine a part: each is read where `route` leads, or at the source, and others may then read it here.
  void receive(Copies::Route route);

  // Does this service process read the part, whose home its node is, at the source?
  using ReadsHere = bool (*)(const Operation& operation, GroupRank source, std::uint32_t part);
  // The same where each node but the source's is the home of one part a turn, by turns from the one after it. What is
  // read at the source comes first, two at a time and in order; then the others of its turn, which others have by then:
  // who asked sooner would be sent to the source for what it sends there already. What other ranks here have or get is
  // read from them at once.
  void receive_in_turns(Copies::Route route, ReadsHere reads_here);

  // Awaited: all parts have moved, or failed.
  class Ended : private Suspension {
   public:
    explicit Ended(Parts& parts) : parts_(parts) {}
    Ended(const Ended&) = delete;
    Ended& operator=(const Ended&) = delete;
    ~Ended() = default;
    [[nodiscard]] bool await_ready() const { return parts_.left_ == 0; }
    void await_suspend(std::coroutine_handle<> waiter) {
      handle = waiter;
      parts_.ended_.wait(*this);
    }
    void await_resume() const {}

   private:
    Parts& parts_;
  };
  [[nodiscard]] Ended ended() { return Ended(*this); }
  // Of all together: the first failure, if there is one.
  [[nodiscard]] const fabric::MoveOutcome& outcome() const { return outcome_; }

 private:
  static constexpr std::uint32_t kReadAtOnce = 2;

  [[nodiscard]] static Task receive_one(Operation& operation, Parts& parts, std::uint32_t number);
  [[nodiscard]] Copies::Piece piece(std::uint32_t number) const;
  [[nodiscard]] std::uint32_t turns() const { return (count_ + parts_a_turn_ - 1) / parts_a_turn_; }
  // Of this turn, what is read at the source here.
  [[nodiscard]] std::optional<std::uint32_t> own_part(std::uint32_t turn) const;
  void start(std::uint32_t number);
  void start_next_own();
  void start_turn(std::uint32_t turn, std::optional<std::uint32_t> but);
  void end_one(std::uint32_t number, const fabric::MoveOutcome& outcome);

  Operation& operation_;
  LocalRank& rank_;
  GroupRank source_;
  std::uint64_t bytes_;
  std::uint64_t part_bytes_ = 0;  // 0: one piece
  std::uint32_t count_ = 1;
  std::uint32_t left_ = 1;
  Copies::Route route_ = nullptr;
  ReadsHere reads_here_ = nullptr;  // null: no turns
  std::uint32_t parts_a_turn_ = 1;
  std::uint32_t place_ = 0;  // of this node's parts in each turn
  std::uint32_t next_turn_ = 0;
  std::vector<bool> started_;
  fabric::MoveOutcome outcome_;
  Signal ended_;
};

}  // namespace outrigger::engine
