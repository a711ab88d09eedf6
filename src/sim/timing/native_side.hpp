// The ranks' own MPI does it (sim/baselines).
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "sim/baselines/baselines.hpp"
#include "sim/timing/side.hpp"

namespace outrigger::sim::timing {

class NativeSide final : public Side {
 public:
  NativeSide(model::Machine& machine, const baselines::Baseline& baseline, bool threads, std::uint64_t bytes,
             std::uint32_t root)
      : hosts_(machine, threads), baseline_(baseline), bytes_(bytes), root_(root) {
    for (std::uint32_t rank = 0; rank < hosts_.size(); ++rank) {
      hosts_.host(rank).when_done([this, rank] { ended(rank); });
    }
  }
  void post(std::uint32_t rank, std::function<void()> posted) override {
    hosts_.host(rank).post(baseline_.function, bytes_, root_, [this, rank, posted = std::move(posted)] {
      hosts_.host(rank).be_in_mpi(false);
      posted();
    });
  }
  void wait(std::uint32_t rank, bool inside) override { hosts_.host(rank).be_in_mpi(inside); }
  [[nodiscard]] const baselines::Hosts& hosts() const { return hosts_; }

 private:
  baselines::Hosts hosts_;
  const baselines::Baseline& baseline_;
  std::uint64_t bytes_;
  std::uint32_t root_;
};

}  // namespace outrigger::sim::timing
