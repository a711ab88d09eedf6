// Tests that waiting for an offloaded operation drives the native MPI too. Rank 0 has a large native send to rank 1
// outstanding, which is late. Rank 0 then waits for an all-to-all that rank 1 enters only after it has received the
// message. If the native MPI has no single-copy mechanism, the message moves only while rank 0 is inside MPI: in the
// wait for the all-to-all. Repeated for every kind of send and every completion call.
//
//   rendezvous [MIB]      size of the message, default 16 MiB; two ranks or more

#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

enum class Completion { wait, wait_all, wait_any, wait_some, test, test_all, test_any, test_some, get_status, count };
enum class Sending { immediate, persistent, synchronous, count };
constexpr int watchdog_s = 30;
constexpr useconds_t late_us = 30'000;

const char* const completion_names[] = {"Wait",    "Waitall", "Waitany",  "Waitsome",          "Test",
                                        "Testall", "Testany", "Testsome", "Request_get_status"};
const char* const sending_names[] = {"MPI_Isend", "MPI_Start", "MPI_Issend"};

// Waits for one request with the given call.
void complete(MPI_Request* request, Completion how) {
  int done = 0;
  int index = 0;
  while (done == 0) {
    switch (how) {
      case Completion::wait: done = MPI_Wait(request, MPI_STATUS_IGNORE) == MPI_SUCCESS; break;
      case Completion::wait_all: done = MPI_Waitall(1, request, MPI_STATUSES_IGNORE) == MPI_SUCCESS; break;
      case Completion::wait_any: done = MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE) == MPI_SUCCESS; break;
      case Completion::wait_some: MPI_Waitsome(1, request, &done, &index, MPI_STATUSES_IGNORE); break;
      case Completion::test: MPI_Test(request, &done, MPI_STATUS_IGNORE); break;
      case Completion::test_all: MPI_Testall(1, request, &done, MPI_STATUSES_IGNORE); break;
      case Completion::test_any: MPI_Testany(1, request, &index, &done, MPI_STATUS_IGNORE); break;
      case Completion::test_some: MPI_Testsome(1, request, &done, &index, MPI_STATUSES_IGNORE); break;
      default:
        MPI_Request_get_status(*request, &done, MPI_STATUS_IGNORE);
        if (done != 0) MPI_Wait(request, MPI_STATUS_IGNORE);
    }
    if (done == 0) sched_yield();
  }
}

MPI_Request start_sending(std::vector<int>& message, Sending how) {
  MPI_Request request;
  const int count = static_cast<int>(message.size());
  switch (how) {
    case Sending::immediate: MPI_Isend(message.data(), count, MPI_INT, 1, 5, MPI_COMM_WORLD, &request); break;
    case Sending::synchronous: MPI_Issend(message.data(), count, MPI_INT, 1, 5, MPI_COMM_WORLD, &request); break;
    default: MPI_Send_init(message.data(), count, MPI_INT, 1, 5, MPI_COMM_WORLD, &request); MPI_Start(&request);
  }
  return request;
}

void receive_late(std::vector<int>& message, int first) {
  usleep(late_us);
  MPI_Recv(message.data(), static_cast<int>(message.size()), MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (std::size_t i = 0; i < message.size(); ++i) {
    if (message[i] == first + static_cast<int>(i)) continue;
    std::fprintf(stderr, "rendezvous: element %zu of the message is %d\n", i, message[i]);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

void round(int rank, int size, std::vector<int>& message, Completion completion, Sending sending, int first) {
  MPI_Request sent = MPI_REQUEST_NULL;
  if (rank == 0) {
    for (std::size_t i = 0; i < message.size(); ++i) message[i] = first + static_cast<int>(i);
    sent = start_sending(message, sending);
  }
  if (rank == 1) receive_late(message, first);  // only then does this rank enter the all-to-all
  std::vector<int> send(static_cast<std::size_t>(size), rank);
  std::vector<int> received(static_cast<std::size_t>(size), -1);
  MPI_Request request;
  MPI_Ialltoall(send.data(), 1, MPI_INT, received.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
  complete(&request, completion);
  for (int peer = 0; peer < size; ++peer) {
    if (received[static_cast<std::size_t>(peer)] != peer) MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (rank != 0) return;
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  if (sending == Sending::persistent) MPI_Request_free(&sent);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  int size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size < 2) {
    std::fprintf(stderr, "rendezvous: needs two ranks or more\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int mib = argc > 1 ? std::atoi(argv[1]) : 16;
  std::vector<int> message(static_cast<std::size_t>(mib) << 18);
  int first = 0;
  for (int sending = 0; sending < static_cast<int>(Sending::count); ++sending) {
    for (int completion = 0; completion < static_cast<int>(Completion::count); ++completion) {
      if (rank == 0) {
        std::printf("rendezvous: %s, MPI_%s\n", sending_names[sending], completion_names[completion]);
        std::fflush(stdout);
      }
      alarm(watchdog_s);  // a hang ends the program; the last line shows the place
      round(rank, size, message, static_cast<Completion>(completion), static_cast<Sending>(sending), first += 17);
    }
  }
  MPI_Finalize();
  if (rank == 0) std::printf("rendezvous: all went through\n");
  return 0;
}
