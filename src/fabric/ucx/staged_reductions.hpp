// Reductions with blocks of other nodes: each is pulled into a buffer of this process, and when all are here they are
// reduced into the rank's memory. The buffers hold what can be pulled again, so that nothing here has to outlive the
// process.
//
// Thread rule: one thread. Completions are delivered from the wire's progress() only.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <optional>

#include "fabric/fabric.hpp"
#include "fabric/memory_reducer.hpp"
#include "fabric/ucx/wire.hpp"

namespace outrigger::fabric::ucx {

class StagedReductions {
 public:
  explicit StagedReductions(Wire& wire) : wire_(wire), reducer_(wire.memory()) {}

  // An operand and the service process of another node that reads it, or nothing: it is here.
  struct Operand {
    Block block;
    std::optional<SpId> from;
  };
  // One of them at least comes from another node.
  void start(const Reduction& reduction, const Operand& left, const Operand& right, const Block& into,
             MoveCompletion& completion);
  void cancel(const MoveCompletion& completion);
  [[nodiscard]] std::size_t in_flight() const { return started_.size(); }

 private:
  struct Started;
  class Pull final : public MoveCompletion {
   public:
    void moved(const MoveOutcome& outcome) override;
    StagedReductions* all = nullptr;
    Started* started = nullptr;
    std::optional<MemoryRef> buffer;  // where it comes to; nothing: there is none
    bool under_way = false;
  };
  struct Started {
    ReduceRanges ranges;
    std::uint64_t bytes = 0;
    MoveCompletion* completion = nullptr;
    std::array<Pull, 2> pulls;
    MoveStatus status = MoveStatus::ok;
    std::list<Started>::iterator self;
  };

  // The operand as it is to be reduced.
  [[nodiscard]] MemoryRef bring(Started& started, std::size_t index, const Operand& operand);
  void end_if_all_here(Started& started);
  void give_back_buffers(Started& started);

  Wire& wire_;
  MemoryReducer reducer_;
  std::list<Started> started_;
};

}  // namespace outrigger::fabric::ucx
