// Service processes do all calls: the real engine of each, in virtual time (sim/model/model_service.hpp).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/model/model_service.hpp"
#include "sim/timing/side.hpp"
#include "sim/timing/workload.hpp"

namespace outrigger::sim::timing {

class OffloadedSide final : public Side, private model::ServiceWorld {
 public:
  // The workload must not move.
  OffloadedSide(model::Machine& machine, const Workload& workload);
  ~OffloadedSide() override;

  void post(std::uint32_t rank, std::uint32_t number, std::uint32_t request, std::function<void()> posted) override;
  void wait(std::uint32_t rank, bool inside) override;
  void test(std::uint32_t rank, std::function<void()> returned) override;

  // Empty: no operation has ended with an error, and every engine is idle.
  [[nodiscard]] std::optional<std::string> problem() const;
  // Total of all service processes.
  [[nodiscard]] std::uint64_t moves() const;

 private:
  // A copy that a rank makes while it waits.
  struct CopyJob {
    std::uint64_t bytes;
    std::uint64_t core_ns;
    std::function<void()> done;
    std::function<void()> left;
  };
  // The rank's copier on a spare core.
  struct SpareCopier {
    SpareCopier(model::Machine& machine, std::uint32_t rank)
        : processor(machine.processors.of_copiers(machine.places.node_of(rank))),
          process(model::Machine::process_of_rank(rank)),
          copy(machine, processor, process) {}
    model::Processor& processor;
    model::ProcessId process;
    model::CoreCopy copy;
    bool busy = false;  // copies, or will look for jobs
  };
  struct Rank {
    Rank(model::Machine& machine, std::uint32_t rank)
        : processor(machine.core_of_rank(rank)),
          process(model::Machine::process_of_rank(rank)),
          copy(machine, processor, process) {
      if (machine.cluster.service.copy_cores != 0) spare.emplace(machine, rank);
    }
    model::Processor& processor;
    model::ProcessId process;
    model::CoreCopy copy;
    std::optional<SpareCopier> spare;
    std::deque<CopyJob> jobs;  // without the current ones
    bool copies = false;
    bool waits = false;
    bool seen_waiting = false;     // by its service process on the DPU
    std::uint64_t lent_bytes = 0;  // given by service processes on the DPU, and not known to be copied
    std::uint64_t progress = 0;    // changes whenever it begins or ends a job
  };

  model::Service& service(SpId id) override { return *services_[id.value()]; }
  void deliver(const std::shared_ptr<const model::Batch>& batch) override { service(batch->to).receive(batch); }
  void completed(WorldRank rank, SlotIndex slot, bool ok) override;
  bool copy_by_rank(WorldRank rank, std::uint64_t bytes, std::function<void()> done,
                    std::function<void()> left) override;
  [[nodiscard]] Lender lender(WorldRank rank) const override;
  void copy_for_dpu(std::uint32_t rank, std::uint64_t bytes, std::function<void()> done, std::function<void()> left);
  void show_wait_to_dpu(std::uint32_t rank);
  // True if ranks make the copies while they wait, because service processes have no core.
  [[nodiscard]] bool left_to_ranks(std::uint64_t bytes) const;
  void give(std::uint32_t rank, CopyJob job);
  void copy_next(std::uint32_t rank);
  void let_copier_look(std::uint32_t rank);
  void copy_on_spare_core(std::uint32_t rank);
  [[nodiscard]] std::uint64_t pause_of_copier_ns() const;
  void time_out_later(std::uint32_t rank);
  void take_back(Rank& rank);
  [[nodiscard]] std::uint64_t own_block_ns(const Call& call) const;

  model::Machine& machine_;
  const Workload& workload_;
  Numbering numbering_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::unique_ptr<model::Service>> services_;
  bool failed_ = false;
};

}  // namespace outrigger::sim::timing
