// A collective whose counts differ between ranks, which MPI forbids: one rank passes few bytes, the others many.
//
//   differing_counts CALL FORM RANK     CALL: gather, scatter, bcast, reduce or alltoall
//                                       FORM: nonblocking, blocking or persistent; RANK: the one with few
//
// With a limit between the two sizes the call is native on that rank only.

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "persistent_calls.hpp"

namespace {

constexpr int kFew = 1;
constexpr int kMany = 16384;

struct Counts {
  int mine = 0;
  std::vector<char> send;
  std::vector<char> receive;
};

void call_blocking(const std::string& call, Counts& all) {
  const int count = all.mine;
  char* send = all.send.data();
  char* receive = all.receive.data();
  if (call == "gather") MPI_Gather(send, count, MPI_CHAR, receive, count, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (call == "scatter") MPI_Scatter(send, count, MPI_CHAR, receive, count, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (call == "bcast") MPI_Bcast(send, count, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (call == "reduce") MPI_Reduce(send, receive, count, MPI_SIGNED_CHAR, MPI_MAX, 0, MPI_COMM_WORLD);
  if (call == "alltoall") MPI_Alltoall(send, count, MPI_CHAR, receive, count, MPI_CHAR, MPI_COMM_WORLD);
}

MPI_Request start(const std::string& call, Counts& all) {
  const int count = all.mine;
  char* send = all.send.data();
  char* receive = all.receive.data();
  MPI_Request request = MPI_REQUEST_NULL;
  if (call == "gather") MPI_Igather(send, count, MPI_CHAR, receive, count, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
  if (call == "scatter") MPI_Iscatter(send, count, MPI_CHAR, receive, count, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
  if (call == "bcast") MPI_Ibcast(send, count, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
  if (call == "reduce") MPI_Ireduce(send, receive, count, MPI_SIGNED_CHAR, MPI_MAX, 0, MPI_COMM_WORLD, &request);
  if (call == "alltoall") MPI_Ialltoall(send, count, MPI_CHAR, receive, count, MPI_CHAR, MPI_COMM_WORLD, &request);
  return request;
}

// MPI_REQUEST_NULL: the MPI has no persistent collectives.
MPI_Request start_persistent(const std::string& call, Counts& all) {
  const persistent::Calls& calls = persistent::calls();
  const int count = all.mine;
  char* send = all.send.data();
  char* receive = all.receive.data();
  const MPI_Info info = MPI_INFO_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  if (!calls.there()) return request;
  if (call == "gather")
    calls.gather(send, count, MPI_CHAR, receive, count, MPI_CHAR, 0, MPI_COMM_WORLD, info, &request);
  if (call == "scatter")
    calls.scatter(send, count, MPI_CHAR, receive, count, MPI_CHAR, 0, MPI_COMM_WORLD, info, &request);
  if (call == "bcast") calls.bcast(send, count, MPI_CHAR, 0, MPI_COMM_WORLD, info, &request);
  if (call == "reduce") calls.reduce(send, receive, count, MPI_SIGNED_CHAR, MPI_MAX, 0, MPI_COMM_WORLD, info, &request);
  if (call == "alltoall")
    calls.alltoall(send, count, MPI_CHAR, receive, count, MPI_CHAR, MPI_COMM_WORLD, info, &request);
  MPI_Start(&request);
  return request;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const std::string call = argv[1];
  const std::string form = argv[2];
  const std::size_t bytes = static_cast<std::size_t>(size) * kMany;
  Counts all{rank == std::atoi(argv[3]) ? kFew : kMany, std::vector<char>(bytes, 1), std::vector<char>(bytes, 0)};
  // Some earlier native calls, equal on all ranks.
  for (int i = 0; i < 3; ++i) MPI_Bcast(all.receive.data(), kFew, MPI_CHAR, 0, MPI_COMM_WORLD);
  MPI_Request early = MPI_REQUEST_NULL;
  MPI_Ibcast(all.receive.data(), kFew, MPI_CHAR, 0, MPI_COMM_WORLD, &early);
  MPI_Wait(&early, MPI_STATUS_IGNORE);
  if (form == "blocking") {
    call_blocking(call, all);
  } else {
    MPI_Request request = form == "persistent" ? start_persistent(call, all) : start(call, all);
    if (request == MPI_REQUEST_NULL) std::printf("differing_counts: none\n");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (form == "persistent" && request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
  MPI_Barrier(MPI_COMM_WORLD);  // a rank that leaves is lost to waiting ranks
  MPI_Finalize();
  return 0;
}
