/* Outrigger's API for programs: its state, its counters, named phases, and a switch.
 *
 * A program with these calls also runs without Outrigger. liboutrigger (-loutrigger, shared or static) looks for the
 * preload library in its own process. If there is none, functions return OUTRIGGER_NOT_ACTIVE, and the program's MPI
 * does everything.
 *
 * Units      times are nanoseconds, sizes bytes; outrigger_counter_info() returns a counter's unit.
 * Ownership  returned texts are constant and stay until the process ends. Arguments are not kept.
 * Threads    any thread, at any time, unless a function's comment says otherwise.
 * Completion functions are complete when they return. Collective functions wait for the other ranks.
 * Errors     an enum outrigger_result, with a text by outrigger_result_text(). On an error nothing is changed.
 *
 * Communicators are passed as the Fortran handles of MPI_Comm_c2f, so that one library serves all MPIs. In C with
 * <mpi.h> included before this header, outrigger_comm_switch() and outrigger_counter_read_comm() take an MPI_Comm.
 *
 * See docs/using/api.md, also for Fortran (outrigger.f90) and Python (outrigger.api).
 */
#ifndef OUTRIGGER_OUTRIGGER_H
#define OUTRIGGER_OUTRIGGER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Increased with each change that affects programs. */
#define OUTRIGGER_API_VERSION 1

enum outrigger_result {
  OUTRIGGER_OK = 0,
  OUTRIGGER_NOT_ACTIVE = 1,   /* nothing is offloaded: see outrigger_inactive_reason() */
  OUTRIGGER_BAD_ARGUMENT = 2, /* a null pointer, an unknown name, an index that is too large */
  OUTRIGGER_NOT_COUNTED = 3,  /* counting has not begun, or this communicator is not counted by itself */
  OUTRIGGER_DISAGREED = 4,    /* ranks made different requests, or at different places of the program */
  OUTRIGGER_LIMIT = 5,        /* phases are nested too deeply, or more ended than began */
  OUTRIGGER_MPI_FAILED = 6    /* the MPI's own call failed */
};

/* A short text for a result, without a full stop. Never NULL. */
const char* outrigger_result_text(int result);

/* State */

/* The version of the preload library in this process; "" if there is none. */
const char* outrigger_version(void);

/* 1 from the end of MPI_Init to MPI_Finalize if service processes serve this job: the same on all ranks. Else 0. */
int outrigger_is_active(void);

/* The reason if outrigger_is_active() is 0: "the preload library is not loaded", "MPI_Init has not been called",
 * "OUTRIGGER_ENABLE is off", ... "" if it is 1. */
const char* outrigger_inactive_reason(void);

/* Counters */

/* Counters of this process's collectives: calls, offloaded or native by reason, bytes, times. Performance variables of
 * MPI_T have the same names. */
struct outrigger_counter {
  const char* name;        /* "outrigger_offloaded" */
  const char* unit;        /* "calls", "bytes", "nanoseconds", ... */
  const char* description; /* a sentence */
};

/* Number of counters, with indexes from 0. 0 if the preload library is not loaded. Constant for one version of it. */
int outrigger_counter_count(void);

/* Fills in *counter. OUTRIGGER_BAD_ARGUMENT: the index is invalid. */
int outrigger_counter_info(int index, struct outrigger_counter* counter);

/* Sets *index to the index of a name. OUTRIGGER_BAD_ARGUMENT: the name is unknown. */
int outrigger_counter_index(const char* name, int* index);

/* Counts this process's collectives from now on, or from MPI_Init on. They are not counted before, as that takes time,
 * unless OUTRIGGER_REPORT is set. Also works in jobs that run natively. OUTRIGGER_NOT_ACTIVE: the library is not
 * loaded, is for another MPI, or MPI has ended. */
int outrigger_counting_start(void);

/* Sets *value to the sum over all calls of this process since counting began; it never decreases. A call is included
 * once it has returned. Also works after MPI_Finalize. OUTRIGGER_NOT_COUNTED: counting has not begun. */
int outrigger_counter_read(int index, uint64_t* value);

/* The same for one communicator and, if `call` is not NULL, one MPI function, like "MPI_Ialltoall". Between MPI_Init
 * and MPI_Finalize. OUTRIGGER_NOT_COUNTED: counting has not begun, or the communicator is counted together with others.
 * That holds for communicators of one rank and for those after the first 1,024. In a native job it also holds for
 * communicators of the same name and size. */
int outrigger_counter_read_comm_f(int comm, const char* call, int index, uint64_t* value);

/* Phases */

/* Begins and ends a named phase of this thread. Phases nest, up to 32 levels. The report has the time in each phase,
 * and counts collectives in the innermost one; a trace has all phases. A process has up to 256 names; further ones are
 * counted together. Both calls cost nearly nothing while nothing is counted or traced. OUTRIGGER_LIMIT: the phase was
 * not begun, or there is none to end. */
int outrigger_phase_push(const char* name);
int outrigger_phase_pop(void);

/* The switch */

/* Switches offloading on (1) or off (0) from now on, on all communicators, including later ones. Initially it is on:
 * settings and measurements decide for each call. *was_on, unless NULL: gets the former value, to be restored.
 *
 * Collective over MPI_COMM_WORLD, and blocking. All ranks must call it at the same place: on each communicator all
 * members have called the same collectives before. This is checked. If it fails, or ranks pass different values,
 * nothing is changed and all ranks get OUTRIGGER_DISAGREED. Outstanding operations complete as they were begun.
 * Persistent collectives keep their state from initialization. No other thread of the rank may call a collective
 * meanwhile. */
int outrigger_switch(int on, int* was_on);

/* The same for one communicator, and collective over it alone. Its duplicates inherit the value. While
 * outrigger_switch() is off, nothing is offloaded on it either. OUTRIGGER_NOT_ACTIVE, on all its ranks: it is never
 * offloaded, for example an intercommunicator. */
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
