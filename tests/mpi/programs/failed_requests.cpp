// One call completes a collective together with requests, one of which fails.
//
//   failed_requests [early|late]    the collective ends before or after the others
//
// Rank 1 sends too much for one of rank 0's requests. Rank 0 must get that error from MPI_Waitall and MPI_Testall, and
// each status must have its request's result. Prints `failed_requests: well` then.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kBlock = 4096;
constexpr int kRounds = 10;
constexpr int kTooShort = 4;
constexpr int kSent = 12;
constexpr int kUntouched = 123456;
constexpr auto kNap = std::chrono::milliseconds(20);

int rank = 0;
int freed = 0;

void fail(const std::string& why) {
  std::printf("failed_requests: rank %d: %s\n", rank, why.c_str());
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int class_of(int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  return error_class;
}

int query(void* /*state*/, MPI_Status* status) {
  MPI_Status_set_elements(status, MPI_BYTE, 0);
  MPI_Status_set_cancelled(status, 0);
  return MPI_SUCCESS;
}
int count_free(void* /*state*/) {
  ++freed;
  return MPI_SUCCESS;
}
int cancel(void* /*state*/, int /*complete*/) {
  return MPI_SUCCESS;
}

struct Exchange {
  explicit Exchange(int size) : sent(static_cast<std::size_t>(size) * kBlock, rank), received(sent.size()) {}
  void post(MPI_Request* request) {
    std::fill(received.begin(), received.end(), -1);
    MPI_Ialltoall(sent.data(), kBlock, MPI_INT, received.data(), kBlock, MPI_INT, MPI_COMM_WORLD, request);
  }
  void check() const {
    for (std::size_t i = 0; i < received.size(); ++i) {
      if (received[i] != static_cast<int>(i / kBlock)) return fail("wrong bytes");
    }
  }
  std::vector<int> sent;
  std::vector<int> received;
};

enum Place : int { too_short, collective, own, received, places };

// `order[i]`: the request at place i of the array.
struct Requests {
  std::array<MPI_Request, places> list{};
  std::array<MPI_Status, places> statuses{};
  std::array<bool, places> seen{};  // completed, by place
  int errors = 0;

  // One call has returned `code`; all: it reports that everything is complete.
  void look(int code, bool all, const std::array<int, places>& order, bool every_error_is_set) {
    const bool failed = code != MPI_SUCCESS;
    if (failed && class_of(code) != MPI_ERR_IN_STATUS) fail("code of class " + std::to_string(class_of(code)));
    if (!failed && !all) return;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const bool gone = list[i] == MPI_REQUEST_NULL;
      if (!gone && !failed) fail("a request is left");
      if (seen[i]) continue;  // null when the call began
      seen[i] = gone;
      const int error = statuses[i].MPI_ERROR;
      if (!failed && !every_error_is_set) continue;
      if (gone && order[i] != too_short && error != MPI_SUCCESS) fail("an error that did not happen");
      if (gone && order[i] == too_short) {
        if (class_of(error) != MPI_ERR_TRUNCATE) fail("the error is lost");
        ++errors;
      }
      if (!gone && class_of(error) != MPI_ERR_PENDING) fail("a request that is left is not pending");
    }
  }
  [[nodiscard]] bool done() const {
    return std::all_of(list.begin(), list.end(), [](MPI_Request request) { return request == MPI_REQUEST_NULL; });
  }
};

void take(Exchange& exchange, std::array<int, places> order, bool waits) {
  Requests requests;
  std::array<std::array<char, kSent>, places> room{};
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] == collective) exchange.post(&requests.list[i]);
    if (order[i] == own) {
      MPI_Grequest_start(&query, &count_free, &cancel, nullptr, &requests.list[i]);
      MPI_Grequest_complete(requests.list[i]);
    }
    if (order[i] == too_short || order[i] == received) {
      MPI_Irecv(room[i].data(), order[i] == too_short ? kTooShort : kSent, MPI_BYTE, 1, order[i], MPI_COMM_WORLD,
                &requests.list[i]);
    }
  }
  const int freed_before = freed;
  while (!requests.done()) {
    for (MPI_Status& status : requests.statuses) status.MPI_ERROR = kUntouched;
    int flag = 1;
    const int code = waits ? MPI_Waitall(places, requests.list.data(), requests.statuses.data())
                           : MPI_Testall(places, requests.list.data(), &flag, requests.statuses.data());
    requests.look(code, flag != 0, order, waits);
  }
  if (requests.errors != 1) fail("the error came " + std::to_string(requests.errors) + " times");
  if (freed != freed_before + 1) fail("a request of the program's own was freed " + std::to_string(freed) + " times");
  exchange.check();
}

void give(Exchange& exchange, bool collective_first) {
  const std::array<char, kSent> bytes{};
  MPI_Request request = MPI_REQUEST_NULL;
  if (collective_first) exchange.post(&request);
  std::this_thread::sleep_for(kNap);
  for (const int tag : {too_short, received}) MPI_Send(bytes.data(), kSent, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
  std::this_thread::sleep_for(kNap);
  if (!collective_first) exchange.post(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  exchange.check();
}

}  // namespace

int main(int count, char** words) {
  MPI_Init(&count, &words);
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (count < 2 || size != 2) fail("usage: failed_requests early|late, 2 ranks");
  const bool early = std::strcmp(words[1], "early") == 0;
  Exchange exchange(size);
  std::array<int, places> order{too_short, collective, own, received};
  for (int round = 0; round < kRounds; ++round) {
    for (const bool waits : {true, false}) {
      MPI_Barrier(MPI_COMM_WORLD);
      rank == 0 ? take(exchange, order, waits) : give(exchange, early);
    }
    std::next_permutation(order.begin(), order.end());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::printf("failed_requests: well\n");
  MPI_Finalize();
  return 0;
}
