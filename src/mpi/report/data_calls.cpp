#include "mpi/report/data_calls.hpp"

#include <atomic>
#include <cstddef>
#include <utility>

#include "mpi/native/entry.hpp"
#include "mpi/native/rma_windows.hpp"
#include "mpi/report/present_message.hpp"
#include "mpi/windows/guards.hpp"

namespace outrigger::mpi {
namespace {

constexpr bool hands_data_over(Call call) {
  return call != Call::Probe && call != Call::Mprobe;
}

struct EndsGuards {
  template <Call call, class... Words>
  static int run(const CallSite& site, Words... words) {
    if constexpr (hands_data_over(call)) end_guards(GuardEnd::mpi_call);
    const PublishedMessage published(site, message_shape(call), words...);
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
    const void* const caller = __builtin_return_address(0);
    if (message_shape(call).blocks && publishing_messages() && !has_tool) {
      next.store(&publish, std::memory_order_relaxed);
      return EndsGuards::run<call>(CallSite{caller}, words...);
    }
    if (!has_tool && !may_guard() && provided(call)) {
      void* const address = detail::addresses[static_cast<std::size_t>(call)].load(std::memory_order_acquire);
      note_passed_calls();
      next.store(reinterpret_cast<Function>(address), std::memory_order_relaxed);
      return call_at(address, words...);
    }
    if constexpr (is_above_tools) {
      return enter<call, EndsGuards>(caller, words...);
    } else {
      return enter_below_tools<call, EndsGuards>(caller, words...);
    }
  }
  [[gnu::noinline]] static int publish(Words... words) {
    return EndsGuards::run<call>(CallSite{__builtin_return_address(0)}, words...);
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

template <std::size_t>
using AnyWord = Word;

template <Call call, std::size_t... arguments>
void settle(std::index_sequence<arguments...> /*numbers*/) {
  using AboveTools = DataCall<call, true, AnyWord<arguments>...>;
  using BelowTools = DataCall<call, false, AnyWord<arguments>...>;
  AboveTools::next.store(&AboveTools::find, std::memory_order_relaxed);
  BelowTools::next.store(&BelowTools::find, std::memory_order_relaxed);
}

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
OUTRIGGER_PROBE_CALLS(OUTRIGGER_DATA_CALL)
OUTRIGGER_MEMORY_CALLS(OUTRIGGER_FORBIDS)

void settle_data_calls_again() {
#define OUTRIGGER_SETTLE(name, count) settle<Call::name>(std::make_index_sequence<count>());
  OUTRIGGER_DATA_CALLS(OUTRIGGER_SETTLE)
  OUTRIGGER_PROBE_CALLS(OUTRIGGER_SETTLE)
#undef OUTRIGGER_SETTLE
}

}  // namespace outrigger::mpi
