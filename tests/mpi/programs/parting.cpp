// Programs communicate in delete callbacks of MPI_COMM_SELF, the first step of MPI_Finalize:
//
//     parting server       clients tell the server, rank 0, to end, and wait for its answer. For a while it then looks
//                          for messages that no client has sent.
//     parting collectives  collectives are posted, completed and started in callbacks; the last one set runs first
//     parting failing      the last callback returns an error
#include <mpi.h>

#include <array>
#include <cstdio>
#include <string_view>

namespace {

constexpr int kWork = 1;
constexpr int kEnd = 2;
constexpr int kAnswer = 3;
constexpr double kLookSeconds = 0.2;

int rank = 0;
int size = 0;

void say(const char* what, bool right) {
  if (rank == 0) std::printf("%s: %s\n", what, right ? "right" : "WRONG");
  std::fflush(stdout);
}

using Deleter = int (*)(MPI_Comm, int, void*, void*);

void at_finalize(Deleter callback, void* state = nullptr) {
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, callback, &keyval, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, state);
  MPI_Comm_free_keyval(&keyval);
}

int ask_server(int tag) {
  int word = rank;
  MPI_Send(&word, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
  MPI_Recv(&word, 1, MPI_INT, 0, kAnswer, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return word;
}

int end_server(MPI_Comm /*comm*/, int /*keyval*/, void* /*value*/, void* /*extra*/) {
  const bool right = ask_server(kEnd) == 2 * rank;
  if (rank == size - 1 && right) std::printf("the last client has its answer\n");
  std::fflush(stdout);
  return MPI_SUCCESS;
}

void serve() {
  for (int clients = size - 1; clients > 0;) {
    int word = 0;
    MPI_Status status;
    MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    word *= 2;
    MPI_Send(&word, 1, MPI_INT, status.MPI_SOURCE, kAnswer, MPI_COMM_WORLD);
    if (status.MPI_TAG == kEnd) --clients;
  }
  const double began = MPI_Wtime();
  int found = 0;
  while (found == 0 && MPI_Wtime() < began + kLookSeconds) {
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
  }
  say("no message of others", found == 0);
}

// A sum over all ranks.
struct Sum {
  int mine = rank + 1;
  int sum = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  void post() { MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request); }
  bool wait() {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return sum == size * (size + 1) / 2;
  }
};

int finish_sum(MPI_Comm /*comm*/, int /*keyval*/, void* value, void* /*extra*/) {
  say("posted before, completed in a callback", static_cast<Sum*>(value)->wait());
  return MPI_SUCCESS;
}

int make_sums(MPI_Comm /*comm*/, int /*keyval*/, void* /*value*/, void* /*extra*/) {
  Sum sum;
  sum.post();
  say("posted and completed in a callback", sum.wait());
  Sum blocking;
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Allreduce(&blocking.mine, &blocking.sum, 1, MPI_INT, MPI_SUM, made);
  MPI_Comm_free(&made);
  say("blocking, in a callback", blocking.wait());
  int finalized = 0;
  MPI_Finalized(&finalized);
  say("not finalized yet", finalized == 0);
  return MPI_SUCCESS;
}

int note_order(MPI_Comm /*comm*/, int /*keyval*/, void* value, void* /*extra*/) {
  static int last = 3;
  say("the last one set comes first", *static_cast<int*>(value) == --last);
  return MPI_SUCCESS;
}

int refuse(MPI_Comm /*comm*/, int /*keyval*/, void* /*value*/, void* /*extra*/) {
  return MPI_ERR_OTHER;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string_view mode = argc > 1 ? argv[1] : "server";
  Sum first;
  first.post();
  say("before", first.wait());

  Sum posted;
  std::array<int, 3> order{0, 1, 2};
  if (mode == "server" && rank != 0) {
    at_finalize(&end_server);
    ask_server(kWork);
  } else if (mode == "server") {
    serve();
  } else if (mode == "failing") {
    at_finalize(&refuse);
  } else {
    for (int& place : order) at_finalize(&note_order, &place);
    at_finalize(&make_sums);
    posted.post();
    at_finalize(&finish_sum, &posted);
  }
  const int code = MPI_Finalize();
  say("MPI_Finalize", code == MPI_SUCCESS);
  return 0;
}
