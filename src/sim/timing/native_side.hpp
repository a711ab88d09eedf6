// The ranks' own MPI does all calls (sim/baselines).
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "sim/baselines/baselines.hpp"
#include "sim/timing/side.hpp"
#include "sim/timing/workload.hpp"

namespace outrigger::sim::timing {

class NativeSide final : public Side {
 public:
  // The workload must not move.
  NativeSide(model::Machine& machine, const Workload& workload, bool threads)
      : hosts_(machine, threads), workload_(workload), numbering_(workload, hosts_.size()) {
    for (std::uint32_t rank = 0; rank < hosts_.size(); ++rank) {
      hosts_.host(rank).when_done([this, rank](std::uint32_t request) { ended(rank, request); });
    }
  }
  void post(std::uint32_t rank, std::uint32_t number, std::uint32_t request, std::function<void()> posted) override {
    const Call& call = workload_.calls[number];
    hosts_.host(rank).post(baselines::Host::Call{call.native->function, call.bytes, call.root, request},
                           role(call, rank), [this, rank, posted = std::move(posted)] {
                             hosts_.host(rank).be_in_mpi(false);
                             posted();
                           });
  }
  void wait(std::uint32_t rank, bool inside) override { hosts_.host(rank).be_in_mpi(inside); }
  void test(std::uint32_t rank, std::function<void()> returned) override {
    hosts_.host(rank).test(std::move(returned));
  }
  [[nodiscard]] const baselines::Hosts& hosts() const { return hosts_; }

 private:
  [[nodiscard]] baselines::Role role(const Call& call, std::uint32_t rank) {
    const Communicator& communicator = workload_.communicators[call.communicator];
    const Numbering::Number number = numbering_.next(workload_, call, rank);
    return baselines::Role{*communicator.groups[communicator.group_of[rank]], communicator.place_of[rank],
                           number.group << kSequenceBits | number.sequence, call.by_distance,
                           communicator.neighbors[rank]};
  }

  static constexpr unsigned kSequenceBits = 40;  // more operations than any run has
  baselines::Hosts hosts_;
  const Workload& workload_;
  Numbering numbering_;
};

}  // namespace outrigger::sim::timing
