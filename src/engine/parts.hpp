// A block on its way into a local rank's buffer, in one piece or in parts, each of which may come from somewhere else.
#pragma once

#include <cstdint>

#include "engine/operation.hpp"

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
  [[nodiscard]] static Task receive_one(Operation& operation, Parts& parts, Copies::Route route, std::uint32_t number);
  [[nodiscard]] Copies::Piece piece(std::uint32_t number) const;
  void end_one(const fabric::MoveOutcome& outcome);

  Operation& operation_;
  LocalRank& rank_;
  GroupRank source_;
  std::uint64_t bytes_;
  std::uint64_t part_bytes_ = 0;  // 0: one piece
  std::uint32_t left_ = 1;
  fabric::MoveOutcome outcome_;
  Signal ended_;
};

}  // namespace outrigger::engine
