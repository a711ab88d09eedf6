/* liboutrigger: what a program links for outrigger/outrigger.h. Each function looks once for the one of the preload
 * library, which has the same name behind outrigger_preload_, and answers itself where there is none. */
#include <dlfcn.h>
#include <outrigger/outrigger.h>
#include <stdatomic.h>

/* The function, or NULL. A preload library is in the process from its start or never. */
typedef void (*function)(void);

static const char not_there = 0;

static function find(_Atomic(void*)* found, const char* name) {
  void* address = atomic_load_explicit(found, memory_order_acquire);
  if (address == NULL) {
    address = dlsym(RTLD_DEFAULT, name);
    if (address == NULL) address = (void*)&not_there;
    atomic_store_explicit(found, address, memory_order_release);
  }
  if (address == (void*)&not_there) return NULL;
  /* ISO C has no conversion from an object's address to a function's; POSIX has them alike. */
  union {
    void* object;
    function code;
  } alike = {address};
  return alike.code;
}

/* The body of outrigger_<name>(arguments): the preload library's answer, or `otherwise`. */
#define PASS_ON(name, type, parameters, arguments, otherwise)        \
  do {                                                               \
    static _Atomic(void*) found;                                     \
    const function known = find(&found, "outrigger_preload_" #name); \
    if (known == NULL) return otherwise;                             \
    return ((type(*) parameters)known)arguments;                     \
  } while (0)

const char* outrigger_result_text(int result) {
  switch (result) {
    case OUTRIGGER_OK: return "done";
    case OUTRIGGER_NOT_ACTIVE: return "nothing is offloaded here";
    case OUTRIGGER_BAD_ARGUMENT: return "a null pointer, an unknown name or an index that is too large";
    case OUTRIGGER_NOT_COUNTED: return "counting has not begun, or this communicator is not counted by itself";
    case OUTRIGGER_DISAGREED: return "ranks asked for different things, or at different places of the program";
    case OUTRIGGER_LIMIT: return "too many phases inside each other, or more ends than beginnings";
    case OUTRIGGER_MPI_FAILED: return "a call of the MPI failed";
    default: return "not a result of outrigger.h";
  }
}

const char* outrigger_version(void) {
  PASS_ON(version, const char*, (void), (), "");
}

int outrigger_is_active(void) {
  PASS_ON(is_active, int, (void), (), 0);
}

const char* outrigger_inactive_reason(void) {
  PASS_ON(inactive_reason, const char*, (void), (), "the preload library is not loaded");
}

int outrigger_counter_count(void) {
  PASS_ON(counter_count, int, (void), (), 0);
}

int outrigger_counter_info(int index, struct outrigger_counter* counter) {
  PASS_ON(counter_info, int, (int, struct outrigger_counter*), (index, counter), OUTRIGGER_NOT_ACTIVE);
}

int outrigger_counter_index(const char* name, int* index) {
  PASS_ON(counter_index, int, (const char*, int*), (name, index), OUTRIGGER_NOT_ACTIVE);
}

int outrigger_counting_start(void) {
  PASS_ON(counting_start, int, (void), (), OUTRIGGER_NOT_ACTIVE);
}

int outrigger_counter_read(int index, uint64_t* value) {
  PASS_ON(counter_read, int, (int, uint64_t*), (index, value), OUTRIGGER_NOT_ACTIVE);
}

int outrigger_counter_read_comm_f(int comm, const char* call, int index, uint64_t* value) {
  PASS_ON(counter_read_comm_f, int, (int, const char*, int, uint64_t*), (comm, call, index, value),
          OUTRIGGER_NOT_ACTIVE);
}

int outrigger_phase_push(const char* name) {
  PASS_ON(phase_push, int, (const char*), (name), OUTRIGGER_NOT_ACTIVE);
}

int outrigger_phase_pop(void) {
  PASS_ON(phase_pop, int, (void), (), OUTRIGGER_NOT_ACTIVE);
}

int outrigger_switch(int on, int* was_on) {
  PASS_ON(switch, int, (int, int*), (on, was_on), OUTRIGGER_NOT_ACTIVE);
}

int outrigger_comm_switch_f(int comm, int on, int* was_on) {
  PASS_ON(comm_switch_f, int, (int, int, int*), (comm, on, was_on), OUTRIGGER_NOT_ACTIVE);
}
