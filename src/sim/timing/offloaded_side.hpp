// Service processes do it: the real engine of each, in virtual time (sim/model/service.hpp).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/model/service.hpp"
#include "sim/timing/side.hpp"
#include "sim/timing/workload.hpp"

namespace outrigger::sim::timing {

class OffloadedSide final : public Side, private model::ServiceWorld {
 public:
  // The workload stays where it is.
  OffloadedSide(model::Machine& machine, const Workload& workload);
  ~OffloadedSide() override;

  void post(std::uint32_t rank, std::uint32_t number, std::uint32_t request, std::function<void()> posted) override;
  void wait(std::uint32_t rank, bool inside) override;
  void test(std::uint32_t rank, std::function<void()> returned) override;

  // Empty: none of the operations has ended with an error, and every engine is idle.
  [[nodiscard]] std::optional<std::string> problem() const;
  // Of all service processes.
  [[nodiscard]] std::uint64_t moves() const;

 private:
  // What a rank that waits has to copy.
  struct CopyJob {
    std::uint64_t bytes;
    std::function<void()> done;
  };
  struct Rank {
    Rank(model::Machine& machine, model::Processor& processor) : copy(machine, processor) {}
    model::CoreCopy copy;
    std::deque<CopyJob> jobs;  // the first is under way
    bool waits = false;
  };

  model::Service& service(SpId id) override { return *services_[id.value()]; }
  void hear(const std::shared_ptr<const model::Batch>& batch) override { service(batch->to).hear(batch); }
  void completed(WorldRank rank, SlotIndex slot, bool ok) override;
  bool copy_by_rank(WorldRank rank, std::uint64_t bytes, std::function<void()> done) override;
  void begin_copy(std::uint32_t rank);
  [[nodiscard]] std::uint64_t own_block_ns(const Call& call) const;

  model::Machine& machine_;
  const Workload& workload_;
  Numbering numbering_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::unique_ptr<model::Service>> services_;
  bool failed_ = false;
};

}  // namespace outrigger::sim::timing
