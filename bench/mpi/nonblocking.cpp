// Small nonblocking collectives and their waits: on a communicator with the defaults and on one that is switched off,
// in turn, in one run. Prints the median time of a call and its wait at the slower rank, in microseconds.
//
//     nonblocking [CALLS [ROUNDS]]
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace {

using Buffer = std::vector<char>;

struct Call {
  const char* name;
  std::function<void(int bytes, MPI_Comm comm, MPI_Request* request)> post;
};

std::vector<Call> calls_on(Buffer& send, Buffer& receive) {
  return {
      {"Ibarrier", [](int, MPI_Comm comm, MPI_Request* request) { MPI_Ibarrier(comm, request); }},
      {"Ibcast", [&](int bytes, MPI_Comm comm,
                     MPI_Request* request) { MPI_Ibcast(send.data(), bytes, MPI_BYTE, 0, comm, request); }},
      {"Iallgather",
       [&](int bytes, MPI_Comm comm, MPI_Request* request) {
         MPI_Iallgather(send.data(), bytes, MPI_BYTE, receive.data(), bytes, MPI_BYTE, comm, request);
       }},
      {"Ialltoall",
       [&](int bytes, MPI_Comm comm, MPI_Request* request) {
         MPI_Ialltoall(send.data(), bytes, MPI_BYTE, receive.data(), bytes, MPI_BYTE, comm, request);
       }},
      {"Iallreduce",
       [&](int bytes, MPI_Comm comm, MPI_Request* request) {
         MPI_Iallreduce(send.data(), receive.data(), bytes / 4, MPI_INT, MPI_SUM, comm, request);
       }},
  };
}

// Microseconds of a call.
double time_of(const Call& call, int bytes, int count, MPI_Comm comm) {
  MPI_Barrier(comm);
  const double began = MPI_Wtime();
  for (int i = 0; i < count; ++i) {
    MPI_Request request{};
    call.post(bytes, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  return (MPI_Wtime() - began) / count * 1e6;
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

MPI_Comm switched_off() {
  MPI_Info info{};
  MPI_Info_create(&info);
  MPI_Info_set(info, "outrigger", "off");
  MPI_Comm comm{};
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  MPI_Info_free(&info);
  return comm;
}

void compare(const Call& call, int bytes, int count, int rounds, const std::array<MPI_Comm, 2>& comms, int rank) {
  std::array<std::vector<double>, 2> times;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t way = 0; way < 2; ++way) times[way].push_back(time_of(call, bytes, count, comms[way]));
  }
  const std::array<double, 2> mine{median(times[0]), median(times[1])};
  std::array<double, 2> slowest{};
  MPI_Reduce(mine.data(), slowest.data(), 2, MPI_DOUBLE, MPI_MAX, 0, comms[1]);
  if (rank != 0) return;
  std::printf("%-11s %5d B  by default %7.3f us  native %7.3f us  ratio %.2f\n", call.name, bytes, slowest[0],
              slowest[1], slowest[0] / slowest[1]);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int count = argc > 1 ? std::atoi(argv[1]) : 300;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 31;
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  constexpr std::array kSizes{8, 64, 512, 1024, 2048, 4096, 8192};
  Buffer send(static_cast<std::size_t>(size) * kSizes.back(), 1);
  Buffer receive(send.size());
  std::array<MPI_Comm, 2> comms{};
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
  comms[1] = switched_off();
  for (int i = 0; i < 40; ++i) MPI_Barrier(comms[0]);  // from the 16th on the ranks share memory
  for (const Call& call : calls_on(send, receive)) {
    for (const int bytes : kSizes) compare(call, bytes, count, rounds, comms, rank);
  }
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
