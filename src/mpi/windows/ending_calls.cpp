// Calls that hand data to the MPI, by which other processes may reach them: they end all guards. Collectives and
// MPI_Start do so by themselves, and the creation of windows that memory/alloc_mem.cpp has.
//
// Without guards these calls cost one load: each jumps to where `next` says. That is the MPI's function after the first
// call, unless there may be guards or a profiling tool.
#include <atomic>
#include <cstddef>

#include "mpi/native/entry.hpp"
#include "mpi/native/rma_windows.hpp"
#include "mpi/windows/guards.hpp"

namespace outrigger::mpi {
namespace {

struct EndsGuards {
  template <Call call, class... Words>
  static int run(const CallSite& site, Words... words) {
    end_guards(GuardEnd::mpi_call);
    return site.pass(call, words...);
  }
};

// From now on other processes, or the MPI by itself, reach memory without calls of the program.
struct ForbidsGuards {
  template <Call call, class... Words>
  static int run(const CallSite& site, Words... words) {
    forbid_guards();
    if (call != Call::File_open) note_rma_window();
    return site.pass(call, words...);
  }
};

// MPI_X if `is_above_tools`, else PMPI_X.
template <Call call, bool is_above_tools, class... Words>
struct DataCall {
  using Function = int (*)(Words...);

  [[gnu::noinline]] static int find(Words... words) {
    const bool has_tool = is_above_tools && tool_behind(call) != nullptr;
    if (!has_tool && !may_guard() && provided(call)) {
      void* const address = detail::addresses[static_cast<std::size_t>(call)].load(std::memory_order_acquire);
      note_passed_calls();
      next.store(reinterpret_cast<Function>(address), std::memory_order_relaxed);
      return call_at(address, words...);
    }
    const void* const caller = __builtin_return_address(0);
    if constexpr (is_above_tools) {
      return enter<call, EndsGuards>(caller, words...);
    } else {
      return enter_below_tools<call, EndsGuards>(caller, words...);
    }
  }
  static constinit inline std::atomic<Function> next = &find;
};

template <Call call, bool is_above_tools>
struct Data {
  // Nothing but a jump.
  template <class... Words>
  static int pass(std::nullptr_t /*before the commas*/, Words... words) {
    return DataCall<call, is_above_tools, Words...>::next.load(std::memory_order_relaxed)(words...);
  }
};

}  // namespace

#define OUTRIGGER_DATA_CALL(name, count)                                                                 \
  extern "C" OUTRIGGER_EXPORT int outrigger_mpi_##name(OUTRIGGER_WORDS_##count) __asm__("MPI_" #name);   \
  int outrigger_mpi_##name(OUTRIGGER_WORDS_##count) {                                                    \
    return Data<Call::name, true>::pass(nullptr OUTRIGGER_NAMES_##count);                                \
  }                                                                                                      \
  extern "C" OUTRIGGER_EXPORT int outrigger_pmpi_##name(OUTRIGGER_WORDS_##count) __asm__("PMPI_" #name); \
  int outrigger_pmpi_##name(OUTRIGGER_WORDS_##count) {                                                   \
    return Data<Call::name, false>::pass(nullptr OUTRIGGER_NAMES_##count);                               \
  }
#define OUTRIGGER_FORBIDS(name, count) OUTRIGGER_ENTRY(name, count, ForbidsGuards)
OUTRIGGER_DATA_CALLS(OUTRIGGER_DATA_CALL)
OUTRIGGER_MEMORY_CALLS(OUTRIGGER_FORBIDS)

}  // namespace outrigger::mpi
