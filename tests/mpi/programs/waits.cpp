// Messages and synchronization of all blocking kinds between neighbors on a ring. Prints what is wrong, and how often
// a rank slept while it waited in each kind of call.
#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

int rank = 0;
int size = 0;
int problems = 0;
int handled = 0;
int handled_class = MPI_SUCCESS;

void check(bool right, const char* what) {
  if (right) return;
  std::printf("rank %d: wrong: %s\n", rank, what);
  ++problems;
}

std::vector<int> message(int from, int round, int count) {
  std::vector<int> words(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) words[static_cast<std::size_t>(i)] = from * 1000003 + round * 1009 + i;
  return words;
}

void receive(std::mt19937& random, int left, int tag, std::vector<int>& into) {
  const int count = static_cast<int>(into.size());
  MPI_Status status{};
  MPI_Message found{};
  switch (random() % 3) {
    case 0: MPI_Recv(into.data(), count, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status); break;
    case 1:
      MPI_Probe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      MPI_Recv(into.data(), count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
      break;
    default:
      MPI_Mprobe(left, tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
      MPI_Mrecv(into.data(), count, MPI_INT, &found, &status);
      break;
  }
  int received = 0;
  MPI_Get_count(&status, MPI_INT, &received);
  check(received == count && status.MPI_SOURCE == left && status.MPI_TAG == tag, "status");
}

void exchange(std::mt19937& random, int round) {
  const int left = (rank + size - 1) % size;
  const int right = (rank + 1) % size;
  const int count = 1 << random() % 18;
  const int tag = round % 100;
  std::vector<int> sent = message(rank, round, count);
  std::vector<int> received(sent.size());
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  const bool synchronous = random() % 2 != 0;
  int index = 0;
  int some = 0;
  std::array<int, 2> indices{};
  switch (random() % 5) {
    case 0:
      if (synchronous) {
        MPI_Issend(sent.data(), count, MPI_INT, right, tag, MPI_COMM_WORLD, requests.data());
      } else {
        MPI_Isend(sent.data(), count, MPI_INT, right, tag, MPI_COMM_WORLD, requests.data());
      }
      receive(random, left, tag, received);
      MPI_Wait(requests.data(), MPI_STATUS_IGNORE);
      break;
    case 1:
      if (rank % 2 == 0) MPI_Ssend(sent.data(), count, MPI_INT, right, tag, MPI_COMM_WORLD);
      receive(random, left, tag, received);
      if (rank % 2 != 0) MPI_Send(sent.data(), count, MPI_INT, right, tag, MPI_COMM_WORLD);
      break;
    case 2:
      MPI_Sendrecv(sent.data(), count, MPI_INT, right, tag, received.data(), count, MPI_INT, left, tag, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      break;
    case 3:
      received = sent;
      MPI_Sendrecv_replace(received.data(), count, MPI_INT, right, tag, left, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      break;
    default:
      MPI_Irecv(received.data(), count, MPI_INT, left, tag, MPI_COMM_WORLD, requests.data());
      MPI_Isend(sent.data(), count, MPI_INT, right, tag, MPI_COMM_WORLD, requests.data() + 1);
      MPI_Waitany(2, requests.data(), &index, MPI_STATUS_IGNORE);
      MPI_Waitsome(2, requests.data(), &some, indices.data(), MPI_STATUSES_IGNORE);
      check(some == 1 && indices[0] != index, "indices");
      MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
      break;
  }
  check(received == message(left, round, count), "bytes");
}

int class_of(int code) {
  int error_class = 0;
  MPI_Error_class(code, &error_class);
  return error_class;
}

void note_error(MPI_Comm* /*comm*/, int* code, ...) {
  ++handled;
  handled_class = class_of(*code);
}

int receive_too_little(MPI_Comm comm) {
  std::array<int, 4> words{};
  if (rank == 0) MPI_Send(words.data(), 4, MPI_INT, 1, 0, comm);
  return rank == 1 ? MPI_Recv(words.data(), 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE) : MPI_SUCCESS;
}

// The communicator's own handler is called once. MPICH 5 returns MPI_SUCCESS after that.
void truncated_message() {
  MPI_Comm comm{};
  MPI_Errhandler handler{};
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_errhandler(&note_error, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  receive_too_little(comm);
  if (rank == 1) check(handled == 1 && handled_class == MPI_ERR_TRUNCATE, "truncated message with a handler");
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  const int code = receive_too_little(comm);
  if (rank == 1) check(class_of(code) == MPI_ERR_TRUNCATE, "truncated message");
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&comm);
}

void cancelled_receive() {
  int word = 0;
  int cancelled = 0;
  MPI_Request request{};
  MPI_Status status{};
  MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 777, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  check(cancelled != 0, "cancelled receive");
}

void synchronize_window() {
  int word = -1;
  MPI_Win window{};
  MPI_Win_create(&word, sizeof(word), sizeof(word), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  check(word == (rank + size - 1) % size, "window");
  MPI_Win_free(&window);
}

long sleeps() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nvcsw;
}

// Rank 0 comes late.
template <class Call>
void wait_for_rank_0(const char* name, const Call& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) usleep(200'000);
  const long before = sleeps();
  call();
  if (rank == 1) std::printf("%s: %ld sleeps\n", name, sleeps() - before);
}

void wait_in_each_call() {
  int word = 0;
  double sum = rank;
  wait_for_rank_0("receive", [&] {
    if (rank == 0) MPI_Send(&word, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  });
  wait_for_rank_0("send", [&] {
    if (rank == 0) MPI_Recv(&word, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Ssend(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
  });
  wait_for_rank_0("reduction", [&] {
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check(sum == size * (size - 1) / 2.0, "sum");
  });
  wait_for_rank_0("duplication", [] {
    MPI_Comm comm{};
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_free(&comm);
  });
}

}  // namespace

int main(int count, char** words) {
  const int rounds = count > 1 ? std::atoi(words[1]) : 100;
  int provided = 0;
  MPI_Init_thread(&count, &words, count > 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::mt19937 random(static_cast<unsigned>(size));  // all ranks draw alike
  for (int round = 0; round < rounds; ++round) exchange(random, round);
  truncated_message();
  cancelled_receive();
  synchronize_window();
  wait_in_each_call();
  int all = 0;
  MPI_Allreduce(&problems, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) std::printf("no difference\n");
  MPI_Finalize();
}
