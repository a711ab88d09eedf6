// Invalid calls on the request of a nonblocking collective: their results, the called error handler, and the request's
// state. The output must be the same native and offloaded, and the operation must end well afterwards.
//
//   bad_requests      two ranks

#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

namespace {

constexpr int kBlock = 1000;  // of int
#if defined(MPI_ABI_VERSION)
constexpr bool kStandardAbi = true;
#else
constexpr bool kStandardAbi = false;
#endif

int rank = 0;
MPI_Comm comm;

[[noreturn]] void fail(const std::string& what) {
  std::printf("bad_requests: rank %d: %s\n", rank, what.c_str());
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

std::string told;
template <char kWhom>
void handler(MPI_Comm*, int* code, ...) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(*code, &error_class);
  told += std::string(" ") + kWhom + std::to_string(error_class);
}

enum class When { active, complete };
using BadCall = std::function<int(MPI_Request*)>;

// A call with one request of the collective and one of a later message.
struct Pair {
  explicit Pair(MPI_Request* ours) : first(ours) {
    MPI_Irecv(&value, 1, MPI_INT, rank, 77, MPI_COMM_WORLD, &list[1]);
    list[0] = *ours;
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    *first = list[0];
    MPI_Send(&rank, 1, MPI_INT, rank, 77, MPI_COMM_WORLD);
    MPI_Wait(&list[1], MPI_STATUS_IGNORE);
    if (value != rank) fail("a message beside the operation is lost");
  }
  int value = -1;
  MPI_Request list[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Request* first;
};

// Posts the collective, makes the call, and completes the collective.
void make(const std::string& name, When when, const BadCall& call) {
  int token = 0;
  std::vector<int> send(2 * kBlock, rank), receive(2 * kBlock, -1);
  if (rank == 1 && when == When::active) MPI_Recv(&token, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Request request;
  MPI_Ialltoall(send.data(), kBlock, MPI_INT, receive.data(), kBlock, MPI_INT, comm, &request);
  if (rank == 0) {
    for (int done = when == When::active ? 1 : 0; done == 0; sched_yield()) {
      MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
    }
    told.clear();
    const MPI_Request before = request;
    const int code = call(&request);
    const std::string whom = told;
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    std::printf("%s, %s: class %d, told:%s, request %s\n", name.c_str(), when == When::active ? "active" : "complete",
                error_class, whom.c_str(), request == before ? "kept" : "gone");
    std::fflush(stdout);
    if (when == When::active) MPI_Send(&token, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  const auto right = [&] { return static_cast<const volatile int*>(receive.data())[2 * kBlock - 1] == 1; };
  for (int flag = 0; !right(); sched_yield()) {  // it may have been freed
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  }
  if (receive[0] != 0 || receive[kBlock] != 1) fail("wrong data after " + name);
  MPI_Barrier(comm);
}

void make_both(const std::string& name, const BadCall& call) {
  make(name, When::active, call);
  make(name, When::complete, call);
}

void of_one() {
  make_both("cancel", [](MPI_Request* r) { return MPI_Cancel(r); });
  make_both("free", [](MPI_Request* r) { return MPI_Request_free(r); });
  make_both("start", [](MPI_Request* r) { return MPI_Start(r); });
  make_both("test, no flag", [](MPI_Request* r) { return MPI_Test(r, nullptr, MPI_STATUS_IGNORE); });
  make_both("get_status, no flag",
            [](MPI_Request* r) { return MPI_Request_get_status(*r, nullptr, MPI_STATUS_IGNORE); });
}

// Only if handles are numbers: Open MPI 5 dereferences addresses.
constexpr bool kHandlesAreNumbers = std::is_integral_v<MPI_Request>;
MPI_Request bad_handle() {
  MPI_Request bad = MPI_REQUEST_NULL;
  const unsigned number = 0x12345678U;
  std::memcpy(&bad, &number, sizeof number);
  return bad;
}

void with_bad_handle(const std::string& name, const std::function<int(MPI_Request*)>& call) {
  if (!kHandlesAreNumbers) return;
  make_both(name, [&call](MPI_Request* r) {
    Pair pair(r);
    MPI_Request three[] = {pair.list[0], bad_handle(), pair.list[1]};
    const int code = call(three);
    pair.list[0] = three[0];
    pair.list[1] = three[2];
    return code;
  });
}

void of_many() {
  int n = -1;
  int indices[2] = {};
  MPI_Status* const ignore = MPI_STATUSES_IGNORE;
  const auto both = [](const std::string& name, const std::function<int(MPI_Request*)>& call) {
    make_both(name, [&call](MPI_Request* r) { return call(Pair(r).list); });
  };
  both("testall, no flag", [&](MPI_Request* r) { return MPI_Testall(2, r, nullptr, ignore); });
  if (kStandardAbi) return;  // MPICH 5 crashes on all others there
  with_bad_handle("waitall, a bad handle", [&](MPI_Request* r) { return MPI_Waitall(3, r, ignore); });
  with_bad_handle("waitany, a bad handle", [&](MPI_Request* r) { return MPI_Waitany(3, r, &n, ignore); });
  both("waitall, no requests", [&](MPI_Request*) { return MPI_Waitall(2, nullptr, ignore); });
  both("testsome, negative count", [&](MPI_Request* r) { return MPI_Testsome(-1, r, &n, indices, ignore); });
  both("testany, no flag", [&](MPI_Request* r) { return MPI_Testany(2, r, &n, nullptr, ignore); });
  both("testany, no index", [&](MPI_Request* r) { return MPI_Testany(2, r, nullptr, &n, ignore); });
  both("testsome, no count", [&](MPI_Request* r) { return MPI_Testsome(2, r, nullptr, indices, ignore); });
  both("testsome, no indices", [&](MPI_Request* r) { return MPI_Testsome(2, r, &n, nullptr, ignore); });
  both("waitany, no index", [&](MPI_Request* r) { return MPI_Waitany(2, r, nullptr, ignore); });
  both("waitsome, no count", [&](MPI_Request* r) { return MPI_Waitsome(2, r, nullptr, indices, ignore); });
  both("waitsome, no indices", [&](MPI_Request* r) { return MPI_Waitsome(2, r, &n, nullptr, ignore); });
}

// If NULL does not mean that no status is wanted.
void without_status() {
  if (MPI_STATUS_IGNORE == nullptr) return;
  int n = -1;
  int flag = 0;
  int indices[2] = {};
  MPI_Status* const none = nullptr;
  make_both("test, no status", [&](MPI_Request* r) { return MPI_Test(r, &flag, none); });
  make_both("wait, no status", [&](MPI_Request* r) { return MPI_Wait(r, none); });
  make_both("waitall, no statuses", [&](MPI_Request* r) { return MPI_Waitall(1, r, none); });
  make_both("testall, no statuses", [&](MPI_Request* r) { return MPI_Testall(1, r, &flag, none); });
  make_both("waitany, no status", [&](MPI_Request* r) { return MPI_Waitany(1, r, &n, none); });
  make_both("waitsome, no statuses", [&](MPI_Request* r) { return MPI_Waitsome(1, r, &n, indices, none); });
}

template <class Function>
Function looked_up(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// Calls of MPI 4.1. If the MPI lacks them, nothing is printed natively.
void of_mpi_41() {
  const auto all = looked_up<int (*)(int, const MPI_Request*, int*, MPI_Status*)>("MPI_Request_get_status_all");
  const auto any = looked_up<int (*)(int, const MPI_Request*, int*, int*, MPI_Status*)>("MPI_Request_get_status_any");
  const auto some = looked_up<int (*)(int, const MPI_Request*, int*, int*, MPI_Status*)>("MPI_Request_get_status_some");
  if (all == nullptr || any == nullptr || some == nullptr || kStandardAbi) return;
  int n = -1;
  int indices[2] = {};
  MPI_Status* const ignore = MPI_STATUSES_IGNORE;
  make_both("4.1: all, no flag", [&](MPI_Request* r) { return all(1, r, nullptr, ignore); });
  make_both("4.1: any, no flag", [&](MPI_Request* r) { return any(1, r, &n, nullptr, ignore); });
  make_both("4.1: any, no index", [&](MPI_Request* r) { return any(1, r, nullptr, &n, ignore); });
  make_both("4.1: some, no count", [&](MPI_Request* r) { return some(1, r, nullptr, indices, ignore); });
  make_both("4.1: some, no indices", [&](MPI_Request* r) { return some(1, r, &n, nullptr, ignore); });
  make_both("4.1: all, no requests", [&](MPI_Request*) { return all(1, nullptr, &n, ignore); });
}

void everything() {
  of_one();
  of_many();
  without_status();
  of_mpi_41();
}

void tell(MPI_Comm whom, MPI_Comm_errhandler_function* function) {
  MPI_Errhandler errhandler;
  MPI_Comm_create_errhandler(function, &errhandler);
  MPI_Comm_set_errhandler(whom, errhandler);
  MPI_Errhandler_free(&errhandler);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (const MPI_Comm each : {MPI_COMM_WORLD, MPI_COMM_SELF, comm}) MPI_Comm_set_errhandler(each, MPI_ERRORS_RETURN);
  everything();
  tell(MPI_COMM_WORLD, handler<'w'>);
  tell(MPI_COMM_SELF, handler<'s'>);
  tell(comm, handler<'c'>);
  everything();
  MPI_Comm_free(&comm);
  MPI_Finalize();
  if (rank == 0) std::printf("bad_requests: all right\n");
  return 0;
}
