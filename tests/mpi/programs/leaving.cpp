// The program's callbacks leave MPI calls by an exception, by longjmp, by the end of their thread, or by its
// cancellation. Each line tells if the program continues correctly; afterwards collectives must give correct results.
//
//     leaving throw|jump|exit|cancel [callback...]
//     leaving pending     a thread that has been cancelled posts and allocates before its next cancellation point
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

enum class Way { exception, jump, thread_exit, cancel };

constexpr const char* kReason = "left by the program";

Way way = Way::exception;
std::jmp_buf outside;
bool unwound = false;  // an object of the callback has been destroyed
int rank = 0;
int size = 0;

struct Witness {
  Witness() { unwound = false; }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  ~Witness() { unwound = true; }
};

void leave() {
  if (way == Way::jump) std::longjmp(outside, 1);
  const Witness witness;
  if (way == Way::exception) throw std::runtime_error(kReason);
  if (way == Way::thread_exit) pthread_exit(&outside);
  pthread_cancel(pthread_self());
  pthread_testcancel();
}

void on_error(MPI_Comm* /*comm*/, int* /*code*/, ...) {
  leave();
}
int on_copy(MPI_Comm /*comm*/, int /*keyval*/, void* /*extra*/, void* /*value*/, void* /*copy*/, int* flag) {
  *flag = 0;
  leave();
  return MPI_SUCCESS;
}
int on_delete(MPI_Comm /*comm*/, int /*keyval*/, void* /*value*/, void* armed) {
  if (*static_cast<bool*>(armed)) leave();
  return MPI_SUCCESS;
}
void on_reduction(void* /*in*/, void* /*both*/, int* /*count*/, MPI_Datatype* /*type*/) {
  leave();
}
int on_query(void* /*state*/, MPI_Status* status) {
  MPI_Status_set_elements(status, MPI_BYTE, 0);
  MPI_Status_set_cancelled(status, 0);
  leave();
  return MPI_SUCCESS;
}
int no_free(void* /*state*/) {
  return MPI_SUCCESS;
}
int no_cancel(void* /*state*/, int /*complete*/) {
  return MPI_SUCCESS;
}

// All errors on the communicator leave.
MPI_Comm errors_leave(MPI_Comm comm) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(&on_error, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  MPI_Errhandler_free(&handler);
  return comm;
}
MPI_Comm leaving_comm() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  return errors_leave(comm);
}

// A receive of this rank's own message, which is longer than the buffer.
MPI_Request truncated(MPI_Comm comm) {
  static std::array<int, 2> sent{1, 2};
  static int room = 0;
  MPI_Request receive = MPI_REQUEST_NULL;
  MPI_Irecv(&room, 1, MPI_INT, rank, 7, comm, &receive);
  MPI_Send(sent.data(), 2, MPI_INT, rank, 7, comm);
  return receive;
}

struct Collective {
  int mine = rank + 1;
  int sum = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  void post() { MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request); }
  [[nodiscard]] bool right() const { return sum == size * (size + 1) / 2; }
};

// Each makes one call that ends in a callback.
void in_blocking_collective() {
  int word = 0;
  MPI_Bcast(&word, 1, MPI_INT, size + 9, leaving_comm());
}
void in_nonblocking_collective() {
  int word = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(&word, 1, MPI_INT, size + 9, leaving_comm(), &request);
}
void in_wait() {
  MPI_Wait(nullptr, MPI_STATUS_IGNORE);
}
void in_test() {
  int done = 0;
  MPI_Test(nullptr, &done, MPI_STATUS_IGNORE);
}
void in_waitany() {
  int index = 0;
  MPI_Waitany(-1, nullptr, &index, MPI_STATUS_IGNORE);
}
void in_copy() {
  int keyval = MPI_KEYVAL_INVALID;
  static bool never = false;
  MPI_Comm_create_keyval(&on_copy, &on_delete, &keyval, &never);
  MPI_Comm from = MPI_COMM_NULL;
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_SELF, &from);
  MPI_Comm_set_attr(from, keyval, nullptr);
  MPI_Comm_dup(from, &made);
}
void in_delete() {
  int keyval = MPI_KEYVAL_INVALID;
  static bool always = true;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &on_delete, &keyval, &always);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_attr(comm, keyval, nullptr);
  MPI_Comm_delete_attr(comm, keyval);
}
void in_reduction() {
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(&on_reduction, 1, &op);
  MPI_Comm comm = leaving_comm();
  int mine = 1;
  int sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, op, comm);
}
void in_grequest() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Grequest_start(&on_query, &no_free, &no_cancel, nullptr, &request);
  MPI_Grequest_complete(request);
  MPI_Status status;
  MPI_Wait(&request, &status);
}
// With a collective of the program in the same call.
void in_waitall() {
  static Collective beside;
  beside = Collective{};
  beside.post();
  std::array<MPI_Request, 2> requests{beside.request, truncated(leaving_comm())};
  std::array<MPI_Status, 2> statuses{};
  MPI_Waitall(2, requests.data(), statuses.data());
}

Collective posted_late;

// The last rank sends more than rank 0 has room for, which only service processes detect.
struct Mismatch {
  static inline std::array<int, 2> words{1, 2};
  MPI_Request request = MPI_REQUEST_NULL;
  Mismatch() { MPI_Ibcast(words.data(), rank == 0 ? 1 : 2, MPI_INT, size - 1, leaving_comm(), &request); }
};
void in_wait_for_mismatch() {
  Mismatch mismatch;
  MPI_Wait(&mismatch.request, MPI_STATUS_IGNORE);
}
void in_waitany_for_mismatch() {
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, Mismatch().request};
  int index = 0;
  MPI_Waitany(2, requests.data(), &index, MPI_STATUS_IGNORE);
}
void in_test_for_mismatch() {
  Mismatch mismatch;
  for (int done = 0; done == 0;) MPI_Test(&mismatch.request, &done, MPI_STATUS_IGNORE);
}
void in_waitall_for_mismatch() {
  std::array<MPI_Request, 2> requests{Mismatch().request, Mismatch().request};
  std::array<MPI_Status, 2> statuses{};
  MPI_Waitall(2, requests.data(), statuses.data());
}

struct Row {
  std::string_view name;
  void (*run)();
  bool by_name_only = false;
};
constexpr std::array kRows = {Row{"bcast", &in_blocking_collective},
                              Row{"ibcast", &in_nonblocking_collective},
                              Row{"wait", &in_wait},
                              Row{"test", &in_test},
                              Row{"waitany", &in_waitany},
                              Row{"copy", &in_copy},
                              Row{"delete", &in_delete},
                              Row{"reduction", &in_reduction},
                              Row{"grequest", &in_grequest},
                              Row{"waitall", &in_waitall},
                              Row{"wait-mismatch", &in_wait_for_mismatch, true},
                              Row{"waitany-mismatch", &in_waitany_for_mismatch, true},
                              Row{"test-mismatch", &in_test_for_mismatch, true},
                              Row{"waitall-mismatch", &in_waitall_for_mismatch, true}};

void* in_thread(void* row) {
  static_cast<const Row*>(row)->run();
  return nullptr;
}

const char* left_in_thread(const Row& row) {
  pthread_t thread{};
  void* result = nullptr;
  pthread_create(&thread, nullptr, &in_thread, const_cast<Row*>(&row));
  pthread_join(thread, &result);
  if (result != (way == Way::cancel ? PTHREAD_CANCELED : static_cast<void*>(&outside))) return "came back";
  return unwound ? "left" : "left, but nothing was unwound";
}

const char* left_by_exception(const Row& row) {
  try {
    row.run();
  } catch (const std::runtime_error& error) {
    if (std::strcmp(error.what(), kReason) != 0) return "another exception came";
    return unwound ? "left" : "left, but nothing was unwound";
  }
  return "came back";
}

const char* left_by_jump(const Row& row) {
  if (setjmp(outside) != 0) return "left";
  row.run();
  return "came back";
}

const char* left(const Row& row) {
  errors_leave(MPI_COMM_WORLD);  // calls without a communicator raise their errors there
  switch (way) {
    case Way::exception: return left_by_exception(row);
    case Way::jump: return left_by_jump(row);
    default: return left_in_thread(row);
  }
}

bool collectives_are_right() {
  std::array<Collective, 3> several;
  for (Collective& one : several) one.post();
  for (Collective& one : several) MPI_Wait(&one.request, MPI_STATUS_IGNORE);
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  Collective blocking;
  MPI_Allreduce(&blocking.mine, &blocking.sum, 1, MPI_INT, MPI_SUM, made);
  MPI_Comm_free(&made);
  bool right = blocking.right();
  for (const Collective& one : several) right = right && one.right();
  return right;
}

// A post while service processes sleep makes a system call to wake them.
void* post_when_cancelled(void* done) {
  usleep(200'000);
  pthread_cancel(pthread_self());
  posted_late = Collective{};
  posted_late.post();
  constexpr std::size_t kLarge = std::size_t{64} << 20;
  auto* memory = static_cast<volatile char*>(std::malloc(kLarge));
  memory[kLarge / 2] = 1;
  std::free(const_cast<char*>(memory));
  *static_cast<bool*>(done) = true;
  pthread_testcancel();
  return nullptr;
}

int post_with_cancellation_pending() {
  bool done = false;
  void* result = nullptr;
  pthread_t thread{};
  pthread_create(&thread, nullptr, &post_when_cancelled, &done);
  pthread_join(thread, &result);
  MPI_Wait(&posted_late.request, MPI_STATUS_IGNORE);
  const bool right = done && result == PTHREAD_CANCELED && posted_late.right();
  if (rank == 0) std::printf("pending: %s\n", right ? "posted and allocated, then left" : "WRONG");
  void* memory = std::malloc(std::size_t{96} << 20);  // its locks are free
  std::free(memory);
  MPI_Finalize();
  return 0;
}

Way way_of(std::string_view word) {
  if (word == "throw") return Way::exception;
  if (word == "jump") return Way::jump;
  return word == "exit" ? Way::thread_exit : Way::cancel;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1 && std::string_view(argv[1]) == "pending") return post_with_cancellation_pending();
  way = way_of(argc > 1 ? argv[1] : "throw");
  for (const Row& row : kRows) {
    bool wanted = argc < 3 && !row.by_name_only;
    for (int i = 2; i < argc; ++i) wanted = wanted || row.name == argv[i];
    if (!wanted) continue;
    const std::string what = left(row);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    const bool right = collectives_are_right();
    if (rank == 0)
      std::printf("%s: %s, collectives are %s\n", row.name.data(), what.c_str(), right ? "right" : "WRONG");
    std::fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
