// Persistent collectives, all bytes checked:
//
//     persistent rounds N SEED   of every kind, size and datatype, on several communicators, started N times in orders
//                                that differ between ranks, by MPI_Start and MPI_Startall, with persistent messages and
//                                nonblocking and blocking collectives between them; completed in every way
//     persistent reuse N BYTES   one MPI_Alltoall_init, started N times
//     persistent churn N         N are initialized, started once and freed
//     persistent inactive        answers of completion calls for requests that have not been started
//     persistent frees [types]   requests freed while active, communicators (and datatypes, which crashes Open MPI)
//                                before the first start, memory that is freed and allocated again between starts,
//                                MPI_Finalize with some left
//     persistent time N BYTES    time of MPI_Start, and of MPI_Ialltoall
#include <mpi.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "persistent_calls.hpp"

namespace {

using persistent::calls;

int world_rank = 0;
int world_size = 0;

[[noreturn]] void wrong(const std::string& what) {
  std::fprintf(stderr, "rank %d: %s\n", world_rank, what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void need(bool holds, const std::string& what) {
  if (!holds) wrong(what);
}

// The same on all ranks for the same seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) { next(); }
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545F4914F6CDD1DULL;
  }
  int below(int limit) { return static_cast<int>((next() >> 33) % static_cast<std::uint64_t>(limit)); }
  bool chance(int percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

enum class Kind { alltoall, alltoallv, alltoallw, allgather, allgatherv, bcast };
constexpr int kKinds = 6;
constexpr const char* kNames[kKinds] = {"alltoall", "alltoallv", "alltoallw", "allgather", "allgatherv", "bcast"};

// Equal on all ranks of the communicator.
struct Plan {
  Kind kind = Kind::alltoall;
  MPI_Comm comm = MPI_COMM_NULL;
  int number = 0;
  int elements = 0;  // of the longest block
  int root = 0;
  bool in_place = false;
  bool strided = false;     // an element is an int with a gap after it
  bool from_alloc = false;  // MPI_Alloc_mem
  bool frees_type = false;  // before the first start
};

// One persistent collective of elements that are ints.
class Collective {
 public:
  explicit Collective(const Plan& plan) : plan_(plan) {
    MPI_Comm_rank(plan.comm, &rank_);
    MPI_Comm_size(plan.comm, &size_);
    step_ = plan.strided ? 2 : 1;
    if (plan.strided) {
      MPI_Type_create_resized(MPI_INT, 0, 2 * static_cast<MPI_Aint>(sizeof(int)), &type_);
      MPI_Type_commit(&type_);
    }
    room_ = static_cast<std::size_t>(std::max(1, plan.elements)) * static_cast<std::size_t>(size_ * step_);
    send_ = allocate();
    receive_ = allocate();
    fill_counts();
    initialize();
    if (plan.strided && plan.frees_type) MPI_Type_free(&type_);
  }
  ~Collective() {
    if (request_ != MPI_REQUEST_NULL) MPI_Request_free(&request_);
    if (plan_.strided && !plan_.frees_type) MPI_Type_free(&type_);
    release(send_);
    release(receive_);
  }
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  [[nodiscard]] MPI_Request& request() { return request_; }

  // Fills this run's send data and clears the received data.
  void prepare(int run) {
    std::fill_n(receive_, room_, -1);
    int* from = plan_.in_place ? receive_ : send_;
    if (plan_.kind == Kind::bcast) from = rank_ == plan_.root ? receive_ : send_;
    if (is_gather() || plan_.kind == Kind::bcast) {
      const int first = plan_.in_place ? displacements(rank_) : 0;
      const int count = is_gather() ? count_to(rank_, rank_) : plan_.elements;
      for (int i = 0; i < count; ++i) from[(first + i) * step_] = value(run, rank_, 0, i);
      return;
    }
    for (int to = 0; to < size_; ++to) {
      for (int i = 0; i < count_to(rank_, to); ++i) from[(displacements(to) + i) * step_] = value(run, rank_, to, i);
    }
  }

  void check(int run) const {
    if (plan_.kind == Kind::bcast) {
      for (int i = 0; i < plan_.elements; ++i) check_element(run, plan_.root, 0, i, i);
      return;
    }
    for (int from = 0; from < size_; ++from) {
      for (int i = 0; i < count_to(from, rank_); ++i) {
        check_element(run, from, is_gather() ? 0 : rank_, i, displacements(from) + i);
      }
    }
  }

 private:
  [[nodiscard]] bool is_gather() const { return plan_.kind == Kind::allgather || plan_.kind == Kind::allgatherv; }
  [[nodiscard]] bool is_regular() const { return plan_.kind == Kind::alltoall || plan_.kind == Kind::allgather; }

  // In place both directions have the same length.
  [[nodiscard]] int count_to(int from, int to) const {
    if (is_regular()) return plan_.elements;
    if (is_gather()) to = from;
    const int mixed = (from + 1) * (to + 1) + 3 * plan_.number;
    return plan_.elements - mixed % (plan_.elements / 2 + 1);
  }
  [[nodiscard]] int displacements(int peer) const { return peer * plan_.elements; }
  [[nodiscard]] int value(int run, int from, int to, int i) const {
    return static_cast<int>((static_cast<unsigned>(run) * 7919U + static_cast<unsigned>(from) * 104729U +
                             static_cast<unsigned>(to) * 1299709U + static_cast<unsigned>(plan_.number) * 15485863U +
                             static_cast<unsigned>(i)) &
                            0x7fffffffU);
  }
  void check_element(int run, int from, int to, int i, int at) const {
    const int got = receive_[at * step_];
    if (got == value(run, from, to, i)) return;
    wrong(std::string(kNames[static_cast<int>(plan_.kind)]) + " " + std::to_string(plan_.number) + " of " +
          std::to_string(plan_.elements) + (plan_.in_place ? " in place" : "") + (plan_.strided ? " strided" : "") +
          ", run " + std::to_string(run) + ": element " + std::to_string(i) + " from " + std::to_string(from) + " is " +
          std::to_string(got) + ", not " + std::to_string(value(run, from, to, i)));
  }

  int* allocate() const {
    void* memory = nullptr;
    if (plan_.from_alloc) {
      MPI_Alloc_mem(static_cast<MPI_Aint>(room_ * sizeof(int)), MPI_INFO_NULL, &memory);
    } else {
      memory = std::malloc(room_ * sizeof(int));
    }
    std::memset(memory, 0, room_ * sizeof(int));
    return static_cast<int*>(memory);
  }
  void release(int* memory) const {
    if (plan_.from_alloc) {
      MPI_Free_mem(memory);
    } else {
      std::free(memory);
    }
  }

  void fill_counts() {
    for (int peer = 0; peer < size_; ++peer) {
      send_counts_.push_back(count_to(rank_, peer));
      receive_counts_.push_back(count_to(peer, rank_));
      displacements_.push_back(displacements(peer));
      displacements_bytes_.push_back(displacements(peer) * step_ * static_cast<int>(sizeof(int)));
      types_.push_back(type_);
    }
  }

  void initialize() {
    const void* send = plan_.in_place ? MPI_IN_PLACE : send_;
    const MPI_Info info = MPI_INFO_NULL;
    const int n = plan_.elements;
    switch (plan_.kind) {
      case Kind::alltoall: calls().alltoall(send, n, type_, receive_, n, type_, plan_.comm, info, &request_); break;
      case Kind::alltoallv:
        calls().alltoallv(send, send_counts_.data(), displacements_.data(), type_, receive_, receive_counts_.data(),
                          displacements_.data(), type_, plan_.comm, info, &request_);
        break;
      case Kind::alltoallw:
        calls().alltoallw(send, send_counts_.data(), displacements_bytes_.data(), types_.data(), receive_,
                          receive_counts_.data(), displacements_bytes_.data(), types_.data(), plan_.comm, info,
                          &request_);
        break;
      case Kind::allgather: calls().allgather(send, n, type_, receive_, n, type_, plan_.comm, info, &request_); break;
      case Kind::allgatherv:
        calls().allgatherv(send, count_to(rank_, rank_), type_, receive_, receive_counts_.data(), displacements_.data(),
                           type_, plan_.comm, info, &request_);
        break;
      case Kind::bcast: calls().bcast(receive_, n, type_, plan_.root, plan_.comm, info, &request_); break;
    }
    need(request_ != MPI_REQUEST_NULL, "no request");
  }

  Plan plan_;
  int rank_ = 0;
  int size_ = 0;
  int step_ = 1;
  MPI_Datatype type_ = MPI_INT;
  std::size_t room_ = 0;
  int* send_ = nullptr;
  int* receive_ = nullptr;
  std::vector<int> send_counts_;
  std::vector<int> receive_counts_;
  std::vector<int> displacements_;
  std::vector<int> displacements_bytes_;
  std::vector<MPI_Datatype> types_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// A message of this rank to itself by persistent requests.
struct Message {
  Message() {
    MPI_Send_init(&sent, 1, MPI_INT, world_rank, 77, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&got, 1, MPI_INT, world_rank, 77, MPI_COMM_WORLD, &requests[1]);
  }
  ~Message() {
    for (MPI_Request& request : requests) MPI_Request_free(&request);
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  int sent = 0;
  int got = 0;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

void complete_by_some(std::vector<MPI_Request>& all, bool waits, bool statuses) {
  const int count = static_cast<int>(all.size());
  std::vector<int> indices(all.size());
  std::vector<MPI_Status> list(all.size());
  std::vector<bool> seen(all.size());
  MPI_Status* many = statuses ? list.data() : MPI_STATUSES_IGNORE;
  for (int left = count; left > 0;) {
    int found = -5;
    waits ? MPI_Waitsome(count, all.data(), &found, indices.data(), many)
          : MPI_Testsome(count, all.data(), &found, indices.data(), many);
    need(found != MPI_UNDEFINED, "none is active, says the call for some");
    need(found > 0 || !waits, "MPI_Waitsome came back with nothing");
    for (int i = 0; i < found; ++i) {
      const auto index = static_cast<std::size_t>(indices[static_cast<std::size_t>(i)]);
      need(!seen[index], "a request twice");
      seen[index] = true;
    }
    left -= found;
    if (!waits) sched_yield();
  }
  int found = -5;
  MPI_Testsome(count, all.data(), &found, indices.data(), many);
  need(found == MPI_UNDEFINED, "something is still active, says MPI_Testsome");
}

void complete_by_any(std::vector<MPI_Request>& all, bool waits) {
  const int count = static_cast<int>(all.size());
  std::vector<bool> seen(all.size());
  MPI_Status status;
  for (int left = count; left > 0;) {
    int index = -5;
    int flag = 1;
    waits ? MPI_Waitany(count, all.data(), &index, &status) : MPI_Testany(count, all.data(), &index, &flag, &status);
    if (flag == 0) {
      sched_yield();
      continue;
    }
    need(index >= 0 && index < count, "none is active, says the call for any");
    need(!seen[static_cast<std::size_t>(index)], "a request twice");
    seen[static_cast<std::size_t>(index)] = true;
    --left;
  }
  int index = -5;
  MPI_Waitany(count, all.data(), &index, &status);
  need(index == MPI_UNDEFINED, "something is still active, says MPI_Waitany");
}

void complete_one_by_one(std::vector<MPI_Request>& all, int style) {
  for (MPI_Request& request : all) {
    int flag = 0;
    if (style == 0) {
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      continue;
    }
    while (flag == 0) {
      style == 1 ? MPI_Test(&request, &flag, MPI_STATUS_IGNORE)
                 : MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
      if (flag == 0) sched_yield();
    }
    if (style == 2) MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

void complete(std::vector<MPI_Request>& all, Random& random) {
  const std::vector<MPI_Request> before = all;
  std::vector<MPI_Status> statuses(all.size());
  const int count = static_cast<int>(all.size());
  int flag = 0;
  switch (random.below(9)) {
    case 0: MPI_Waitall(count, all.data(), random.chance(50) ? statuses.data() : MPI_STATUSES_IGNORE); break;
    case 1:
      while (flag == 0) {
        MPI_Testall(count, all.data(), &flag, random.chance(50) ? statuses.data() : MPI_STATUSES_IGNORE);
        if (flag == 0) sched_yield();
      }
      break;
    case 2: complete_by_some(all, true, random.chance(50)); break;
    case 3: complete_by_some(all, false, random.chance(50)); break;
    case 4: complete_by_any(all, true); break;
    case 5: complete_by_any(all, false); break;
    case 6: complete_one_by_one(all, 0); break;
    case 7: complete_one_by_one(all, 1); break;
    default: complete_one_by_one(all, 2); break;
  }
  need(all == before, "a persistent request is another one after it has completed");
}

struct Communicators {
  Communicators() {
    all = {MPI_COMM_WORLD, MPI_COMM_NULL, MPI_COMM_NULL};
    MPI_Comm_dup(MPI_COMM_WORLD, &all[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &all[2]);
  }
  ~Communicators() {
    MPI_Comm_free(&all[1]);
    MPI_Comm_free(&all[2]);
  }
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;
  std::vector<MPI_Comm> all;
};

std::vector<std::unique_ptr<Collective>> make_collectives(const Communicators& comms, Random& random) {
  std::vector<std::unique_ptr<Collective>> made;
  constexpr int kSizes[] = {1, 30, 1000, 5000, 40000};
  for (int number = 0; number < 14; ++number) {
    Plan plan;
    plan.kind = static_cast<Kind>(number % kKinds);
    plan.comm = comms.all[static_cast<std::size_t>(random.below(static_cast<int>(comms.all.size())))];
    plan.number = number;
    plan.elements = kSizes[random.below(5)];
    plan.root = random.below(world_size);
    // In place, Open MPI 4.1 and MPICH 4.0 have errors in their own v-forms.
    plan.in_place = random.chance(20) && (plan.kind == Kind::alltoall || plan.kind == Kind::allgather);
    plan.strided = random.chance(35) && !plan.in_place;
    plan.from_alloc = random.chance(40);
    made.push_back(std::make_unique<Collective>(plan));
  }
  return made;
}

// Other collectives of the communicator, between starts.
void run_others(MPI_Comm comm, int run) {
  std::vector<int> sent(static_cast<std::size_t>(world_size) * 3000, run * 10 + world_rank);
  std::vector<int> got(sent.size(), -1);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ialltoall(sent.data(), 3000, MPI_INT, got.data(), 3000, MPI_INT, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  need(request == MPI_REQUEST_NULL, "a nonblocking collective's request is there after it");
  long sum = 0;
  for (const int each : got) sum += each;
  long expected = 0;
  for (int rank = 0; rank < world_size; ++rank) expected += 3000L * (run * 10 + rank);
  need(sum == expected, "a nonblocking collective between starts has other bytes");
  MPI_Allgather(&world_rank, 1, MPI_INT, got.data(), 1, MPI_INT, comm);
}

void start_in_some_order(std::vector<MPI_Request>& all, Random& random) {
  for (std::size_t i = all.size(); i > 1; --i) {
    std::swap(all[i - 1], all[static_cast<std::size_t>(random.below(static_cast<int>(i)))]);
  }
  std::size_t first = 0;
  while (first < all.size()) {
    const int left = static_cast<int>(all.size() - first);
    const int some = random.chance(40) ? 1 : 1 + random.below(left);
    some == 1 && random.chance(70) ? MPI_Start(&all[first]) : MPI_Startall(some, &all[first]);
    first += static_cast<std::size_t>(some);
    int flag = 0;
    if (random.chance(20)) MPI_Testall(0, all.data(), &flag, MPI_STATUSES_IGNORE);
  }
}

void rounds(int count, std::uint64_t seed) {
  const Communicators comms;
  Random common(seed);
  Random own(seed * 1000 + static_cast<std::uint64_t>(world_rank));
  const auto collectives = make_collectives(comms, common);
  Message message;
  for (int run = 0; run < count; ++run) {
    std::vector<MPI_Request> started;
    std::vector<Collective*> active;
    for (const auto& each : collectives) {
      if (common.chance(25)) continue;  // not in this round
      each->prepare(run);
      started.push_back(each->request());
      active.push_back(each.get());
    }
    message.sent = run;
    for (const MPI_Request request : message.requests) started.push_back(request);
    start_in_some_order(started, own);
    const bool others = common.chance(30);
    const MPI_Comm comm = comms.all[static_cast<std::size_t>(common.below(3))];
    if (others) run_others(comm, run);
    complete(started, own);
    for (const Collective* each : active) each->check(run);
    need(message.got == run, "a persistent message has other bytes");
  }
}

void reuse(int count, int bytes) {
  Plan plan;
  plan.comm = MPI_COMM_WORLD;
  plan.elements = std::max(1, bytes / static_cast<int>(sizeof(int)));
  Collective one(plan);
  for (int run = 0; run < count; ++run) {
    one.prepare(run);
    MPI_Start(&one.request());
    MPI_Wait(&one.request(), MPI_STATUS_IGNORE);
    one.check(run);
  }
}

void churn(int count) {
  for (int i = 0; i < count; ++i) {
    Plan plan;
    plan.kind = static_cast<Kind>(i % kKinds);
    plan.comm = MPI_COMM_WORLD;
    plan.number = i % 100;
    plan.elements = 3000;
    plan.strided = i % 4 == 0;
    Collective one(plan);
    one.prepare(i);
    MPI_Start(&one.request());
    MPI_Wait(&one.request(), MPI_STATUS_IGNORE);
    one.check(i);
  }
}

void check_empty(const MPI_Status& status, const std::string& call) {
  int count = -1;
  int cancelled = -1;
  MPI_Get_count(&status, MPI_BYTE, &count);
  MPI_Test_cancelled(&status, &cancelled);
  need(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG && count == 0 && cancelled == 0,
       call + " of inactive requests: the status is not the empty one");
}

// For two requests, neither of which is active.
void look_at_inactive(MPI_Request* requests) {
  const MPI_Request before[2] = {requests[0], requests[1]};
  MPI_Status statuses[2];
  const auto forget = [&statuses] { std::memset(statuses, 0x55, sizeof statuses); };
  int flag = -5;
  int index = -5;
  int indices[2] = {-5, -5};
  forget(), MPI_Wait(&requests[0], &statuses[0]), check_empty(statuses[0], "MPI_Wait");
  forget(), MPI_Test(&requests[0], &flag, &statuses[0]), check_empty(statuses[0], "MPI_Test");
  need(flag == 1, "MPI_Test says no of an inactive request");
  forget(), MPI_Waitall(2, requests, statuses), check_empty(statuses[1], "MPI_Waitall");
  flag = -5;
  forget(), MPI_Testall(2, requests, &flag, statuses), check_empty(statuses[1], "MPI_Testall");
  need(flag == 1, "MPI_Testall says no of inactive requests");
  forget(), MPI_Waitany(2, requests, &index, statuses), check_empty(statuses[0], "MPI_Waitany");
  need(index == MPI_UNDEFINED, "MPI_Waitany has found one among inactive requests");
  flag = index = -5;
  forget(), MPI_Testany(2, requests, &index, &flag, statuses), check_empty(statuses[0], "MPI_Testany");
  need(flag == 1 && index == MPI_UNDEFINED, "MPI_Testany has found one among inactive requests");
  MPI_Waitsome(2, requests, &index, indices, statuses);
  need(index == MPI_UNDEFINED, "MPI_Waitsome has found some among inactive requests");
  index = -5;
  MPI_Testsome(2, requests, &index, indices, statuses);
  need(index == MPI_UNDEFINED, "MPI_Testsome has found some among inactive requests");
  flag = -5;
  forget(), MPI_Request_get_status(requests[0], &flag, statuses);
  check_empty(statuses[0], "MPI_Request_get_status");
  need(flag == 1, "MPI_Request_get_status says no of an inactive request");
  need(requests[0] == before[0] && requests[1] == before[1], "an inactive request has become another one");
}

void inactive() {
  Plan plan;
  plan.comm = MPI_COMM_WORLD;
  plan.elements = 5000;
  Collective first(plan);
  plan.kind = Kind::bcast;
  Collective second(plan);
  MPI_Request both[2] = {first.request(), second.request()};
  look_at_inactive(both);
  for (int run = 0; run < 3; ++run) {
    first.prepare(run), second.prepare(run);
    MPI_Startall(2, both);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    look_at_inactive(both);
    first.check(run), second.check(run);
    // One of them is active: only it is found.
    first.prepare(run);
    MPI_Start(&both[0]);
    int index = -5;
    MPI_Waitany(2, both, &index, MPI_STATUS_IGNORE);
    need(index == 0, "MPI_Waitany has not found the one that is active");
    look_at_inactive(both);
    first.check(run);
  }
}

void free_types_and_communicators(bool types) {
  for (int i = 0; i < 12; ++i) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    Plan plan;
    plan.kind = static_cast<Kind>(i % kKinds);
    plan.comm = comm;
    plan.elements = i < 6 ? 3000 : 100;
    plan.strided = i % 2 == 0;
    plan.frees_type = types;
    Collective one(plan);
    MPI_Comm_free(&comm);
    for (int run = 0; run < 5; ++run) {
      one.prepare(run);
      MPI_Start(&one.request());
      MPI_Wait(&one.request(), MPI_STATUS_IGNORE);
      one.check(run);
    }
  }
}

// The request is gone at once; the arrival of its bytes is not reported.
void free_active() {
  constexpr int kElements = 20000;
  const auto block = static_cast<std::size_t>(kElements);
  std::vector<int> sent(block * static_cast<std::size_t>(world_size), world_rank);
  std::vector<int> got(sent.size(), -1);
  const volatile int* seen = got.data();
  MPI_Request request = MPI_REQUEST_NULL;
  calls().alltoall(sent.data(), kElements, MPI_INT, got.data(), kElements, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &request);
  MPI_Start(&request);
  MPI_Request_free(&request);
  need(request == MPI_REQUEST_NULL, "a request that is freed is still there");
  for (int rank = 0; rank < world_size; ++rank) {
    while (seen[block * static_cast<std::size_t>(rank + 1) - 1] != rank) {
      int flag = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, 12345, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
      MPI_Request nothing = MPI_REQUEST_NULL;
      MPI_Test(&nothing, &flag, MPI_STATUS_IGNORE);
      sched_yield();
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// The same addresses, other memory.
void renew_memory() {
  constexpr int kElements = 50000;
  const std::size_t bytes = sizeof(int) * kElements * static_cast<std::size_t>(world_size);
  void* base = mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* sent = static_cast<int*>(base);
  int* got = sent + bytes / sizeof(int);
  MPI_Request request = MPI_REQUEST_NULL;
  calls().alltoall(sent, kElements, MPI_INT, got, kElements, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  for (int run = 0; run < 30; ++run) {
    if (run % 3 == 2) {
      munmap(base, 2 * bytes);
      void* again = mmap(base, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      need(again == base, "no memory at the same address");
    }
    std::fill_n(sent, bytes / sizeof(int), run * 100 + world_rank);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int rank = 0; rank < world_size; ++rank) {
      for (int i = 0; i < kElements; i += 499) {
        need(got[static_cast<std::size_t>(rank) * kElements + static_cast<std::size_t>(i)] == run * 100 + rank,
             "other bytes in memory that is new");
      }
    }
  }
  MPI_Request_free(&request);
}

// Not freed at MPI_Finalize; the last one is not waited for either.
void leave_some() {
  static std::vector<int> sent(static_cast<std::size_t>(world_size) * 4000);
  static std::vector<int> got(sent.size());
  static MPI_Request request = MPI_REQUEST_NULL;
  // Its operation is used again by the persistent one.
  MPI_Ialltoall(sent.data(), 4000, MPI_INT, got.data(), 4000, MPI_INT, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  calls().alltoall(sent.data(), 4000, MPI_INT, got.data(), 4000, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

// CPU time in the call alone, without waiting.
void time_starts(int count, int bytes) {
  std::vector<char> sent(static_cast<std::size_t>(world_size) * static_cast<std::size_t>(bytes), 1);
  std::vector<char> got(sent.size());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Request once = MPI_REQUEST_NULL;
  calls().alltoall(sent.data(), bytes, MPI_CHAR, got.data(), bytes, MPI_CHAR, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  double start_us = 0;
  double post_us = 0;
  for (int i = 0; i < count; ++i) {
    const double began = cpu_us();
    MPI_Start(&request);
    const double started = cpu_us();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    const double again = cpu_us();
    MPI_Ialltoall(sent.data(), bytes, MPI_CHAR, got.data(), bytes, MPI_CHAR, MPI_COMM_WORLD, &once);
    const double posted = cpu_us();
    MPI_Wait(&once, MPI_STATUS_IGNORE);
    if (i < count / 10) continue;
    start_us += started - began;
    post_us += posted - again;
  }
  MPI_Request_free(&request);
  const double measured = count - count / 10;
  if (world_rank == 0) std::printf("start %.3f us, post %.3f us\n", start_us / measured, post_us / measured);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  const std::string mode = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  const int other = argc > 3 ? std::atoi(argv[3]) : 0;
  if (!calls().there()) {
    if (world_rank == 0) std::printf("persistent: none\n");
    MPI_Finalize();
    return 0;
  }
  if (mode == "rounds") rounds(number, static_cast<std::uint64_t>(other));
  if (mode == "reuse") reuse(number, other);
  if (mode == "churn") churn(number);
  if (mode == "inactive") inactive();
  if (mode == "time") time_starts(number, other);
  if (mode == "frees") {
    free_types_and_communicators(argc > 2);
    renew_memory();
    free_active();
    leave_some();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == 0) std::printf("persistent: well\n");
  MPI_Finalize();
  return 0;
}
