// The collectives that are never offloaded: passed on, and counted for the report.
#include "mpi/report/counted.hpp"

namespace outrigger::mpi {
namespace {

template <CollectiveCall collective, CallForm form, Counts counts = Counts::int_sized>
using OnlyCounted = Counted<collective, form, counts, PassedOn>;

}  // namespace

// The number of arguments is a macro's result: pasted only after it is known.
#define OUTRIGGER_COUNTED_ENTRY(name, arguments, ...) OUTRIGGER_ENTRY(name, arguments, __VA_ARGS__)

#define OUTRIGGER_BLOCKING(unused, name, lower, words_b, words_n, words_p) \
  OUTRIGGER_COUNTED_ENTRY(name, words_b, OnlyCounted<CollectiveCall::lower, CallForm::blocking>)
#define OUTRIGGER_NONBLOCKING(unused, name, lower, words_b, words_n, words_p) \
  OUTRIGGER_COUNTED_ENTRY(I##lower, words_n, OnlyCounted<CollectiveCall::lower, CallForm::nonblocking>)
#define OUTRIGGER_COUNTED_PERSISTENT_ENTRY(name, arguments, ...) \
  OUTRIGGER_PERSISTENT_ENTRY(name, arguments, __VA_ARGS__)
#define OUTRIGGER_COUNTED_PERSISTENT(unused, name, lower, words_b, words_n, words_p) \
  OUTRIGGER_COUNTED_PERSISTENT_ENTRY(name##_init, words_p, OnlyCounted<CollectiveCall::lower, CallForm::persistent>)
#define OUTRIGGER_BLOCKING_C(unused, name, lower, words_b, words_n, words_p) \
  OUTRIGGER_COUNTED_ENTRY(name##_c, words_b, OnlyCounted<CollectiveCall::lower, CallForm::blocking, Counts::large>)
#define OUTRIGGER_NONBLOCKING_C(unused, name, lower, words_b, words_n, words_p) \
  OUTRIGGER_COUNTED_ENTRY(I##lower##_c, words_n,                                \
                          OnlyCounted<CollectiveCall::lower, CallForm::nonblocking, Counts::large>)
#define OUTRIGGER_PERSISTENT_C(unused, name, lower, words_b, words_n, words_p) \
  OUTRIGGER_COUNTED_ENTRY(name##_init_c, words_p,                              \
                          OnlyCounted<CollectiveCall::lower, CallForm::persistent, Counts::large>)

OUTRIGGER_OTHER_CALLS(OUTRIGGER_BLOCKING, )
OUTRIGGER_OTHER_CALLS(OUTRIGGER_NONBLOCKING, )
OUTRIGGER_OTHER_CALLS(OUTRIGGER_COUNTED_PERSISTENT, )
#if OUTRIGGER_MPI4
OUTRIGGER_OTHER_CALLS(OUTRIGGER_BLOCKING_C, )
OUTRIGGER_OTHER_CALLS(OUTRIGGER_NONBLOCKING_C, )
OUTRIGGER_OTHER_CALLS(OUTRIGGER_PERSISTENT_C, )
#endif

}  // namespace outrigger::mpi
