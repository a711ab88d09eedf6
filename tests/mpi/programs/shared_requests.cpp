// Calls that complete an operation together with requests that only the MPI progresses, or with other threads.
//
//   shared_requests file PATH    one Waitall on a collective and on a collective write to a file
//   shared_requests threads N    N threads test one request: one of them gets it, the others find none
//
// Prints `shared_requests: well` if every rank has received all bytes.
#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "exchange.hpp"

namespace {

constexpr int kRounds = 30;
constexpr int kThreadRounds = 400;
constexpr int kBlock = Exchange::kBlock;

void fail(const std::string& why) {
  std::printf("shared_requests: %s\n", why.c_str());
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

void check(const Exchange& exchange, int round) {
  if (!exchange.is_right(round)) fail("round " + std::to_string(round) + ": wrong bytes");
}

// The collective is posted before or after the write; the last rank is late to one of them, alternately.
void with_file(const char* path) {
  Exchange exchange;
  Exchange other;
  MPI_File file = MPI_FILE_NULL;
  if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS) {
    fail("cannot open the file");
  }
  const std::vector<int> written(kBlock, exchange.rank());
  // The ranks' elements alternate, so that written data passes through other ranks.
  MPI_Datatype alternate = MPI_DATATYPE_NULL;
  MPI_Type_vector(kBlock, 1, exchange.size(), MPI_INT, &alternate);
  MPI_Type_commit(&alternate);
  MPI_File_set_view(file, exchange.rank() * static_cast<MPI_Offset>(sizeof(int)), MPI_INT, alternate, "native",
                    MPI_INFO_NULL);
  for (int round = 0; round < kRounds; ++round) {
    std::array<MPI_Request, 3> requests{};
    std::array<MPI_Status, 3> statuses{};
    exchange.post(round, &requests[0]);
    MPI_File_iwrite_at_all(file, 0, written.data(), kBlock, MPI_INT, &requests[1]);
    if (exchange.rank() == 1 && round % 2 == 1) MPI_Wait(&requests[1], &statuses[1]);  // before it posts the last one
    other.post(round + 1, &requests[2]);
    MPI_Waitall(3, requests.data(), statuses.data());
    check(exchange, round);
    check(other, round + 1);
    int count = 0;
    MPI_Get_count(&statuses[1], MPI_INT, &count);
    if (count != kBlock && !(exchange.rank() == 1 && round % 2 == 1)) fail("wrong count of what was written");
  }
  MPI_File_close(&file);
  MPI_Type_free(&alternate);
}

void complete(int number, MPI_Request* request) {
  int flag = 0;
  int found = 0;
  while (flag == 0) {
    if (number % 3 == 0) MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    if (number % 3 == 1) MPI_Testall(1, request, &flag, MPI_STATUSES_IGNORE);
    if (number % 3 == 2) MPI_Testany(1, request, &found, &flag, MPI_STATUS_IGNORE);
  }
}

void with_threads(int threads) {
  Exchange exchange;
  MPI_Request request = MPI_REQUEST_NULL;
  std::atomic<int> round = -1;
  std::atomic<int> through = 0;
  std::vector<std::thread> all;
  for (int number = 0; number < threads; ++number) {
    all.emplace_back([&, number] {
      for (int mine = 0; mine < kThreadRounds; ++mine) {
        while (round.load() < mine) std::this_thread::yield();
        complete(number, &request);
        through.fetch_add(1);
      }
    });
  }
  for (int current = 0; current < kThreadRounds; ++current) {
    exchange.post(current, &request);
    through.store(0);
    round.store(current);
    while (through.load() < threads) std::this_thread::yield();
    if (request != MPI_REQUEST_NULL) fail("the request is still there");
    check(exchange, current);
  }
  for (std::thread& thread : all) thread.join();
}

}  // namespace

int main(int count, char** words) {
  const bool threads = count > 2 && std::strcmp(words[1], "threads") == 0;
  int provided = 0;
  MPI_Init_thread(&count, &words, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  if (count < 3 || (threads && provided < MPI_THREAD_MULTIPLE)) fail("usage: shared_requests file PATH | threads N");
  threads ? with_threads(std::atoi(words[2])) : with_file(words[2]);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::printf("shared_requests: well\n");
  MPI_Finalize();
  return 0;
}
