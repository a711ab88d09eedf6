// A delete callback ends with a call on a request, which the compiler turns into a jump: its return address is in the
// MPI, which has called the callback.
//
//   tail_calls KIND...     wait waitall waitany waitsome test testall testany testsome get_status free start startall
//
// Built with -foptimize-sibling-calls. Prints `tail_calls: well` if every rank has received all bytes.
#include <mpi.h>

#include <cstdio>
#include <cstring>

#include "exchange.hpp"
#include "persistent_calls.hpp"

namespace {

constexpr int kRounds = 40;

// Data of the callbacks. They must end in one call, so it is not passed as an argument.
MPI_Request request = MPI_REQUEST_NULL;
int flag = 0;
int found = 0;

int wait(MPI_Comm, int, void*, void*) {
  return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
int waitall(MPI_Comm, int, void*, void*) {
  return MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
}
int waitany(MPI_Comm, int, void*, void*) {
  return MPI_Waitany(1, &request, &found, MPI_STATUS_IGNORE);
}
int waitsome(MPI_Comm, int, void*, void*) {
  return MPI_Waitsome(1, &request, &flag, &found, MPI_STATUSES_IGNORE);
}
int test(MPI_Comm, int, void*, void*) {
  return MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
}
int testall(MPI_Comm, int, void*, void*) {
  return MPI_Testall(1, &request, &flag, MPI_STATUSES_IGNORE);
}
int testany(MPI_Comm, int, void*, void*) {
  return MPI_Testany(1, &request, &found, &flag, MPI_STATUS_IGNORE);
}
int testsome(MPI_Comm, int, void*, void*) {
  return MPI_Testsome(1, &request, &flag, &found, MPI_STATUSES_IGNORE);
}
int get_status(MPI_Comm, int, void*, void*) {
  return MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
}
int free_it(MPI_Comm, int, void*, void*) {
  return MPI_Request_free(&request);
}
int start(MPI_Comm, int, void*, void*) {
  return MPI_Start(&request);
}
int startall(MPI_Comm, int, void*, void*) {
  return MPI_Startall(1, &request);
}

struct Kind {
  const char* name;
  MPI_Comm_delete_attr_function* callback;
  bool persistent;
};
constexpr Kind kKinds[] = {
    {"wait", &wait, false},         {"waitall", &waitall, false},   {"waitany", &waitany, false},
    {"waitsome", &waitsome, false}, {"test", &test, false},         {"testall", &testall, false},
    {"testany", &testany, false},   {"testsome", &testsome, false}, {"get_status", &get_status, false},
    {"free", &free_it, true},       {"start", &start, true},        {"startall", &startall, true},
};

void check(const Exchange& exchange, const char* kind, int round) {
  if (exchange.is_right(round)) return;
  std::printf("tail_calls: %s, round %d, rank %d: wrong bytes\n", kind, round, exchange.rank());
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// Has the MPI call the callback.
class Callback {
 public:
  explicit Callback(MPI_Comm_delete_attr_function* function) {
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, function, &key_, nullptr);
  }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  ~Callback() { MPI_Comm_free_keyval(&key_); }
  void call() const {
    MPI_Comm_set_attr(MPI_COMM_SELF, key_, nullptr);
    MPI_Comm_delete_attr(MPI_COMM_SELF, key_);
  }

 private:
  int key_ = MPI_KEYVAL_INVALID;
};

void nonblocking(const Kind& kind, Exchange& exchange) {
  const Callback callback(kind.callback);
  for (int round = 0; round < kRounds; ++round) {
    exchange.post(round, &request);
    if (std::strcmp(kind.name, "get_status") == 0) {
      for (flag = 0; flag == 0;) callback.call();
    }
    while (request != MPI_REQUEST_NULL && std::strcmp(kind.name, "get_status") != 0) callback.call();
    if (request != MPI_REQUEST_NULL) MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(exchange, kind.name, round);
  }
}

// The first rank does it in the callback, the others themselves.
void persistent_one(const Kind& kind, Exchange& exchange) {
  const Callback callback(kind.callback);
  const bool frees = std::strcmp(kind.name, "free") == 0;
  for (int round = 0; round < kRounds; ++round) {
    exchange.describe(round, &request);
    exchange.rank() == 0 && !frees ? callback.call() : static_cast<void>(MPI_Start(&request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(exchange, kind.name, round);
    exchange.rank() == 0 && frees ? callback.call() : static_cast<void>(MPI_Request_free(&request));
    if (request != MPI_REQUEST_NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

}  // namespace

int main(int count, char** words) {
  MPI_Init(&count, &words);
  Exchange exchange;
  for (int i = 1; i < count; ++i) {
    for (const Kind& kind : kKinds) {
      if (std::strcmp(words[i], kind.name) != 0) continue;
      if (!kind.persistent) {
        nonblocking(kind, exchange);
      } else if (persistent::calls().there()) {
        persistent_one(kind, exchange);
      } else if (exchange.rank() == 0) {
        std::printf("tail_calls: no persistent collectives\n");
      }
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (exchange.rank() == 0) std::printf("tail_calls: well\n");
  MPI_Finalize();
  return 0;
}
