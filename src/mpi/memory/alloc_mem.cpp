// MPI_Alloc_mem: memory that service processes can map, if an operation could use it; else the native MPI's.
#include <array>
#include <cstdint>
#include <cstdlib>

#include "client/memory/program_memory.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/native/rma_windows.hpp"
#include "mpi/windows/guards.hpp"

namespace outrigger::mpi {
namespace {

// Smaller blocks go through staging memory anyway.
constexpr std::uint64_t kSharedFromBytes = 16384;
constexpr long kPageBytes = 4096;  // alignment of ProgramMemory

bool wants_more_alignment(MPI_Info info) {
  if (info == constants().info_null) return false;
  std::array<char, 32> text{};
  int found = 0;
  const int code =
      real().Info_get(info, "mpi_minimum_memory_alignment", static_cast<int>(text.size()) - 1, text.data(), &found);
  return code != MPI_SUCCESS || (found != 0 && std::strtol(text.data(), nullptr, 10) > kPageBytes);
}

// Jobs whose service processes have no core offload only by the user's rules, or after trials that show a gain.
bool could_be_used(const Job& job) {
  return !job.dispatch.native_at_first || job.config.selection.wants_offload() ||
         job.client->heap().has_seen_operation();
}

// Memory that the service processes can map too, or nullptr.
void* shared_memory(Job& job, MPI_Aint bytes, MPI_Info info) {
  if (bytes < 0 || static_cast<std::uint64_t>(bytes) < kSharedFromBytes) return nullptr;
  if (!could_be_used(job) || wants_more_alignment(info)) return nullptr;
  return job.client->heap().allocate_for_program(static_cast<std::uint64_t>(bytes));
}

struct Allocation {
  template <Call call>
  static int run(const CallSite& site, Word bytes, Word info, Word result) {
    Job* job = current_job();
    if (job != nullptr && result != 0 && !site.inside_mpi()) {
      if (void* memory = shared_memory(*job, argument<MPI_Aint>(bytes), argument<MPI_Info>(info))) {
        *argument<void**>(result) = memory;
        return MPI_SUCCESS;
      }
    }
    return site.pass(call, bytes, info, result);
  }
};

struct Release {
  template <Call call>
  static int run(const CallSite& site, Word memory) {
    if (client::ProgramMemory::of_process().release(argument<void*>(memory))) return MPI_SUCCESS;
    return site.pass(call, memory);
  }
};

// Windows: the MPI may have registered the memory with a network card, which keeps writing to the same pages.
struct WindowMemory {
  template <Call call, class... Rest>
  static int run(const CallSite& site, Word base, Rest... rest) {
    client::ProgramMemory::of_process().hold_at_forks(argument<const void*>(base));
    forbid_guards();
    note_rma_window();
    return site.pass(call, base, rest...);
  }
};
struct AttachedMemory {
  template <Call call>
  static int run(const CallSite& site, Word window, Word base, Word bytes) {
    client::ProgramMemory::of_process().hold_at_forks(argument<const void*>(base));
    forbid_guards();
    note_rma_window();
    return site.pass(call, window, base, bytes);
  }
};

}  // namespace

OUTRIGGER_ENTRY(Alloc_mem, 3, Allocation)
OUTRIGGER_ENTRY(Free_mem, 1, Release)
OUTRIGGER_ENTRY(Win_create, 6, WindowMemory)
OUTRIGGER_ENTRY(Win_attach, 3, AttachedMemory)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Win_create_c, 6, WindowMemory)
#endif

}  // namespace outrigger::mpi
