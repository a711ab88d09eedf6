// Which cores the jobs of a machine have: each keeper (and `outrigger run`, which plans where ranks go before there is
// a keeper) claims those of its job, and sees those of others.
//
// A claim is the name of a Unix socket in the abstract namespace, which is bound and never listened to:
//
//   outrigger-core:SCOPE:CPU                     one job at most: bound or refused. For a core of service processes;
//                                                `outrigger run` binds it also for cores that it plans for ranks
//   outrigger-claim:SCOPE:service:CPU:JOB:PID    who has it
//   outrigger-claim:SCOPE:ranks:CPU:JOB:PID      ranks are bound there; any number of jobs may say so
//
// Why such names: the kernel binds one for one process only, whoever asks first, also of another user; it drops them
// when that process ends in whatever way (kill -9, too), so that nothing is left behind and nothing has to be cleared;
// anybody may read them (/proc/net/unix) without any right. A lock on a file would need a directory that all users may
// write to, and leaves the file. Each hardware thread of a core is claimed by its number, which is the machine's, so
// that two cpusets with a part of the core each notice each other.
//
// What it does not do: a claim is a promise, not a right. Anybody may claim any core; all that this does to a job is
// that its service processes go elsewhere or give way. A network namespace has names of its own: containers do not see
// each other's claims, nor do hosts of `outrigger lab cluster`. A process id in a name is the claimant's own idea of it.
// Children of a keeper close what they inherit when they become service processes (close-on-exec), which end with it.
// Where the kernel tells no names, others' claims are known only by being refused.
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

// Whose claims these are. Those of one job do not refuse each other.
struct Claimant {
  std::string scope;  // only claims of the same one are seen; empty: nothing is claimed or seen
  std::string job;
};

// "SCOPE:JOB", ":JOB" for a job that claims nothing, or "" for none. Error: not words of letters and digits.
[[nodiscard]] Result<Claimant> parse_claimant(const std::string& text);
// As OUTRIGGER_CORE_CLAIMS and OUTRIGGER_JOB have it. Without a job every claim is another's.
[[nodiscard]] Claimant claimant_of_environment();

struct CoreClaim {
  enum class By { service, ranks };
  By by = By::service;
  int cpu = 0;
  std::string job;
  pid_t pid = 0;
};

// Of a text like /proc/net/unix. What is not a claim of this scope, whole and well formed, is left out.
[[nodiscard]] std::vector<CoreClaim> parse_claims(std::string_view sockets, std::string_view scope);
// Empty also where the kernel tells nothing.
[[nodiscard]] std::vector<CoreClaim> read_claims(std::string_view scope);

// The cpus that jobs other than `job` have.
struct OtherJobs {
  static constexpr pid_t kUnknown = -1;

  CpuMask services;
  CpuMask ranks;
  std::vector<CoreClaim> claims;

  // A process of one that has one of these cpus; kUnknown: a name is refused that nobody explains. 0: none has.
  [[nodiscard]] pid_t one_at(const std::vector<int>& cpus) const;
};
[[nodiscard]] OtherJobs other_jobs(std::vector<CoreClaim> claims, std::string_view job);

// Thread rule: one thread. Claims end with this.
class CoreClaims {
 public:
  explicit CoreClaims(Claimant claimant) : claimant_(std::move(claimant)) {}

  [[nodiscard]] OtherJobs others() const;
  // False: a service process of another job has one of the core's cpus. True also where claims are off or the system
  // gives no socket: there is nothing to know then, and the job goes on as if it were alone.
  [[nodiscard]] bool claim_service(const std::vector<int>& cpus_of_core);
  // A core that another job has, too: should that end first, later ones see who is left there.
  void share_service(const std::vector<int>& cpus_of_core);
  void claim_ranks(const std::vector<int>& cpus);
  // Of service processes; those of ranks stay.
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
