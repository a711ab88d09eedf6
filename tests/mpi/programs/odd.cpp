// Unusual but legal programs. Each is a mode; several may follow one another:
//
//   odd fork          forks and runs commands while operations are outstanding
//   odd children      prints the LD_PRELOAD of a command that the program starts
//   odd free_communicator  frees a communicator with outstanding operations
//   odd free_type     frees a type with an outstanding operation
//   odd shared_memory  buffers in memory that could be shared but is not, and in other memory
//   odd zero          zero counts everywhere, with types, in place and null buffers
//   odd alone         groups of one
//   odd churn N       N times: duplicates, splits, one operation on each, frees (default 1000)
//   odd inside        the program's attributes, names and duplicates are unchanged
//   odd one_buffer    on rank 0 both sides are parts of one buffer
//   odd large_counts  types made with large counts, if the MPI has them
//   odd status_lists  asks for many requests' status by the calls of MPI 4.1, which it looks up: older MPIs have none
//   odd late_finalize completes everything at the end of MPI_Finalize, with free_mem after the operations
//                     and from an attribute's callback inside MPI_Finalize
//   odd no_finalize   exits without MPI_Finalize
//   odd mismatch      ranks disagree about the counts: an error or an end, never a hang or an overrun
//   odd mismatch_handler   the communicator's error handler is called once by each call that ends with the error
//   odd mismatch_bcast   the same for a broadcast
//   odd mismatch_root    ranks disagree about the root
//   odd mismatch_operation, mismatch_vector   ... about the operation of a reduction; about its count

#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace {

int rank = 0;
int size = 0;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "odd: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

// One all-to-all on any communicator, with data that is checked.
class Exchange {
 public:
  Exchange(MPI_Comm communicator, int block) : block_(block) {
    MPI_Comm_rank(communicator, &rank_);
    MPI_Comm_size(communicator, &size_);
    const auto elements = static_cast<std::size_t>(block * size_);
    for (std::size_t i = 0; i < elements; ++i) send_.push_back(rank_ * 1000 + static_cast<int>(i) / block);
    receive_.assign(elements, -1);
    MPI_Ialltoall(send_.data(), block, MPI_INT, receive_.data(), block, MPI_INT, communicator, &request);
  }
  void wait() {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check();
  }
  void check() const {
    for (std::size_t i = 0; i < receive_.size(); ++i) {
      if (receive_[i] != static_cast<int>(i) / block_ * 1000 + rank_) fail("wrong data");
    }
  }
  MPI_Request request = MPI_REQUEST_NULL;

 private:
  int block_;
  int rank_ = 0;
  int size_ = 0;
  std::vector<int> send_, receive_;
};

void fork_mode(int) {
  for (int round = 0; round < 10; ++round) {
    Exchange a(MPI_COMM_WORLD, 20'000);
    Exchange b(MPI_COMM_WORLD, 5);
    const pid_t child = fork();
    if (child == 0) _exit(7);  // the child of an MPI program may not call MPI
    if (child < 0) fail("fork failed");
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) fail("child went wrong");
    if (std::system("exit 3") == -1) fail("system failed");
    FILE* pipe = popen("echo hello", "r");
    char text[16] = {};
    if (pipe == nullptr || std::fgets(text, sizeof text, pipe) == nullptr || std::string(text) != "hello\n") {
      fail("a command's output is not what it printed");
    }
    pclose(pipe);
    b.wait();
    a.wait();
  }
  // No children other than the program's own may exist.
  if (waitpid(-1, nullptr, WNOHANG) != -1) fail("there is a child that the program did not start");
}

void children_mode(int) {
  if (rank != 0) return;
  FILE* pipe = popen("printenv LD_PRELOAD || echo nothing", "r");
  char text[4096] = {};
  if (pipe == nullptr || std::fgets(text, sizeof text, pipe) == nullptr) fail("a command's output is not there");
  pclose(pipe);
  std::printf("odd: children get %s", text);
}

void free_communicator_mode(int) {
  for (int round = 0; round < 50; ++round) {
    MPI_Comm communicator;
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
    Exchange a(communicator, 100);
    Exchange b(communicator, 30'000);
    MPI_Comm_free(&communicator);
    if (communicator != MPI_COMM_NULL) fail("MPI_Comm_free left a handle");
    MPI_Request all[2] = {a.request, b.request};
    MPI_Waitall(2, all, MPI_STATUSES_IGNORE);
    a.check();
    b.check();
  }
}

void free_type_mode(int) {
  for (int round = 0; round < 50; ++round) {
    MPI_Datatype pairs;
    MPI_Type_vector(2, 1, 2, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    const auto elements = static_cast<std::size_t>(3 * size);
    std::vector<int> send(elements, rank), receive(elements, -1);
    MPI_Request request;
    MPI_Ialltoall(send.data(), 1, pairs, receive.data(), 1, pairs, MPI_COMM_WORLD, &request);
    MPI_Type_free(&pairs);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int peer = 0; peer < size; ++peer) {
      const auto at = static_cast<std::size_t>(3 * peer);
      if (receive[at] != peer || receive[at + 1] != -1 || receive[at + 2] != peer) fail("wrong data by a freed type");
    }
  }
}

void zero_mode(int) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<int> zeros(n, 0), displacements(n, 3), receive(n, -1);
  MPI_Datatype empty, strided;
  MPI_Type_contiguous(0, MPI_INT, &empty);
  MPI_Type_commit(&empty);
  MPI_Type_vector(3, 1, 2, MPI_INT, &strided);
  MPI_Type_commit(&strided);
  const int* z = zeros.data();
  const int* d = displacements.data();
  MPI_Request requests[9];
  MPI_Ialltoall(nullptr, 0, MPI_INT, nullptr, 0, MPI_INT, MPI_COMM_WORLD, &requests[0]);
  MPI_Ialltoallv(nullptr, z, d, MPI_INT, receive.data(), z, d, MPI_DOUBLE, MPI_COMM_WORLD, &requests[1]);
  MPI_Ialltoall(receive.data(), 0, strided, receive.data() + 1, 0, strided, MPI_COMM_WORLD, &requests[2]);
  MPI_Ialltoall(zeros.data(), 5, empty, receive.data(), 0, MPI_INT, MPI_COMM_WORLD, &requests[3]);
  MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, receive.data(), 0, MPI_INT, MPI_COMM_WORLD, &requests[4]);
  MPI_Ialltoallv(MPI_IN_PLACE, z, d, MPI_DATATYPE_NULL, receive.data(), z, d, MPI_INT, MPI_COMM_WORLD, &requests[5]);
  MPI_Iallgather(nullptr, 0, MPI_INT, nullptr, 0, MPI_INT, MPI_COMM_WORLD, &requests[6]);
  MPI_Iallgatherv(nullptr, 0, MPI_INT, receive.data(), z, d, MPI_DOUBLE, MPI_COMM_WORLD, &requests[7]);
  MPI_Ibcast(receive.data(), rank == 0 ? 0 : 3, rank == 0 ? MPI_INT : empty, 0, MPI_COMM_WORLD, &requests[8]);
  MPI_Waitall(9, requests, MPI_STATUSES_IGNORE);
  for (int value : receive) {
    if (value != -1) fail("an empty operation wrote something");
  }
  // Only each rank's block to itself.
  std::vector<int> one(n, 0), alone(n, -1), own = zeros;
  own[static_cast<std::size_t>(rank)] = 1;
  MPI_Request request;
  MPI_Ialltoallv(one.data(), own.data(), z, MPI_INT, alone.data(), own.data(), z, MPI_INT, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (alone[0] != 0) fail("a rank's block to itself did not arrive");
  MPI_Type_free(&empty);
  MPI_Type_free(&strided);
  Exchange(MPI_COMM_WORLD, 7).wait();
}

// An all-to-all in two buffers that are reused.
void exchange_in(int* send, int* receive, int block, int round, MPI_Request* request) {
  for (int i = 0; i < block * size; ++i) {
    send[i] = rank * 1000 + i / block + 17 * round;
    receive[i] = -1;
  }
  MPI_Ialltoall(send, block, MPI_INT, receive, block, MPI_INT, MPI_COMM_WORLD, request);
}

// Where nothing else is. A multiple of 64 MiB is in the middle: there service processes' attachments end.
void* across_windows(std::size_t bytes) {
  constexpr std::size_t kWindow = std::size_t{64} << 20;
  void* const room = mmap(nullptr, 2 * kWindow, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) fail("no address space");
  char* const boundary = static_cast<char*>(room) + (kWindow - reinterpret_cast<std::uintptr_t>(room) % kWindow);
  return boundary - bytes / 2 / 4096 * 4096;
}

void shared_memory_mode(int) {
  constexpr int kBlock = 30'000;
  const std::size_t bytes = sizeof(int) * kBlock * static_cast<std::size_t>(size);
  int* buffers[2] = {};
  for (int*& buffer : buffers) {
    void* memory =
        mmap(across_windows(bytes), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (memory == MAP_FAILED) fail("no memory");
    buffer = static_cast<int*>(memory);
  }
  for (int round = 0; round < 40; ++round) {
    MPI_Request request;
    exchange_in(buffers[0], buffers[1], kBlock, round, &request);
    Exchange ordinary(MPI_COMM_WORLD, 20'000);
    ordinary.wait();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < kBlock * size; ++i) {
      if (buffers[1][i] != i / kBlock * 1000 + rank + 17 * round) fail("wrong data in shared memory");
    }
  }
  for (int* buffer : buffers) munmap(buffer, bytes);
}

void alone_mode(int) {
  MPI_Comm single, copy;
  MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &single);
  MPI_Comm_dup(MPI_COMM_SELF, &copy);
  for (MPI_Comm communicator : {MPI_COMM_SELF, single, copy}) {
    Exchange small(communicator, 1);
    Exchange large(communicator, 100'000);
    large.wait();
    small.wait();
    int value = rank;
    MPI_Request request;
    MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, &value, 1, MPI_INT, communicator, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (value != rank) fail("in place alone changed something");
  }
  MPI_Comm_free(&single);
  MPI_Comm_free(&copy);
}

void churn_mode(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    MPI_Comm copy, part;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(copy, round % 3 == 0 ? rank % 2 : 0, -rank, &part);
    Exchange a(copy, 1 + round % 30);
    Exchange b(part, 1 + round % 40);
    if (round % 4 == 0) MPI_Comm_free(&copy);
    b.wait();
    a.wait();
    if (copy != MPI_COMM_NULL) MPI_Comm_free(&copy);
    MPI_Comm_free(&part);
  }
}

int copies = 0;
int deletions = 0;
int copy_attribute(MPI_Comm, int, void*, void* value, void* copied, int* flag) {
  ++copies;
  *static_cast<void**>(copied) = value;
  *flag = 1;
  return MPI_SUCCESS;
}
int delete_attribute(MPI_Comm, int, void*, void*) {
  ++deletions;
  return MPI_SUCCESS;
}

void inside_mode(int) {
  int key;
  MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, nullptr);
  MPI_Comm first, second, third;
  MPI_Comm_dup(MPI_COMM_WORLD, &first);
  MPI_Comm_set_attr(first, key, &rank);
  MPI_Comm_set_name(first, "ours");
  MPI_Comm_set_errhandler(first, MPI_ERRORS_RETURN);
  MPI_Comm_dup(first, &second);
  MPI_Request request;
  MPI_Comm_idup(second, &third, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (copies != 2) fail("the program's attribute was not copied twice");
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(third, key, &value, &found);
  if (found == 0 || value != &rank) fail("the program's attribute is not the same");
  char name[MPI_MAX_OBJECT_NAME] = {};
  int length = 0;
  MPI_Comm_get_name(first, name, &length);
  if (std::string(name) != "ours") fail("the program's name was changed");
  int result = 0;
  MPI_Comm_compare(first, third, &result);
  if (result != MPI_CONGRUENT) fail("a duplicate is not congruent");
  for (MPI_Comm communicator : {first, second, third}) Exchange(communicator, 9).wait();
  MPI_Comm_free(&first);
  MPI_Comm_free(&second);
  MPI_Comm_free(&third);
  if (deletions != 3) fail("the program's attribute was not deleted three times");
  MPI_Comm_free_keyval(&key);
}

void one_buffer_mode(int) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<int> buffer(2 * n, -1), other(2 * n, -1);
  std::vector<int>& receive = rank == 0 ? buffer : other;
  std::vector<int> send_counts(n, 1), receive_counts(n, 1), send_at, receive_at;
  for (int i = 0; i < size; ++i) {
    send_at.push_back(2 * i);
    receive_at.push_back(2 * i + 1);
    buffer[static_cast<std::size_t>(2 * i)] = rank * 1000 + i;
  }
  const auto check = [&] {
    for (std::size_t i = 0; i < n; ++i) {
      if (receive[2 * i + 1] != static_cast<int>(i) * 1000 + rank) fail("wrong data");
      receive[2 * i + 1] = -1;
    }
  };
  MPI_Request request;
  MPI_Ialltoallv(buffer.data(), send_counts.data(), send_at.data(), MPI_INT, receive.data(), receive_counts.data(),
                 receive_at.data(), MPI_INT, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check();
  MPI_Datatype types[2];
  for (int odd = 0; odd < 2; ++odd) {  // every other element, from the first or the second on
    MPI_Datatype element;
    MPI_Type_create_indexed_block(1, 1, &odd, MPI_INT, &element);
    MPI_Type_create_resized(element, 0, 2 * sizeof(int), &types[odd]);
    MPI_Type_commit(&types[odd]);
    MPI_Type_free(&element);
  }
  MPI_Ialltoall(buffer.data(), 1, types[0], receive.data(), 1, types[1], MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check();
  for (MPI_Datatype& type : types) MPI_Type_free(&type);
}

void large_counts_mode(int) {
#if MPI_VERSION >= 4
  constexpr std::size_t kSpan = 8;  // ints that a block may take
  MPI_Datatype types[2];
  MPI_Type_contiguous_c(3, MPI_INT, &types[0]);
  MPI_Type_vector_c(4, 1, 2, MPI_INT, &types[1]);
  for (MPI_Datatype& type : types) {
    MPI_Type_commit(&type);
    std::vector<int> send(kSpan * static_cast<std::size_t>(size)), receive(send.size(), -1), expected = receive;
    for (std::size_t i = 0; i < send.size(); ++i) send[i] = rank * 1000 + static_cast<int>(i);
    MPI_Request request;
    MPI_Ialltoall(send.data(), 1, type, receive.data(), 1, type, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Alltoall(send.data(), 1, type, expected.data(), 1, type, MPI_COMM_WORLD);
    if (receive != expected) fail("wrong data");
    MPI_Type_free(&type);
  }
#endif
}

int free_memory(MPI_Comm, int, void* memory, void*) {
  return MPI_Free_mem(memory);
}

void late_finalize_mode(int) {
  void* until_finalize = nullptr;
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &until_finalize);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_memory, &keyval, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, until_finalize);
  MPI_Comm_free_keyval(&keyval);
  int* memory = nullptr;
  MPI_Alloc_mem(static_cast<MPI_Aint>(sizeof(int)) * 2 * size, MPI_INFO_NULL, &memory);
  for (int i = 0; i < 2 * size; ++i) memory[i] = rank;
  MPI_Request request;
  MPI_Ialltoall(memory, 1, MPI_INT, memory + size, 1, MPI_INT, MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
    sched_yield();
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Free_mem(memory);
  // Finalize follows at once, while other ranks may still be in the collective.
}

void no_finalize_mode(int) {
  Exchange(MPI_COMM_WORLD, 1000).wait();
  std::printf("odd: leaving without MPI_Finalize\n");
  std::fflush(stdout);
  std::exit(0);
}

// Reports how a mismatched operation has ended; the job may end with it. A rank without an error gives others time to
// report theirs, and all give mpiexec time to forward it.
[[noreturn]] void report_mismatch(int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  if (error_class == MPI_SUCCESS) sleep(5);
  std::printf("odd: rank %d: mismatch gives %s\n", rank,
              error_class == MPI_ERR_TRUNCATE ? "MPI_ERR_TRUNCATE" : std::to_string(error_class).c_str());
  std::fflush(stdout);
  usleep(500'000);
  MPI_Abort(MPI_COMM_WORLD, 5);
  std::abort();
}

void expect_untouched(const std::vector<int>& buffer, int from) {
  for (std::size_t i = static_cast<std::size_t>(from); i < buffer.size(); ++i) {
    if (buffer[i] != -7) fail("a mismatch wrote beyond the receive buffer");
  }
}

// Rank 0 sends twice as much as the others expect. The MPI decides the result, within limits.
void mismatch_mode(int) {
  alarm(30);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int expected = 1000;
  const int block = rank == 0 ? 2 * expected : expected;
  const auto elements = static_cast<std::size_t>(2 * expected * size);
  std::vector<int> send(elements, rank), receive(elements + 100, -7);
  MPI_Request request;
  int code = MPI_Ialltoall(send.data(), block, MPI_INT, receive.data(), expected, MPI_INT, MPI_COMM_WORLD, &request);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect_untouched(receive, expected * size);
  report_mismatch(code);
}

struct Handled {
  int calls = 0;
  MPI_Comm comm = MPI_COMM_NULL;
  int error_class = MPI_SUCCESS;
};
Handled handled;

void handle(MPI_Comm* comm, int* code, ...) {
  ++handled.calls;
  handled.comm = *comm;
  MPI_Error_class(*code, &handled.error_class);
}

// The call that returned `code` has called the handler of `comm` once.
void expect_handled(int code, MPI_Comm comm, int error_class) {
  int returned = MPI_SUCCESS;
  MPI_Error_class(code, &returned);
  if (returned != error_class) fail("a call returned another class of error");
  if (handled.calls != 1 || handled.error_class != error_class) fail("the error handler was not called as it must be");
  if (handled.comm != comm) fail("another communicator's error handler was called");
  handled = Handled{};
}

void mismatch_handler_mode(int) {
  alarm(30);
  MPI_Comm comm;
  MPI_Errhandler handler;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_errhandler(handle, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  MPI_Errhandler_free(&handler);
  const int room = 1000;
  const int block = rank == 0 ? 2 * room : room;  // its own block does not fit either
  const auto elements = static_cast<std::size_t>(2 * room * size);
  std::vector<int> send(elements, rank), receive(elements, -7);
  MPI_Request request;
  MPI_Status status;
  MPI_Ialltoall(send.data(), block, MPI_INT, receive.data(), room, MPI_INT, comm, &request);
  expect_handled(MPI_Wait(&request, MPI_STATUS_IGNORE), comm, MPI_ERR_TRUNCATE);
  MPI_Ialltoall(send.data(), block, MPI_INT, receive.data(), room, MPI_INT, comm, &request);
  expect_handled(MPI_Waitall(1, &request, &status), comm, MPI_ERR_IN_STATUS);
  int in_status = MPI_SUCCESS;
  MPI_Error_class(status.MPI_ERROR, &in_status);
  if (in_status != MPI_ERR_TRUNCATE) fail("a status does not tell of the error");
  expect_handled(MPI_Alltoall(send.data(), block, MPI_INT, receive.data(), room, MPI_INT, comm), comm,
                 MPI_ERR_TRUNCATE);
  expect_untouched(receive, room * size);
  Exchange(comm, 1000).wait();
  MPI_Comm_free(&comm);
}

template <class Function>
Function looked_up(const char* name) {
  void* address = dlsym(RTLD_DEFAULT, name);
  if (address == nullptr) fail("a call of MPI 4.1 is not there");
  return reinterpret_cast<Function>(address);
}

// Not all MPIs with the calls of MPI 4.1 report success in the status.
void expect_empty(const MPI_Status& status) {
  int version = 0, subversion = 0;
  MPI_Get_version(&version, &subversion);
  const bool by_itself = version > 4 || (version == 4 && subversion >= 1);
  if (status.MPI_SOURCE != MPI_ANY_SOURCE || status.MPI_TAG != MPI_ANY_TAG) fail("a status of nothing is not empty");
  if (!by_itself && status.MPI_ERROR != MPI_SUCCESS) fail("a status of nothing tells of an error");
}

// Among three requests, one is null and one is a message to this rank.
void status_lists_mode(int) {
  const auto all = looked_up<int (*)(int, const MPI_Request*, int*, MPI_Status*)>("MPI_Request_get_status_all");
  const auto any = looked_up<int (*)(int, const MPI_Request*, int*, int*, MPI_Status*)>("MPI_Request_get_status_any");
  const auto some = looked_up<int (*)(int, const MPI_Request*, int*, int*, MPI_Status*)>("MPI_Request_get_status_some");
  for (int round = 0; round < 20; ++round) {
    Exchange exchange(MPI_COMM_WORLD, 3000);
    int value = -1;
    int flag = 0;
    int found = -5;
    int indices[3] = {-5, -5, -5};
    MPI_Status statuses[3];
    MPI_Request requests[3] = {MPI_REQUEST_NULL, exchange.request, MPI_REQUEST_NULL};
    MPI_Irecv(&value, 1, MPI_INT, rank, 7, MPI_COMM_WORLD, &requests[2]);
    any(2, requests, &found, &flag, statuses);
    if (flag == 0 && found != MPI_UNDEFINED) fail("an index without a complete request");
    while (flag == 0) any(2, requests, &found, &flag, statuses);
    if (found != 1) fail("of a null request and a complete one the other was named");
    all(3, requests, &flag, statuses);
    if (flag != 0) fail("a message is said to have come before it was sent");
    some(3, requests, &found, indices, statuses);
    if (found != 1 || indices[0] != 1) fail("one request is complete, others are named");
    MPI_Send(&rank, 1, MPI_INT, rank, 7, MPI_COMM_WORLD);
    while (flag == 0) all(3, requests, &flag, statuses);
    if (statuses[2].MPI_SOURCE != rank || statuses[2].MPI_TAG != 7) fail("a wrong status");
    some(3, requests, &found, indices, MPI_STATUSES_IGNORE);
    if (found != 2 || indices[0] != 1 || indices[1] != 2) fail("two requests are complete, others are named");
    statuses[0].MPI_ERROR = MPI_ERR_OTHER;
    any(1, requests, &found, &flag, statuses);
    if (flag == 0 || found != MPI_UNDEFINED) fail("no request at all is not complete");
    expect_empty(statuses[0]);
    some(1, requests, &found, indices, statuses);
    if (found != MPI_UNDEFINED) fail("no request at all has an index");
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    exchange.check();
    if (value != rank) fail("a wrong message");
  }
}

void mismatched_bcast(int count, int root) {
  alarm(30);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::vector<int> buffer(5000, -7);
  MPI_Request request;
  int code = MPI_Ibcast(buffer.data(), count, MPI_INT, root, MPI_COMM_WORLD, &request);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect_untouched(buffer, count);
  report_mismatch(code);
}

void mismatch_bcast_mode(int) {
  mismatched_bcast(rank == 0 ? 2000 : 1000, 0);
}

void mismatch_root_mode(int) {
  mismatched_bcast(1000, (rank + 1) % size);
}

void mismatched_allreduce(int count, MPI_Op op) {
  alarm(30);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const std::vector<int> sent(5000, 1);
  std::vector<int> buffer(5000, -7);
  MPI_Request request;
  int code = MPI_Iallreduce(sent.data(), buffer.data(), count, MPI_INT, op, MPI_COMM_WORLD, &request);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect_untouched(buffer, count);
  report_mismatch(code);
}

void mismatch_operation_mode(int) {
  mismatched_allreduce(1000, rank == 0 ? MPI_SUM : MPI_MAX);
}

void mismatch_vector_mode(int) {
  mismatched_allreduce(rank == 0 ? 2000 : 1000, MPI_SUM);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::map<std::string, std::function<void(int)>> modes = {{"fork", fork_mode},
                                                                 {"children", children_mode},
                                                                 {"free_communicator", free_communicator_mode},
                                                                 {"free_type", free_type_mode},
                                                                 {"shared_memory", shared_memory_mode},
                                                                 {"zero", zero_mode},
                                                                 {"alone", alone_mode},
                                                                 {"churn", churn_mode},
                                                                 {"inside", inside_mode},
                                                                 {"one_buffer", one_buffer_mode},
                                                                 {"large_counts", large_counts_mode},
                                                                 {"status_lists", status_lists_mode},
                                                                 {"late_finalize", late_finalize_mode},
                                                                 {"no_finalize", no_finalize_mode},
                                                                 {"mismatch", mismatch_mode},
                                                                 {"mismatch_handler", mismatch_handler_mode},
                                                                 {"mismatch_bcast", mismatch_bcast_mode},
                                                                 {"mismatch_root", mismatch_root_mode},
                                                                 {"mismatch_operation", mismatch_operation_mode},
                                                                 {"mismatch_vector", mismatch_vector_mode}};
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 0;
  const int last = rounds > 0 ? 1 : argc - 1;
  for (int i = 1; i <= std::max(last, 1); ++i) {
    const auto mode = modes.find(i < argc ? argv[i] : "");
    if (mode == modes.end()) {
      if (rank == 0) std::fprintf(stderr, "odd: which? See the head of odd.cpp for the modes.\n");
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    mode->second(rounds > 0 ? rounds : 1000);
    if (i == last) MPI_Finalize();
    if (rank == 0) std::printf("odd: %s: all right\n", argv[i]);
    std::fflush(stdout);
  }
  return 0;
}
