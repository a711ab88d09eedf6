// How a rank waits for the other members of its team: the native MPI makes progress meanwhile. A member that has died
// ends the job with a message. One that is in another call ends the operation.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "intranode/control_area.hpp"
#include "intranode/waiter.hpp"
#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

struct Job;

class RankWaiter final : public intranode::Waiter {
 public:
  // `pids` of the members, which meet in `area`, and their `ranks` in the communicator; `me` is a member. The job
  // outlives it.
  RankWaiter(Job& job, std::uint32_t me, intranode::ControlArea area, std::vector<pid_t> pids,
             std::vector<std::uint32_t> ranks);

  // A call begins.
  void enters() {
    if (++calls_ % kCallsPerDrive == 0) [[unlikely]]
      progress();
  }
  // Why it has ended a wait.
  struct Reason {
    int code = MPI_SUCCESS;
    std::string words;
  };
  [[nodiscard]] const Reason& reason() const { return reason_; }
  // The member's call differs from this one's: gives the reason by the program's calls.
  void differs_from(std::uint32_t member);

 protected:
  void progress() override;
  bool overdue(const intranode::Late& late) override;

 private:
  // Calls that hardly wait do not come to progress(): a rank that makes nothing but such calls still owes the native
  // MPI some.
  static constexpr std::uint32_t kCallsPerDrive = 64;

  void serve_windows();
  [[nodiscard]] intranode::CallWord doing(std::uint32_t member) const;
  [[nodiscard]] bool is_in_same_call(const intranode::Late& late);
  void check_process(const intranode::Late& late) const;
  void say_late(const intranode::Late& late) const;

  Job& job_;
  std::uint32_t me_;
  intranode::ControlArea area_;
  std::vector<pid_t> pids_;
  std::vector<std::uint32_t> ranks_;
  std::uint32_t calls_ = 0;
  Reason reason_;
};

}  // namespace outrigger::mpi
