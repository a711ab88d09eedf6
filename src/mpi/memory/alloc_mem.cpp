#include <array>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <unordered_set>

#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {
namespace {

// Smaller requests stay native: a region of its own for each would cost more than it saves.
constexpr std::uint64_t kSharedFromBytes = 16384;
constexpr long kPageBytes = 4096;  // what Client::allocate aligns to

bool wants_more_alignment(MPI_Info info) {
  if (info == constants().info_null) return false;
  std::array<char, 32> text{};
  int found = 0;
  const int code =
      real().Info_get(info, "mpi_minimum_memory_alignment", static_cast<int>(text.size()) - 1, text.data(), &found);
  return code != MPI_SUCCESS || (found != 0 && std::strtol(text.data(), nullptr, 10) > kPageBytes);
}

// What the program has from here and has not given back. Outlives the job: MPI_Finalize runs the program's attribute
// callbacks after the job's end, and the native MPI must not be asked to free what it has not given out.
constinit std::mutex given_mutex;
std::unordered_set<const void*>& given() {
  static auto* addresses = new std::unordered_set<const void*>;
  return *addresses;
}

// Memory that the service processes map too, or nullptr.
void* shared_memory(Job& job, MPI_Aint bytes, MPI_Info info) {
  if (bytes < 0 || static_cast<std::uint64_t>(bytes) < kSharedFromBytes || wants_more_alignment(info)) return nullptr;
  void* memory = job.client->allocate(static_cast<std::uint64_t>(bytes));
  if (memory == nullptr) return nullptr;
  const std::scoped_lock lock(given_mutex);
  given().insert(memory);
  return memory;
}

// Gives memory back. False: it is not from here. After the job's end it stays mapped: the process is about to end.
bool take_back(const Job* job, void* memory) {
  {
    const std::scoped_lock lock(given_mutex);
    if (given().erase(memory) == 0) return false;
  }
  if (job != nullptr) static_cast<void>(job->client->release(memory));
  return true;
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
    if (memory != 0 && take_back(current_job(), argument<void*>(memory))) return MPI_SUCCESS;
    return site.pass(call, memory);
  }
};

}  // namespace

OUTRIGGER_ENTRY(Alloc_mem, 3, Allocation)
OUTRIGGER_ENTRY(Free_mem, 1, Release)

}  // namespace outrigger::mpi
