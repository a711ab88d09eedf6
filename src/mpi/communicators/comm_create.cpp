// The constructors of communicators. Duplicates get their state from the attribute's copy callback, the others here.
#include <array>
#include <optional>

#include "mpi/communicators/comm_state.hpp"
#include "mpi/communicators/off_marks.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"

namespace outrigger::mpi {
namespace {

// The nonblocking forms of dup must not communicate: the parent's choices hold.
struct Duplicate {
  template <Call call, class... Words>
  static int run(const CallSite& site, Words... words) {
    const DuplicateScope scope(!site.inside_mpi());
    return site.pass(call, words...);
  }
};

struct DuplicateWithInfo {
  template <Call call>
  static int run(const CallSite& site, Word comm, Word info, Word made) {
    const int code = Duplicate::run<call>(site, comm, info, made);
    if (code != MPI_SUCCESS || site.inside_mpi()) return code;
    const MPI_Comm duplicate = *argument<MPI_Comm*>(made);
    if (Job* job = current_job()) {
      apply_info(*job, duplicate, argument<MPI_Info>(info));
    } else if (const Job* without_services = intranode_job()) {
      mark(*without_services, duplicate, argument<MPI_Info>(info));
    }
    return code;
  }

 private:
  static void mark(const Job& job, MPI_Comm comm, MPI_Info info) {
    if (comm == constants().comm_null || is_intercommunicator(comm)) return;
    const std::optional<bool> on = agreed_choice(comm, info);
    if (on) mark_off(job, comm, !*on);
  }
};

// The new communicator, the last argument, gets its state on all its ranks together. `of_parent`: all ranks of the
// communicator in the first argument call it, and some or all are in the new one.
template <bool of_parent>
struct Making {
  template <Call call, class... Words>
  static int run(const CallSite& site, Words... words) {
    const int code = site.pass(call, words...);
    const std::array all{words...};
    Job* job = current_job();
    if (code != MPI_SUCCESS || job == nullptr || all.back() == 0 || site.inside_mpi()) return code;
    const MPI_Comm made = *argument<MPI_Comm*>(all.back());
    CommState* parent = of_parent ? state_of(*job, argument<MPI_Comm>(all.front())) : nullptr;
    if (parent != nullptr) {
      adopt_part(*job, made, *parent);
    } else {
      adopt(*job, made);
    }
    return code;
  }
};
using Partition = Making<true>;
using Constructor = Making<false>;

}  // namespace

OUTRIGGER_ENTRY(Comm_dup, 2, Duplicate)
OUTRIGGER_ENTRY(Comm_idup, 3, Duplicate)
OUTRIGGER_ENTRY(Comm_dup_with_info, 3, DuplicateWithInfo)
OUTRIGGER_ENTRY(Comm_split, 4, Partition)
OUTRIGGER_ENTRY(Comm_split_type, 5, Partition)
OUTRIGGER_ENTRY(Comm_create, 3, Partition)
OUTRIGGER_ENTRY(Comm_create_group, 4, Constructor)
OUTRIGGER_ENTRY(Cart_create, 6, Partition)
OUTRIGGER_ENTRY(Cart_sub, 3, Partition)
OUTRIGGER_ENTRY(Graph_create, 6, Partition)
OUTRIGGER_ENTRY(Dist_graph_create, 9, Partition)
OUTRIGGER_ENTRY(Dist_graph_create_adjacent, 10, Partition)
OUTRIGGER_ENTRY(Intercomm_merge, 3, Constructor)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Comm_idup_with_info, 4, Duplicate)
OUTRIGGER_ENTRY(Comm_create_from_group, 5, Constructor)
#endif

}  // namespace outrigger::mpi
