#include "mpi/start/shared_cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"
#include "protocol/rank_address.hpp"

namespace outrigger::mpi {
namespace {

constexpr double kSlack = 0.01;  // of sums of fractions

// The ranks of a machine that several nodes share.
class Machine {
 public:
  explicit Machine(const Job& job) : ranks_(job.node_comm) {
    const Sharing sharing = find_sharing(job);
    if (sharing.anywhere == 0) return;
    real().Comm_split(job.internal_comm, sharing.first_node, 0, &ranks_);
    split_ = true;
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine() {
    if (split_) real().Comm_free(&ranks_);
  }
  [[nodiscard]] MPI_Comm ranks() const { return ranks_; }

 private:
  struct Sharing {
    int anywhere = 0;    // not 0: some nodes of the job share a machine
    int first_node = 0;  // on this one
  };

  static Sharing find_sharing(const Job& job) {
    Sharing sharing;
    if (job.nodes == 1) return sharing;
    if (job.local_rank == 0) {
      const std::uint64_t mine = this_machine();
      std::vector<std::uint64_t> all(job.nodes);
      const int bytes = static_cast<int>(sizeof mine);
      real().Allgather(&mine, bytes, constants().byte, all.data(), bytes, constants().byte, job.node_leaders);
      const auto first = mine == 0 ? all.begin() + job.node : std::ranges::find(all, mine);
      sharing.first_node = static_cast<int>(first - all.begin());
      std::erase(all, 0);  // not known: taken for one of its own
      std::ranges::sort(all);
      sharing.anywhere = std::ranges::adjacent_find(all) == all.end() ? 0 : 1;
    }
    real().Bcast(&sharing, static_cast<int>(sizeof sharing), constants().byte, 0, job.node_comm);
    return sharing;
  }

  MPI_Comm ranks_;
  bool split_ = false;
};

struct Affinity {
  cpu_set_t cpus;
  std::uint32_t node;
};

Affinity affinity_of(const Job& job) {
  Affinity mine{};
  CPU_ZERO(&mine.cpus);
  if (sched_getaffinity(0, sizeof mine.cpus, &mine.cpus) != 0) CPU_SET(0, &mine.cpus);
  mine.node = job.node;
  return mine;
}

// Who would run on this rank's cores if each spread evenly over those it may use.
struct Load {
  double ranks = 0;
  double services = 0;  // of this node, without a core of their own
  double cores = 0;
};

Load load_of_my_cores(const Job& job) {
  const Machine machine(job);
  int ranks = 0;
  real().Comm_size(machine.ranks(), &ranks);
  const Affinity mine = affinity_of(job);
  std::vector<Affinity> all(static_cast<std::size_t>(ranks));
  const int bytes = static_cast<int>(sizeof mine);
  real().Allgather(&mine, bytes, constants().byte, all.data(), bytes, constants().byte, machine.ranks());
  Load load;
  load.cores = CPU_COUNT(&mine.cpus);
  cpu_set_t of_node = mine.cpus;
  for (const Affinity& other : all) {
    cpu_set_t common;
    CPU_AND(&common, &mine.cpus, &other.cpus);
    if (other.node == mine.node) CPU_OR(&of_node, &of_node, &other.cpus);
    load.ranks += static_cast<double>(CPU_COUNT(&common)) / std::max(1, CPU_COUNT(&other.cpus));
  }
  const WelcomeBody& services = job.client->welcome();
  if (services.core_share != copy::CoreShare::own) {
    load.services = static_cast<double>(services.sp_count) * load.cores / std::max(1, CPU_COUNT(&of_node));
  }
  return load;
}

}  // namespace

void share_cores(Job& job) {
  const Load load = load_of_my_cores(job);
  using copy::RankCores;
  const double room = load.cores + kSlack;
  job.cores = load.ranks > room                   ? RankCores::shared_with_ranks
              : load.ranks + load.services > room ? RankCores::shared_with_services
                                                  : RankCores::own;
}

}  // namespace outrigger::mpi
