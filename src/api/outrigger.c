/* liboutrigger: what a program links for outrigger/outrigger.h. Each function looks once for the one of the preload
 * library, which has the same name behind outrigger_preload_, and answers itself where there is none. */
#include <dlfcn.h>
#include <outrigger/outrigger.h>
#include <stdatomic.h>

/* The function, or NULL. A preload library is in the process from its start or never. */
typedef void (*function)(void);

/* Where a function was found, once it has been looked for. */
typedef _Atomic(void*) place;

static const char not_there = 0;

static function find(place* found, const char* name) {
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

const char* outrigger_result_text(int result) {
  switch (result) {
    case OUTRIGGER_OK: return "done";
    case OUTRIGGER_NOT_ACTIVE: return "nothing is offloaded here";
    case OUTRIGGER_BAD_ARGUMENT: return "a null pointer, an unknown name or an index out of range";
    case OUTRIGGER_NOT_COUNTED: return "counting has not begun, or this communicator is not counted by itself";
    case OUTRIGGER_DISAGREED: return "ranks made different requests, or at different places of the program";
    case OUTRIGGER_LIMIT: return "phases are nested too deeply, or more ended than began";
    case OUTRIGGER_MPI_FAILED: return "a call of the MPI failed";
    default: return "not a result of outrigger.h";
  }
}

const char* outrigger_version(void) {
  static place found;
  const char* (*const known)(void) = (const char* (*)(void))find(&found, "outrigger_preload_version");
  return known == NULL ? "" : known();
}

int outrigger_is_active(void) {
  static place found;
  int (*const known)(void) = (int (*)(void))find(&found, "outrigger_preload_is_active");
  return known == NULL ? 0 : known();
}

const char* outrigger_inactive_reason(void) {
  static place found;
  const char* (*const known)(void) = (const char* (*)(void))find(&found, "outrigger_preload_inactive_reason");
  return known == NULL ? "the preload library is not loaded" : known();
}

int outrigger_counter_count(void) {
  static place found;
  int (*const known)(void) = (int (*)(void))find(&found, "outrigger_preload_counter_count");
  return known == NULL ? 0 : known();
}

int outrigger_counter_info(int index, struct outrigger_counter* counter) {
  static place found;
  int (*const known)(int, struct outrigger_counter*) =
      (int (*)(int, struct outrigger_counter*))find(&found, "outrigger_preload_counter_info");
  return known == NULL ? OUTRIGGER_NOT_ACTIVE : known(index, counter);
}

int outrigger_counter_index(const char* name, int* index) {
  static place found;
  int (*const known)(const char*, int*) = (int (*)(const char*, int*))find(&found, "outrigger_preload_counter_index");
  return known == NULL ? OUTRIGGER_NOT_ACTIVE : known(name, index);
}

int outrigger_counting_start(void) {
  static place found;
  int (*const known)(void) = (int (*)(void))find(&found, "outrigger_preload_counting_start");
  return known == NULL ? OUTRIGGER_NOT_ACTIVE : known();
}

int outrigger_counter_read(int index, uint64_t* value) {
  static place found;
  int (*const known)(int, uint64_t*) = (int (*)(int, uint64_t*))find(&found, "outrigger_preload_counter_read");
  return known == NULL ? OUTRIGGER_NOT_ACTIVE : known(index, value);
}

int outrigger_counter_read_comm_f(int comm, const char* call, int index, uint64_t* value) {
  static place found;
  int (*const known)(int, const char*, int, uint64_t*) =
      (int (*)(int, const char*, int, uint64_t*))find(&found, "outrigger_preload_counter_read_comm_f");
  return known == NULL ? OUTRIGGER_NOT_ACTIVE : known(comm, call, index, value);
}

int outrigger_phase_push(const char* name) {
  static place found;
  int (*const known)(const char*) = (int (*)(const char*))find(&found, "outrigger_preload_phase_push");
  return known == NULL ? OUTRIGGER_NOT_ACTIVE : known(name);
}

int outrigger_phase_pop(void) {
  static place found;
  int (*const known)(void) = (int (*)(void))find(&found, "outrigger_preload_phase_pop");
  return known == NULL ? OUTRIGGER_NOT_ACTIVE : known();
}

int outrigger_switch(int on, int* was_on) {
  static place found;
  int (*const known)(int, int*) = (int (*)(int, int*))find(&found, "outrigger_preload_switch");
  return known == NULL ? OUTRIGGER_NOT_ACTIVE : known(on, was_on);
}

int outrigger_comm_switch_f(int comm, int on, int* was_on) {
  static place found;
  int (*const known)(int, int, int*) = (int (*)(int, int, int*))find(&found, "outrigger_preload_comm_switch_f");
  return known == NULL ? OUTRIGGER_NOT_ACTIVE : known(comm, on, was_on);
}
