// Core claims: which cores the jobs of a machine use. Each keeper claims the cores of its job and sees the claims of
// others. `outrigger run`, which places ranks before there is a keeper, claims as well.
//
// A claim is the name of a Unix socket in the abstract namespace, bound and never listened to:
//
//   outrigger-core:SCOPE:CPU                     one job at most: bound or refused. For a core of service processes,
//                                                or of ranks' copiers beside a DPU; `outrigger run` binds it also for
//                                                cores that it plans for ranks
//   outrigger-claim:SCOPE:service:CPU:JOB:PID    the job and process that has it
//   outrigger-claim:SCOPE:ranks:CPU:JOB:PID      ranks are bound there; any number of jobs may claim this
//
// Reasons for such names: the kernel binds a name for one process only, across users. It frees the name when the
// process ends in any way (kill -9, too), so nothing needs cleaning up. All users may read the names
// (/proc/net/unix). A lock file would need a directory that all users may write to, and stays behind. Each hardware
// thread of a core is claimed by its number on the machine, so two cpusets with parts of one core notice each other.
//
// Limits: a claim is a promise, not a right. Anybody may claim any core; the effect on a job is only that its service
// processes go elsewhere or vote against offloading. Network namespaces have their own names, so containers and the
// hosts of `outrigger lab cluster` do not see each other's claims. The process id in a name is the claimant's own.
// Service processes close inherited claims (close-on-exec) and end with their keeper. Where the kernel hides the names,
// others' claims show only as refused names.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "service/placement/cores.hpp"

namespace outrigger::service {

// The owner of claims. Claims of one job do not refuse each other.
struct Claimant {
  std::string scope;  // only claims of the same scope are seen; empty: no claims are made or seen
  std::string job;
};

// "SCOPE:JOB", ":JOB" for a job that claims nothing, or "" for none. Error: the words have other characters than
// letters and digits.
[[nodiscard]] Result<Claimant> parse_claimant(const std::string& text);
// From OUTRIGGER_CORE_CLAIMS and OUTRIGGER_JOB. Without a job every claim is another's.
[[nodiscard]] Claimant claimant_of_environment();

struct CoreClaim {
  enum class By { service, ranks };
  By by = By::service;
  int cpu = 0;
  std::string job;
  pid_t pid = 0;
};

// Parses text in the form of /proc/net/unix; ignores everything but well-formed claims of this scope.
[[nodiscard]] std::vector<CoreClaim> parse_claims(std::string_view sockets, std::string_view scope);
// Empty also if the kernel hides the names.
[[nodiscard]] std::vector<CoreClaim> read_claims(std::string_view scope);

// The cpus that jobs other than `job` have.
struct OtherJobs {
  static constexpr pid_t kUnknown = -1;

  CpuMask services;
  CpuMask ranks;
  std::vector<CoreClaim> claims;

  // A process that has one of these cpus; kUnknown: the name is refused without a matching claim; 0: none.
  [[nodiscard]] pid_t one_at(const std::vector<int>& cpus) const;
};
[[nodiscard]] OtherJobs other_jobs(std::vector<CoreClaim> claims, std::string_view job);

// Thread rule: one thread. Claims end with this object.
class CoreClaims {
 public:
  explicit CoreClaims(Claimant claimant) : claimant_(std::move(claimant)) {}

  [[nodiscard]] OtherJobs others() const;
  // False: a service process of another job has one of the core's cpus. True also if claims are off or the system gives
  // no socket: the job then assumes that it is alone.
  [[nodiscard]] bool claim_service(const std::vector<int>& cpus_of_core);
  // Adds a claim on a core that another job has: if that job ends first, later ones still see this one.
  void share_service(const std::vector<int>& cpus_of_core);
  void claim_ranks(const std::vector<int>& cpus);
  // Drops claims for service processes; those for ranks stay.
  void drop_services();
  void drop();

 private:
  [[nodiscard]] bool is_own(int cpu) const;
  [[nodiscard]] std::string explained(CoreClaim::By by, int cpu) const;

  Claimant claimant_;
  std::vector<UniqueFd> services_;
  std::vector<int> held_cpus_;  // of service processes
  std::vector<UniqueFd> ranks_;
};

}  // namespace outrigger::service
