// Defines intercepted calls: OUTRIGGER_ENTRY(Wait, 2, Completion<&wait>) defines the symbols MPI_Wait and PMPI_Wait
// with two arguments, implemented by Completion<&wait>::run<Call::Wait>(site, arguments...).
//
// Arguments are machine words, so that a call can be passed on unchanged to an MPI with another ABI; argument<T>()
// restores their type. A handler is a type, so that similar calls share one; it takes the words that it needs.
//
// MPI_X and PMPI_X differ if a profiling tool follows this library in the loader's search order. Then MPI_X only calls
// the tool's MPI_X. The tool sees the call as it would natively, and calls PMPI_X, which is this library's and does the
// work once. This needs a tool that has called our PMPI_Init (tools_come_back()). Otherwise MPI_X does the work itself,
// and the tool sees calls that are passed on. A tool in front of this library only meets PMPI_X.
#pragma once

#include <type_traits>

#include "mpi/native/origin.hpp"
#include "mpi/native/real.hpp"

#define OUTRIGGER_EXPORT __attribute__((visibility("default")))

namespace outrigger::mpi {

template <class T>
[[nodiscard]] T argument(Word word) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(word);
  } else {
    return static_cast<T>(word);
  }
}

template <class>
using WordFor = Word;

// The origin of a call, and its target.
struct CallSite {
  const void* caller;    // an address in the calling code
  void* tool = nullptr;  // the tool's MPI_X, if the call is MPI_X and that tool does not come back

  // True if the call comes from the MPI library itself.
  [[nodiscard, gnu::always_inline]] bool inside_mpi() const { return called_by_mpi(caller); }

  template <class... Words>
  int pass(Call call, Words... words) const {
    return tool != nullptr ? call_at(tool, words...) : ::outrigger::mpi::pass(call, words...);
  }
};

// MPI_X if there may be a tool, or if the functions have not been found yet.
template <Call call, class Handler, class... Words>
[[gnu::noinline]] int enter_by_tool(const void* caller, Words... words) {
  // Only MPI_Init can find out if a tool comes back.
  constexpr bool kStarts = call == Call::Init || call == Call::Init_thread;
  void* tool = tool_behind(call);
  if (tool != nullptr && called_by_mpi(caller)) {
    const PassingForMpi scope;
    return call_at(tool, words...);
  }
  if (tool != nullptr && !kStarts && tools_come_back()) return call_at(tool, words...);
  return Handler::template run<call>(CallSite{caller, tool}, words...);
}

// A handler may detect by a few loads that a call is only for the MPI; it then continues there with unchanged
// arguments.
template <Call call, class Handler, class... Words>
[[nodiscard]] bool passes_at_once(Words... words) {
  if constexpr (requires { Handler::template passes_at_once<call>(words...); }) {
    return Handler::template passes_at_once<call>(words...);
  } else {
    return false;
  }
}

// A function of its own: a compiler makes a tail call only if no address of a local variable escapes.
template <Call call, class Handler, class... Words>
[[gnu::noinline]] int run_handler(const void* caller, Words... words) {
  return Handler::template run<call>(CallSite{caller}, words...);
}

// PMPI_X.
template <Call call, class Handler, class... Words>
int enter_below_tools(const void* caller, Words... words) {
  if (passes_at_once<call, Handler>(words...)) [[likely]] {
    return pass(call, words...);
  }
  return run_handler<call, Handler>(caller, words...);
}

// MPI_X.
template <Call call, class Handler, class... Words>
int enter(const void* caller, Words... words) {
  if (may_have_tool(call)) [[unlikely]] {
    return enter_by_tool<call, Handler>(caller, words...);
  }
  return enter_below_tools<call, Handler>(caller, words...);
}

}  // namespace outrigger::mpi

#define OUTRIGGER_ENTRY(name, count, ...)                                                                \
  extern "C" OUTRIGGER_EXPORT int outrigger_mpi_##name(OUTRIGGER_WORDS_##count) __asm__("MPI_" #name);   \
  int outrigger_mpi_##name(OUTRIGGER_WORDS_##count) {                                                    \
    using Handler = __VA_ARGS__;                                                                         \
    return enter<Call::name, Handler>(__builtin_return_address(0) OUTRIGGER_NAMES_##count);              \
  }                                                                                                      \
  extern "C" OUTRIGGER_EXPORT int outrigger_pmpi_##name(OUTRIGGER_WORDS_##count) __asm__("PMPI_" #name); \
  int outrigger_pmpi_##name(OUTRIGGER_WORDS_##count) {                                                   \
    using Handler = __VA_ARGS__;                                                                         \
    return enter_below_tools<Call::name, Handler>(__builtin_return_address(0) OUTRIGGER_NAMES_##count);  \
  }

// The same call under Open MPI 4.1's name, MPIX_X. Ignores tools.
#define OUTRIGGER_ENTRY_MPIX(name, count, ...)                                                             \
  extern "C" OUTRIGGER_EXPORT int outrigger_mpix_##name(OUTRIGGER_WORDS_##count) __asm__("MPIX_" #name);   \
  int outrigger_mpix_##name(OUTRIGGER_WORDS_##count) {                                                     \
    using Handler = __VA_ARGS__;                                                                           \
    return enter_below_tools<Call::name, Handler>(__builtin_return_address(0) OUTRIGGER_NAMES_##count);    \
  }                                                                                                        \
  extern "C" OUTRIGGER_EXPORT int outrigger_pmpix_##name(OUTRIGGER_WORDS_##count) __asm__("PMPIX_" #name); \
  int outrigger_pmpix_##name(OUTRIGGER_WORDS_##count) {                                                    \
    using Handler = __VA_ARGS__;                                                                           \
    return enter_below_tools<Call::name, Handler>(__builtin_return_address(0) OUTRIGGER_NAMES_##count);    \
  }

// A persistent collective, under all names that MPIs of this ABI have for it.
#if defined(OUTRIGGER_ABI_OPENMPI)
#define OUTRIGGER_PERSISTENT_ENTRY(name, count, ...) \
  OUTRIGGER_ENTRY(name, count, __VA_ARGS__)          \
  OUTRIGGER_ENTRY_MPIX(name, count, __VA_ARGS__)
#else
#define OUTRIGGER_PERSISTENT_ENTRY(name, count, ...) OUTRIGGER_ENTRY(name, count, __VA_ARGS__)
#endif

#define OUTRIGGER_WORDS_0
#define OUTRIGGER_WORDS_1 Word w1
#define OUTRIGGER_WORDS_2 OUTRIGGER_WORDS_1, Word w2
#define OUTRIGGER_WORDS_3 OUTRIGGER_WORDS_2, Word w3
#define OUTRIGGER_WORDS_4 OUTRIGGER_WORDS_3, Word w4
#define OUTRIGGER_WORDS_5 OUTRIGGER_WORDS_4, Word w5
#define OUTRIGGER_WORDS_6 OUTRIGGER_WORDS_5, Word w6
#define OUTRIGGER_WORDS_7 OUTRIGGER_WORDS_6, Word w7
#define OUTRIGGER_WORDS_8 OUTRIGGER_WORDS_7, Word w8
#define OUTRIGGER_WORDS_9 OUTRIGGER_WORDS_8, Word w9
#define OUTRIGGER_WORDS_10 OUTRIGGER_WORDS_9, Word w10
#define OUTRIGGER_WORDS_11 OUTRIGGER_WORDS_10, Word w11
#define OUTRIGGER_WORDS_12 OUTRIGGER_WORDS_11, Word w12
#define OUTRIGGER_WORDS_13 OUTRIGGER_WORDS_12, Word w13
#define OUTRIGGER_NAMES_0
#define OUTRIGGER_NAMES_1 , w1
#define OUTRIGGER_NAMES_2 OUTRIGGER_NAMES_1, w2
#define OUTRIGGER_NAMES_3 OUTRIGGER_NAMES_2, w3
#define OUTRIGGER_NAMES_4 OUTRIGGER_NAMES_3, w4
#define OUTRIGGER_NAMES_5 OUTRIGGER_NAMES_4, w5
#define OUTRIGGER_NAMES_6 OUTRIGGER_NAMES_5, w6
#define OUTRIGGER_NAMES_7 OUTRIGGER_NAMES_6, w7
#define OUTRIGGER_NAMES_8 OUTRIGGER_NAMES_7, w8
#define OUTRIGGER_NAMES_9 OUTRIGGER_NAMES_8, w9
#define OUTRIGGER_NAMES_10 OUTRIGGER_NAMES_9, w10
#define OUTRIGGER_NAMES_11 OUTRIGGER_NAMES_10, w11
#define OUTRIGGER_NAMES_12 OUTRIGGER_NAMES_11, w12
#define OUTRIGGER_NAMES_13 OUTRIGGER_NAMES_12, w13
