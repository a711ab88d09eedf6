// A block on its way into a local rank's buffer, in segments that may come from different places.
#pragma once

#include <coroutine>
#include <cstdint>

#include "engine/core/operation.hpp"
#include "engine/core/pool.hpp"
#include "engine/core/scheduler.hpp"
#include "engine/core/suspension.hpp"
#include "engine/relay/replicas.hpp"

namespace outrigger::engine {

// Route without hops: the source is asked at once.
inline constexpr Route kAtSource = nullptr;

// Lives in the frame of the coroutine that gets the block and waits until it is complete().
class SegmentedBlock {
 public:
  // Gets one segment and ends it. Default: moves it from the place where it is found.
  using Getter = Task (*)(Operation& operation, SegmentedBlock& block, std::uint32_t index, Route route);

  // For a block that was taken. It has `count` segments, or fewer if the last ones would be empty. Segment lengths are
  // multiples of `grain_bytes`, except for the last.
  SegmentedBlock(Operation& operation, LocalRank& rank, GroupRank source, std::uint32_t count,
                 std::uint64_t grain_bytes = 1, Getter getter = move_segment);
  SegmentedBlock(const SegmentedBlock&) = delete;
  SegmentedBlock& operator=(const SegmentedBlock&) = delete;
  ~SegmentedBlock() = default;

  [[nodiscard]] GroupRank source() const { return source_; }
  [[nodiscard]] LocalRank& rank() const { return rank_; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(states_.size()); }
  [[nodiscard]] Segment segment(std::uint32_t index) const;

  // Starts a coroutine that gets the segment along `route`, or from its source; other ranks may then read it here. Does
  // nothing if the segment is on its way.
  void fetch(std::uint32_t index, Route route);
  void fetch_all(Route route);
  // Fetches the segments that other ranks of this service process hold or fetch.
  void fetch_shared(Route route);
  [[nodiscard]] bool is_fetched(std::uint32_t index) const { return states_[index] != State::needed; }

  // Awaited: the segment has moved, or failed.
  class Arrived : private Suspension {
   public:
    Arrived(SegmentedBlock& block, std::uint32_t index) : block_(block), index_(index) {}
    [[nodiscard]] bool await_ready() const { return block_.states_[index_] == State::arrived; }
    void await_suspend(std::coroutine_handle<> waiter) {
      handle = waiter;
      block_.waiting_.push_back(*this);
    }
    void await_resume() const {}

   private:
    friend class SegmentedBlock;
    SegmentedBlock& block_;
    std::uint32_t index_;
  };
  [[nodiscard]] Arrived arrived(std::uint32_t index) { return Arrived(*this, index); }

  // Awaited: all segments. Coroutines that wait for a single segment have continued by then.
  [[nodiscard]] Until<SegmentedBlock> complete() { return Until(*this, &SegmentedBlock::is_complete, complete_); }
  // Last step of a getter.
  void end(std::uint32_t index, const fabric::MoveOutcome& outcome);

  // The first failure of all segments, or success.
  [[nodiscard]] const fabric::MoveOutcome& outcome() const { return outcome_; }

 private:
  enum class State : std::uint8_t { needed, on_its_way, arrived };

  [[nodiscard]] bool is_complete() const { return missing_ == 0; }
  void give_up();
  [[nodiscard]] static Task move_segment(Operation& operation, SegmentedBlock& block, std::uint32_t index, Route route);

  Operation& operation_;
  LocalRank& rank_;
  GroupRank source_;
  std::uint64_t bytes_;
  std::uint64_t segment_bytes_;
  Getter getter_;
  PooledArray<State> states_;
  std::uint32_t missing_ = 0;
  fabric::MoveOutcome outcome_;
  SuspensionQueue waiting_;
  Signal complete_;
};

}  // namespace outrigger::engine
