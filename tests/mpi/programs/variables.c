/* A tool's view of MPI_T: lists every performance variable, control variable and category with its index, one a line,
 * and uses the MPI's own ones and Outrigger's.
 *
 *     variables native   on plain MPI
 *     variables ours     with Outrigger's, which follow those
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kText = 1024, kValue = 1 << 16, kBlock = 5000, kMostRanks = 16, kMembers = 4096 };

static int me, ranks, outrigger;
static int sent[kBlock * kMostRanks], received[kBlock * kMostRanks];

#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "variables: rank %d, line %d: not so: %s\n", me, __LINE__, #condition); \
      exit(3);                                                                                \
    }                                                                                         \
  } while (0)
#define DONE(call) CHECK((call) == MPI_SUCCESS)

static void exchange(void) {
  MPI_Request request;
  MPI_Ialltoall(sent, kBlock, MPI_INT, received, kBlock, MPI_INT, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* The description of a variable by the MPI or Outrigger. MPIs write to every output, even optional ones. */
struct variable {
  char name[kText], text[kText];
  int name_length, text_length, verbosity, kind, bind, scope, readonly, continuous, atomic;
  MPI_Datatype type;
  MPI_T_enum enumeration;
};

/* 0: the MPI has no description, for example of a variable of a dropped component. */
static int get_pvar(int index, struct variable* found) {
  found->name_length = found->text_length = kText;
  return MPI_T_pvar_get_info(index, found->name, &found->name_length, &found->verbosity, &found->kind, &found->type,
                             &found->enumeration, found->text, &found->text_length, &found->bind, &found->readonly,
                             &found->continuous, &found->atomic) == MPI_SUCCESS;
}

static int get_cvar(int index, struct variable* found) {
  found->name_length = found->text_length = kText;
  return MPI_T_cvar_get_info(index, found->name, &found->name_length, &found->verbosity, &found->type,
                             &found->enumeration, found->text, &found->text_length, &found->bind,
                             &found->scope) == MPI_SUCCESS;
}

static int is_ours(const char* name) {
  return strncmp(name, "outrigger", 9) == 0 || strncmp(name, "OUTRIGGER", 9) == 0;
}

static void list_pvars(int print) {
  struct variable found;
  int count, place;
  DONE(MPI_T_pvar_get_num(&count));
  for (int i = 0; i < count; ++i) {
    if (!get_pvar(i, &found)) continue;
    if (print) printf("pvar %d %s\n", i, found.name);
    const int known = MPI_T_pvar_get_index(found.name, found.kind, &place) == MPI_SUCCESS;
    CHECK(!known || (place >= 0 && place < count));
    if (!is_ours(found.name)) continue;
    CHECK(known && place == i);
    CHECK(strlen(found.name) + 1 == (size_t)found.name_length && strlen(found.text) + 1 == (size_t)found.text_length);
  }
  if (outrigger) CHECK(!get_pvar(count, &found)); /* MPICH 4.0 has none and reads the first one's text */
}

static void list_cvars(int print) {
  struct variable found;
  int count, place;
  DONE(MPI_T_cvar_get_num(&count));
  for (int i = 0; i < count; ++i) {
    if (!get_cvar(i, &found)) continue;
    if (print) printf("cvar %d %s\n", i, found.name);
    const int known = MPI_T_cvar_get_index(found.name, &place) == MPI_SUCCESS;
    CHECK(!known || (place >= 0 && place < count));
    if (is_ours(found.name)) CHECK(known && place == i);
  }
  if (outrigger) CHECK(!get_cvar(count, &found));
}

static void list_category(int index, int print) {
  static int members[kMembers];
  struct variable of;
  char name[kText], text[kText];
  int name_length = kText, text_length = kText, cvars, pvars, categories, count;
  if (MPI_T_category_get_info(index, name, &name_length, text, &text_length, &cvars, &pvars, &categories) !=
      MPI_SUCCESS) {
    return;
  }
  CHECK(cvars <= kMembers && pvars <= kMembers && categories <= kMembers);
  if (print) printf("category %d %s\n", index, name);
  DONE(MPI_T_category_get_cvars(index, cvars, members));
  DONE(MPI_T_cvar_get_num(&count));
  for (int k = 0; k < cvars; ++k) {
    CHECK(members[k] >= 0 && members[k] < count);
    if (get_cvar(members[k], &of) && print) printf("of %s: cvar %s\n", name, of.name);
    if (strcmp(name, "outrigger") == 0) CHECK(is_ours(of.name));
  }
  DONE(MPI_T_category_get_pvars(index, pvars, members));
  DONE(MPI_T_pvar_get_num(&count));
  for (int k = 0; k < pvars; ++k) {
    CHECK(members[k] >= 0 && members[k] < count);
    if (get_pvar(members[k], &of) && print) printf("of %s: pvar %s\n", name, of.name);
    if (strcmp(name, "outrigger") == 0) CHECK(is_ours(of.name));
  }
  DONE(MPI_T_category_get_categories(index, categories, members));
  DONE(MPI_T_category_get_num(&count));
  for (int k = 0; k < categories; ++k) CHECK(members[k] >= 0 && members[k] < count);
}

static void list_categories(int print) {
  int count;
  DONE(MPI_T_category_get_num(&count));
  for (int i = 0; i < count; ++i) list_category(i, print);
}

/* A variable of the MPI's own works as before, if there is one that needs no object. */
static void use_native(MPI_T_pvar_session session) {
  static char value[kValue];
  int count;
  DONE(MPI_T_pvar_get_num(&count));
  for (int i = 0; i < count; ++i) {
    struct variable found;
    MPI_T_pvar_handle handle;
    int elements;
    if (!get_pvar(i, &found) || found.bind != MPI_T_BIND_NO_OBJECT || is_ours(found.name)) continue;
    if (MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &elements) != MPI_SUCCESS) continue;
    if (elements <= kValue / 16) DONE(MPI_T_pvar_read(session, handle, value));
    DONE(MPI_T_pvar_handle_free(session, &handle));
    if (me == 0) printf("used %s\n", found.name);
    return;
  }
}

static MPI_T_pvar_handle take(MPI_T_pvar_session session, const char* name, int kind, void* object) {
  int index, count = 0;
  MPI_T_pvar_handle handle;
  DONE(MPI_T_pvar_get_index(name, kind, &index));
  DONE(MPI_T_pvar_handle_alloc(session, index, object, &handle, &count));
  CHECK(count == 1);
  return handle;
}

static unsigned long long read_of(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  unsigned long long value = ~0ULL;
  DONE(MPI_T_pvar_read(session, handle, &value));
  return value;
}

static void use_ours(MPI_T_pvar_session session) {
  MPI_T_pvar_session another;
  MPI_Comm world = MPI_COMM_WORLD;
  MPI_T_pvar_handle all = take(session, "outrigger_offloaded", MPI_T_PVAR_CLASS_COUNTER, NULL);
  MPI_T_pvar_handle later = take(session, "outrigger_offloaded", MPI_T_PVAR_CLASS_COUNTER, NULL);
  MPI_T_pvar_handle here = take(session, "outrigger_comm_bytes", MPI_T_PVAR_CLASS_COUNTER, &world);
  MPI_T_pvar_handle time = take(session, "outrigger_exposed_time", MPI_T_PVAR_CLASS_TIMER, NULL);
  double seconds = -1;
  unsigned long long written = 100, before = 0;
  exchange();
  CHECK(read_of(session, all) == 0); /* it has not been started */
#ifdef MPI_ABI_VERSION               /* MPICH 5.0 dereferences the standard ABI's value for all handles, and crashes */
  DONE(MPI_T_pvar_start(session, all));
  DONE(MPI_T_pvar_start(session, here));
  DONE(MPI_T_pvar_start(session, time));
#else
  DONE(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
  DONE(MPI_T_pvar_stop(session, later));
#endif
  exchange();
  DONE(MPI_T_pvar_start(session, later));
  exchange();
  CHECK(read_of(session, all) == 2 && read_of(session, later) == 1);
  CHECK(read_of(session, here) == 2 * sizeof(int) * kBlock * (unsigned long long)ranks);
  DONE(MPI_T_pvar_read(session, time, &seconds));
  CHECK(seconds > 0 && seconds < 1000);
  DONE(MPI_T_pvar_stop(session, all));
  exchange();
  CHECK(read_of(session, all) == 2 && read_of(session, later) == 2);
  DONE(MPI_T_pvar_readreset(session, later, &before));
  CHECK(before == 2 && read_of(session, later) == 0);
  DONE(MPI_T_pvar_write(session, all, &written));
  CHECK(read_of(session, all) == 100);
  DONE(MPI_T_pvar_reset(session, all));
  CHECK(read_of(session, all) == 0);
  DONE(MPI_T_pvar_session_create(&another));
  CHECK(MPI_T_pvar_start(another, all) != MPI_SUCCESS); /* of another session */
  DONE(MPI_T_pvar_session_free(&another));
  MPI_T_pvar_handle gone = later;
  DONE(MPI_T_pvar_handle_free(session, &later));
  CHECK(later == MPI_T_PVAR_HANDLE_NULL && MPI_T_pvar_start(session, gone) != MPI_SUCCESS);
}

static void use_settings(int before_init) {
  char text[8192] = "untouched";
  int index, count;
  MPI_T_cvar_handle handle;
  DONE(MPI_T_cvar_get_index("OUTRIGGER_ALGORITHM", &index));
  DONE(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
  CHECK(count <= (int)sizeof text);
  DONE(MPI_T_cvar_read(handle, text));
  if (before_init) {
    DONE(MPI_T_cvar_write(handle, "all=on"));
  } else {
    CHECK(strcmp(text, "all=on") == 0 && MPI_T_cvar_write(handle, "all=native") != MPI_SUCCESS);
  }
  DONE(MPI_T_cvar_handle_free(&handle));
  CHECK(handle == MPI_T_CVAR_HANDLE_NULL);
  CHECK(MPI_T_cvar_get_index("OUTRIGGER_DPUS", &index) != MPI_SUCCESS); /* it holds a secret */
}

int main(int argc, char** argv) {
  outrigger = argc > 1 && strcmp(argv[1], "ours") == 0;
  int provided, count;
  MPI_T_pvar_session session;
  CHECK(MPI_T_pvar_get_num(&count) != MPI_SUCCESS); /* not initialized */
  DONE(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
  list_pvars(0);
  list_cvars(0);
  list_categories(0);
  if (outrigger) use_settings(1);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(ranks <= kMostRanks);
  list_pvars(me == 0);
  list_cvars(me == 0);
  list_categories(me == 0);
  DONE(MPI_T_pvar_session_create(&session));
  use_native(session);
  if (outrigger) {
    use_settings(0);
    use_ours(session);
  }
  DONE(MPI_T_pvar_session_free(&session));
  DONE(MPI_T_finalize()); /* Open MPI 4.1 crashes if this follows MPI_Finalize */
  MPI_Finalize();
  return 0;
}
