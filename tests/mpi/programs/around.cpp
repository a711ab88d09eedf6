// Requests are made by MPI_X, and completed by an address in the MPI library itself, as in programs that look MPI up
// (Julia, numba, ctypes) and in libraries with bindings of their own.
//
//   around KIND...    wait waitall waitany waitsome test testall testany testsome
//   around mixed      Waitall by such an address, for a collective, a message and another collective
//   around rendezvous a message whose other end waits by such an address must arrive
//   around threads    several threads wait in this way, each for an operation of its own
//
// Prints `around: KIND is well` if every rank has received all bytes, and `around: well` after the last kind.
#include <dlfcn.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kRounds = 40;
constexpr int kBlock = 4096;

void* libmpi() {
  static void* const handle = [] {
    for (const char* name : {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12", "libmpi_abi.so.0", "libmpi_abi.so.1"}) {
      if (void* found = dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) return found;
    }
    std::printf("around: no libmpi\n");
    std::exit(2);
  }();
  return handle;
}

template <class Function>
Function* look_up(const char* name, Function* /*like*/) {
  return reinterpret_cast<Function*>(dlsym(libmpi(), name));
}
#define AROUND(name) look_up("MPI_" #name, &MPI_##name)

void fail(const std::string& why) {
  std::printf("around: %s\n", why.c_str());
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

struct World {
  int rank = 0;
  int size = 0;
};
World world() {
  World here;
  MPI_Comm_rank(MPI_COMM_WORLD, &here.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &here.size);
  return here;
}

// Unpacked at the end into every other integer: a type with gaps goes through staging.
class Exchange {
 public:
  explicit Exchange(MPI_Comm comm, bool gaps) : comm_(comm), stride_(gaps ? 2 : 1) {
    const auto blocks = static_cast<std::size_t>(here_.size);
    sent_.resize(blocks * kBlock);
    received_.resize(blocks * kBlock * static_cast<std::size_t>(stride_));
    MPI_Type_vector(kBlock, 1, stride_, MPI_INT, &vector_);
    MPI_Type_create_resized(vector_, 0, static_cast<MPI_Aint>(sizeof(int)) * kBlock * stride_, &type_);
    MPI_Type_commit(&type_);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() {
    MPI_Type_free(&type_);
    MPI_Type_free(&vector_);
  }

  MPI_Request post(int round) {
    round_ = round;
    for (std::size_t i = 0; i < sent_.size(); ++i) sent_[i] = value(here_.rank, static_cast<int>(i / kBlock));
    received_.assign(received_.size(), -1);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ialltoall(sent_.data(), kBlock, MPI_INT, received_.data(), 1, type_, comm_, &request);
    return request;
  }
  [[nodiscard]] bool is_right() const {
    for (std::size_t i = 0; i < received_.size(); ++i) {
      const std::size_t element = i / static_cast<std::size_t>(stride_);
      const int peer = static_cast<int>(element / kBlock);
      const bool gap = i % static_cast<std::size_t>(stride_) != 0;
      if (received_[i] != (gap ? -1 : value(peer, here_.rank))) return false;
    }
    return true;
  }
  void check(const std::string& what) const {
    if (!is_right()) fail(what + ", round " + std::to_string(round_) + ": wrong bytes");
  }

 private:
  [[nodiscard]] int value(int from, int to) const { return (round_ * 64 + from) * 64 + to; }

  World here_ = world();
  MPI_Comm comm_;
  int stride_;
  int round_ = 0;
  MPI_Datatype vector_ = MPI_DATATYPE_NULL;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  std::vector<int> sent_;
  std::vector<int> received_;
};

// Until the request is gone.
void complete(const std::string& kind, MPI_Request* request) {
  int flag = 0;
  int index = 0;
  if (kind == "wait") AROUND(Wait)(request, MPI_STATUS_IGNORE);
  if (kind == "waitall") AROUND(Waitall)(1, request, MPI_STATUSES_IGNORE);
  if (kind == "waitany") AROUND(Waitany)(1, request, &index, MPI_STATUS_IGNORE);
  if (kind == "waitsome") AROUND(Waitsome)(1, request, &flag, &index, MPI_STATUSES_IGNORE);
  while (*request != MPI_REQUEST_NULL) {
    if (kind == "test") AROUND(Test)(request, &flag, MPI_STATUS_IGNORE);
    if (kind == "testall") AROUND(Testall)(1, request, &flag, MPI_STATUSES_IGNORE);
    if (kind == "testany") AROUND(Testany)(1, request, &index, &flag, MPI_STATUS_IGNORE);
    if (kind == "testsome") AROUND(Testsome)(1, request, &flag, &index, MPI_STATUSES_IGNORE);
  }
}

void one_by_one(const std::string& kind) {
  for (const bool gaps : {false, true}) {
    Exchange exchange(MPI_COMM_WORLD, gaps);
    for (int round = 0; round < kRounds; ++round) {
      MPI_Request request = exchange.post(round);
      if (round % 4 == 3) {  // sometimes in the usual way
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      } else {
        complete(kind, &request);
      }
      exchange.check(kind);
    }
  }
}

void mixed() {
  const World here = world();
  Exchange first(MPI_COMM_WORLD, true);
  Exchange last(MPI_COMM_WORLD, false);
  std::vector<int> sent(1 << 18, here.rank);  // by rendezvous
  std::vector<int> received(sent.size(), -1);
  const int to = (here.rank + 1) % here.size;
  const int from = (here.rank + here.size - 1) % here.size;
  for (int round = 0; round < kRounds; ++round) {
    MPI_Request requests[4];
    const int all = static_cast<int>(sent.size());
    requests[1] = first.post(round);
    MPI_Irecv(received.data(), all, MPI_INT, from, 0, MPI_COMM_WORLD, &requests[0]);
    requests[2] = last.post(round);
    MPI_Isend(sent.data(), all, MPI_INT, to, 0, MPI_COMM_WORLD, &requests[3]);
    AROUND(Waitall)(4, requests, MPI_STATUSES_IGNORE);
    first.check("mixed");
    last.check("mixed");
    if (received.back() != from) fail("mixed: wrong message");
  }
}

// The second rank sends before it posts the operation that the first one waits for.
void rendezvous() {
  const World here = world();
  Exchange exchange(MPI_COMM_WORLD, false);
  std::vector<int> message(1 << 20, here.rank);
  for (int round = 0; round < kRounds; ++round) {
    MPI_Request receive = MPI_REQUEST_NULL;
    if (here.rank == 0) {
      MPI_Irecv(message.data(), static_cast<int>(message.size()), MPI_INT, 1, 0, MPI_COMM_WORLD, &receive);
    } else if (here.rank == 1) {
      MPI_Send(message.data(), static_cast<int>(message.size()), MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    MPI_Request request = exchange.post(round);
    AROUND(Wait)(&request, MPI_STATUS_IGNORE);
    exchange.check("rendezvous");
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
  }
}

void threads() {
  constexpr int kThreads = 3;
  std::vector<MPI_Comm> comms(kThreads);
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<std::thread> all;
  for (int number = 0; number < kThreads; ++number) {
    all.emplace_back([&comms, number] {
      Exchange exchange(comms[static_cast<std::size_t>(number)], number % 2 == 0);
      for (int round = 0; round < kRounds; ++round) {
        MPI_Request request = exchange.post(round);
        complete(number == 1 ? "test" : "wait", &request);
        exchange.check("threads");
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

}  // namespace

int main(int count, char** words) {
  int provided = 0;
  MPI_Init_thread(&count, &words,
                  count > 1 && std::strcmp(words[1], "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                  &provided);
  for (int i = 1; i < count; ++i) {
    const std::string kind = words[i];
    if (kind == "mixed") {
      mixed();
    } else if (kind == "rendezvous") {
      rendezvous();
    } else if (kind == "threads") {
      threads();
    } else {
      one_by_one(kind);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (world().rank == 0) std::printf("around: %s is well\n", words[i]);
    std::fflush(stdout);
  }
  if (world().rank == 0) std::printf("around: well\n");
  MPI_Finalize();
  return 0;
}
