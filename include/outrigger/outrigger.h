/* Outrigger from inside a program: what it does, what it has counted, phases by name, and a switch.
 *
 * A program that uses this needs no Outrigger to run: liboutrigger (-loutrigger, shared or static) looks for the
 * preload library in its own process, and where there is none every function says so: results are OUTRIGGER_NOT_ACTIVE,
 * and the program's MPI does everything. Nothing here needs to be undone for that case.
 *
 * Units      times are nanoseconds, sizes bytes; outrigger_counter_info() says which of a counter.
 * Ownership  texts that are returned are constant and stay until the process ends. Arguments are not kept.
 * Threads    any thread, at any time, unless a function says otherwise.
 * Completion what a function does is done when it returns. Functions that are collective wait for the other ranks.
 * Errors     an enum outrigger_result; outrigger_result_text() has words for each. Nothing is changed then.
 *
 * Communicators are handed over as the Fortran handles that MPI_Comm_c2f gives, so that one library serves all MPIs.
 * For C with <mpi.h> included before this header, outrigger_comm_switch() and its like take an MPI_Comm.
 *
 * docs/using/api.md has more, with Fortran (outrigger.f90) and Python (outrigger.api).
 */
#ifndef OUTRIGGER_OUTRIGGER_H
#define OUTRIGGER_OUTRIGGER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when something here changes for programs that use it. */
#define OUTRIGGER_API_VERSION 1

enum outrigger_result {
  OUTRIGGER_OK = 0,
  OUTRIGGER_NOT_ACTIVE = 1,   /* nothing is offloaded here: outrigger_inactive_reason() says why */
  OUTRIGGER_BAD_ARGUMENT = 2, /* a null pointer, an unknown name, an index that is too large */
  OUTRIGGER_NOT_COUNTED = 3,  /* counting has not begun, or this communicator is not counted by itself */
  OUTRIGGER_DISAGREED = 4,    /* ranks made different requests, or at different places of the program */
  OUTRIGGER_LIMIT = 5,        /* phases are nested too deeply, or more ended than began */
  OUTRIGGER_MPI_FAILED = 6    /* the MPI's own call failed */
};

/* A few words for a result, without a full stop. Never NULL. */
const char* outrigger_result_text(int result);

/* Is it there? */

/* The version of the preload library in this process; "" where there is none. */
const char* outrigger_version(void);

/* 1 from the end of MPI_Init to MPI_Finalize where service processes serve this job: the same on all ranks. Else 0. */
int outrigger_is_active(void);

/* Why outrigger_is_active() is 0: "the preload library is not loaded", "MPI_Init has not been called",
 * "OUTRIGGER_ENABLE is off", ... "" where it is 1. */
const char* outrigger_inactive_reason(void);

/* Counters */

/* What the collectives of this process have come to: calls, offloaded or native by reason, bytes, times. The same names
 * are performance variables of MPI_T. */
struct outrigger_counter {
  const char* name;        /* "outrigger_offloaded" */
  const char* unit;        /* "calls", "bytes", "nanoseconds", ... */
  const char* description; /* a sentence */
};

/* How many there are, numbered from 0. 0 where the preload library is not loaded. The same for one version of it. */
int outrigger_counter_count(void);

/* Fills in *counter. OUTRIGGER_BAD_ARGUMENT: there is none with this index. */
int outrigger_counter_info(int index, struct outrigger_counter* counter);

/* The index for a name, in *index. OUTRIGGER_BAD_ARGUMENT: there is none. */
int outrigger_counter_index(const char* name, int* index);

/* Collectives are counted from now on, or, before MPI_Init, from there on; until then they are not, as that takes time.
 * Of this process alone; where OUTRIGGER_REPORT is set they are counted anyway. Also of jobs that run natively.
 * OUTRIGGER_NOT_ACTIVE: the library is not loaded, is for another MPI, or MPI has ended. */
int outrigger_counting_start(void);

/* The sum over everything that this process has called since counting began, in *value; never gets smaller. What a call
 * adds can be read once it has returned. Also after MPI_Finalize. OUTRIGGER_NOT_COUNTED: counting has not begun. */
int outrigger_counter_read(int index, uint64_t* value);

/* The same of one communicator, and, where `call` is not NULL, of one MPI function, like "MPI_Ialltoall". Between
 * MPI_Init and MPI_Finalize. OUTRIGGER_NOT_COUNTED: counting has not begun, or communicators are counted together:
 * those of one rank, and what comes after the first 1,024. In a job that runs natively, those of the same name and size
 * are. */
int outrigger_counter_read_comm_f(int comm, const char* call, int index, uint64_t* value);

/* Phases */

/* From push to pop this thread is in a phase of that name; phases lie inside each other, 32 at most. The report has the
 * time in each phase and the collectives called in it, of the innermost one alone; a trace has each phase. 256 names in
 * a process; further ones are counted together. While nothing is counted or traced both cost next to nothing.
 * OUTRIGGER_LIMIT: nothing was begun, or there is nothing to end. */
int outrigger_phase_push(const char* name);
int outrigger_phase_pop(void);

/* The switch */

/* Collectives are offloaded (on: 1) or left to the MPI (on: 0) from now on, on all communicators, also later ones. At
 * first they are offloaded, as far as settings and measuring say. *was_on, unless NULL: what it was before, to be
 * restored.
 *
 * Collective over MPI_COMM_WORLD, and blocking. All ranks call it at the same place: where on each communicator each of
 * them has called the same collectives. That is checked: where it is not so, or ranks ask for different things, nothing
 * is changed and all ranks get OUTRIGGER_DISAGREED. What is outstanding completes as it was begun. Persistent
 * collectives stay as they were when they were initialized. No other thread of the rank may call a collective
 * meanwhile. */
int outrigger_switch(int on, int* was_on);

/* The same for one communicator, and collective over it alone. Its duplicates inherit it. Where outrigger_switch() is
 * off, nothing is offloaded on it either. OUTRIGGER_NOT_ACTIVE, on all its ranks: it never is, as an intercommunicator.
 */
int outrigger_comm_switch_f(int comm, int on, int* was_on);

#ifdef __cplusplus
}
#endif

#ifdef MPI_VERSION
#ifdef MPI_ABI_VERSION
#define OUTRIGGER_COMM_HANDLE(comm) MPI_Comm_toint(comm)
#else
#define OUTRIGGER_COMM_HANDLE(comm) ((int)MPI_Comm_c2f(comm))
#endif

static inline int outrigger_counter_read_comm(MPI_Comm comm, const char* call, int index, uint64_t* value) {
  return outrigger_counter_read_comm_f(OUTRIGGER_COMM_HANDLE(comm), call, index, value);
}
static inline int outrigger_comm_switch(MPI_Comm comm, int on, int* was_on) {
  return outrigger_comm_switch_f(OUTRIGGER_COMM_HANDLE(comm), on, was_on);
}
#endif

#endif
