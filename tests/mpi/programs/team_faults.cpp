// Ranks that do collectives by themselves, one of which then does something else, which MPI forbids, or ends.
//
//   team_faults FAULT [returns]     returns: errors return, and are printed and added to the file TEAM_FAULTS_FILE
//
// The last rank is the one at fault.

#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace {

int rank = 0;
int size = 0;
bool errors_return = false;

void check(const char* what, int code) {
  if (code == MPI_SUCCESS) return;
  int error_class = 0;
  MPI_Error_class(code, &error_class);
  const char* name = error_class == MPI_ERR_TRUNCATE ? "MPI_ERR_TRUNCATE"
                     : error_class == MPI_ERR_OTHER  ? "MPI_ERR_OTHER"
                                                     : "another class";
  std::printf("team_faults: %s on rank %d: %s\n", what, rank, name);
  std::fflush(stdout);
  if (!errors_return) return;
  // Launchers may lose what a rank prints before it aborts.
  if (std::FILE* file = std::fopen(std::getenv("TEAM_FAULTS_FILE"), "a")) {
    std::fprintf(file, "%s on rank %d: %s\n", what, rank, name);
    std::fclose(file);
  }
  MPI_Abort(MPI_COMM_WORLD, 3);
}

void add_ints(void* from, void* into, int* count, MPI_Datatype* /*type*/) {
  for (int i = 0; i < *count; ++i) static_cast<int*>(into)[i] += static_cast<int*>(from)[i];
}

struct Buffers {
  std::vector<char> send = std::vector<char>(std::size_t{4} << 20, 1);
  std::vector<char> receive = std::vector<char>(std::size_t{4} << 20);
};

void some_collectives(Buffers& buffers, int calls) {
  for (int i = 0; i < calls; ++i) {
    char* send = buffers.send.data();
    char* receive = buffers.receive.data();
    check("allreduce", MPI_Allreduce(send, receive, 64, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    check("bcast", MPI_Bcast(send, 1 << 18, MPI_CHAR, 0, MPI_COMM_WORLD));
    check("alltoall", MPI_Alltoall(send, 1000, MPI_CHAR, receive, 1000, MPI_CHAR, MPI_COMM_WORLD));
  }
}

// Calls that differ.

void other_collective(Buffers& b, bool at_fault) {
  if (at_fault) {
    check("barrier", MPI_Barrier(MPI_COMM_WORLD));
  } else {
    check("bcast", MPI_Bcast(b.send.data(), 8, MPI_CHAR, 0, MPI_COMM_WORLD));
  }
}

void other_root(Buffers& b, bool at_fault) {
  check("bcast", MPI_Bcast(b.send.data(), 8, MPI_CHAR, at_fault ? size - 1 : 0, MPI_COMM_WORLD));
}

void other_roots_of_gather(Buffers& b, bool at_fault) {
  const int root = at_fault ? size - 1 : 0;
  check("gather", MPI_Gather(b.send.data(), 8, MPI_CHAR, b.receive.data(), 8, MPI_CHAR, root, MPI_COMM_WORLD));
}

void other_size(Buffers& b, bool at_fault) {
  check("bcast", MPI_Bcast(b.send.data(), at_fault ? 1 << 20 : 8, MPI_CHAR, 0, MPI_COMM_WORLD));
}

// The ranks do no operation of the program's own.
void other_way(Buffers& b, bool at_fault) {
  MPI_Op own = MPI_OP_NULL;
  MPI_Op_create(&add_ints, 1, &own);
  check("allreduce",
        MPI_Allreduce(b.send.data(), b.receive.data(), 16, MPI_INT, at_fault ? own : MPI_MAX, MPI_COMM_WORLD));
  MPI_Op_free(&own);
}

void longer_gatherv(Buffers& b, bool at_fault) {
  std::vector<int> counts(static_cast<std::size_t>(size), 100);
  std::vector<int> places(counts.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int>(100 * i);
  check("gatherv", MPI_Gatherv(b.send.data(), at_fault ? 200'000 : 100, MPI_CHAR, b.receive.data(), counts.data(),
                               places.data(), MPI_CHAR, 0, MPI_COMM_WORLD));
}

void shorter_alltoallv(Buffers& b, bool at_fault) {
  std::vector<int> sent(static_cast<std::size_t>(size), at_fault ? 40 : 100);
  std::vector<int> received(sent.size(), 100);
  std::vector<int> places(sent.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int>(100 * i);
  check("alltoallv", MPI_Alltoallv(b.send.data(), sent.data(), places.data(), MPI_CHAR, b.receive.data(),
                                   received.data(), places.data(), MPI_CHAR, MPI_COMM_WORLD));
}

// Ends of a rank.

void killed(Buffers& b, bool at_fault) {
  if (at_fault) ::kill(::getpid(), SIGKILL);
  some_collectives(b, 1'000'000);
}

void aborted(Buffers& b, bool at_fault) {
  if (at_fault) MPI_Abort(MPI_COMM_WORLD, 7);
  some_collectives(b, 1'000'000);
}

void exited(Buffers& b, bool at_fault) {
  if (at_fault) std::exit(0);
  some_collectives(b, 1'000'000);
}

void late(Buffers& b, bool at_fault) {
  if (at_fault) ::sleep(12);
  some_collectives(b, 1);
}

using Fault = void (*)(Buffers&, bool);
const std::map<std::string, Fault> kFaults{{"other_collective", &other_collective},
                                           {"other_root", &other_root},
                                           {"other_roots_of_gather", &other_roots_of_gather},
                                           {"other_size", &other_size},
                                           {"other_way", &other_way},
                                           {"longer_gatherv", &longer_gatherv},
                                           {"shorter_alltoallv", &shorter_alltoallv},
                                           {"killed", &killed},
                                           {"aborted", &aborted},
                                           {"exited", &exited},
                                           {"late", &late}};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto fault = argc < 2 ? kFaults.end() : kFaults.find(argv[1]);
  if (fault == kFaults.end()) MPI_Abort(MPI_COMM_WORLD, 2);
  errors_return = argc > 2;
  if (errors_return) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Buffers buffers;
  some_collectives(buffers, 20);
  fault->second(buffers, rank == size - 1);
  some_collectives(buffers, 20);
  MPI_Finalize();
  return 0;
}
