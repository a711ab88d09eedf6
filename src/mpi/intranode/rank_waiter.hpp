// How a rank waits for the other members of its team: the native MPI makes progress meanwhile, and a member that has
// died ends the job with a message.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "intranode/waiter.hpp"
#include "protocol/collective_calls.hpp"

namespace outrigger::mpi {

struct Job;

class RankWaiter final : public intranode::Waiter {
 public:
  // `pids` of the members. The job outlives it.
  RankWaiter(Job& job, std::vector<pid_t> pids);

  // The call in which waits are from now on.
  void enters(CollectiveCall call);

 protected:
  void progress() override;
  void progress_before_sleep() override;
  bool overdue(std::uint32_t whose, std::chrono::nanoseconds waited) override;

 private:
  [[nodiscard]] std::string call_name() const { return name_of(CallKind{call_, CallForm::blocking}); }

  Job& job_;
  std::vector<pid_t> pids_;
  CollectiveCall call_ = CollectiveCall::barrier;
  std::uint32_t turns_ = 0;
  std::uint32_t calls_ = 0;
  bool said_ = false;
};

}  // namespace outrigger::mpi
