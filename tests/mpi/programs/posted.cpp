// Small nonblocking collectives, which the ranks of a node may do by themselves.
//
//     posted random [--seed N] [--windows N] [--threads N]   the same bytes as by the MPI's own functions
//     posted ahead [N]       rank 0 posts N, and then needs another rank that has posted none
//     posted root            a root broadcasts much more than others collect meanwhile
//     posted open            one stays open while many others come and go
//     posted freed           a rank frees the communicator while others have yet to collect
//     posted other_size      [returns] ranks give different sizes
//     posted long_send       [returns] ranks send more than they receive, to all beside earlier operations
//     posted other_call      [returns] ranks make different calls
//     posted large CALL [N]  the last rank's block is longer than ranks do by themselves, after N such calls of all
//     ranks
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "native_functions.hpp"

namespace {

using Random = std::mt19937_64;
using Memory = std::vector<unsigned char>;

int rank = 0;
int size = 1;

int below(Random& random, int limit) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(limit));
}

[[noreturn]] void fail(const std::string& what) {
  std::printf("rank %d: %s\n", rank, what.c_str());
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

// So many blocking calls that the ranks share memory.
void meet(MPI_Comm comm) {
  for (int i = 0; i < 20; ++i) MPI_Barrier(comm);
}

MPI_Comm duplicate() {
  MPI_Comm comm{};
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  meet(comm);
  return comm;
}

// One collective, alike on all ranks but for its bytes and types.
class Posted {
 public:
  explicit Posted(std::uint64_t seed, MPI_Comm comm, MPI_Comm twin) : comm_(comm), twin_(twin), seed_(seed) {
    Random random(seed);
    kind_ = below(random, 5);
    in_place_ = below(random, 3) == 0;
    root_ = below(random, size);
    const int choice = below(random, 8);
    count_ = choice == 0  ? 0
             : choice < 5 ? 1 + below(random, 12)
             : choice < 7 ? below(random, 700)
                          : below(random, 3000);
    Random own(seed * 31 + static_cast<std::uint64_t>(rank));
    sent_type_ = below(own, 4);
    received_type_ = below(own, 4);
    reduction_ = below(random, 6);
  }

  void post() {
    native_memory_ = begin(native_sent_);
    memory_ = begin(sent_);
    make_types();
    call(false, sent_, memory_, &request);
    free_types();
  }
  void check() {
    make_types();
    MPI_Request twin = MPI_REQUEST_NULL;
    call(true, native_sent_, native_memory_, &twin);
    const bool native = true;
    CALL(Wait, &twin, MPI_STATUS_IGNORE);
    free_types();
    if (memory_ == native_memory_ && sent_ == native_sent_) return;
    std::size_t at = 0;
    while (at < memory_.size() && memory_[at] == native_memory_[at]) ++at;
    fail("kind " + std::to_string(kind_) + (in_place_ ? ", in place, " : ", ") + std::to_string(count_) +
         " elements of types " + std::to_string(sent_type_) + " and " + std::to_string(received_type_) +
         ", reduction " + std::to_string(reduction_) + ", root " + std::to_string(root_) + ": byte " +
         std::to_string(at) + " of " + std::to_string(memory_.size()) + " is different");
  }

  MPI_Request request = MPI_REQUEST_NULL;

 private:
  static constexpr std::size_t kRoom = 13;  // bytes of one int in the longest type, and some

  // The receive buffer; fills `sent`, too.
  Memory begin(Memory& sent) const {
    const auto blocks = static_cast<std::size_t>(count_) * static_cast<std::size_t>(size) + 2;
    Random random(seed_ * 131 + static_cast<std::uint64_t>(rank));
    sent.resize(blocks * kRoom);
    Memory memory(blocks * kRoom);
    // Below 64, no double is a NaN.
    for (unsigned char& byte : sent) byte = static_cast<unsigned char>(random() % 64);
    for (unsigned char& byte : memory) byte = static_cast<unsigned char>(random() % 64);
    return memory;
  }
  // Ints, with holes, or with a lower bound.
  static MPI_Datatype type_of(int which) {
    MPI_Datatype type{};
    switch (which) {
      case 0: MPI_Type_contiguous(1, MPI_INT, &type); break;
      case 1: MPI_Type_create_resized(MPI_INT, 0, 12, &type); break;
      case 2: {
        const int length = 1;
        const MPI_Aint place = 4;
        MPI_Type_create_hindexed(1, &length, &place, MPI_INT, &type);
        break;
      }
      default: return MPI_INT;
    }
    MPI_Type_commit(&type);
    return type;
  }
  void make_types() {
    sent_as_ = type_of(sent_type_);
    received_as_ = type_of(received_type_);
  }
  void free_types() {
    for (MPI_Datatype* type : {&sent_as_, &received_as_}) {
      if (*type != MPI_INT) MPI_Type_free(type);
    }
  }
  void call(bool native, Memory& sent, Memory& memory, MPI_Request* into) const {
    const MPI_Comm comm = native ? twin_ : comm_;
    const void* from = in_place_ ? MPI_IN_PLACE : sent.data();
    switch (kind_) {
      case 0: CALL(Ibarrier, comm, into); break;
      case 1: CALL(Ibcast, memory.data(), count_, received_as_, root_, comm, into); break;
      case 2: CALL(Iallgather, from, count_, sent_as_, memory.data(), count_, received_as_, comm, into); break;
      case 3: CALL(Ialltoall, from, count_, sent_as_, memory.data(), count_, received_as_, comm, into); break;
      default: {
        const MPI_Datatype types[] = {MPI_INT, MPI_LONG_LONG, MPI_UNSIGNED_CHAR, MPI_DOUBLE, MPI_INT, MPI_2INT};
        const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_BXOR, MPI_MIN, MPI_PROD, MPI_MINLOC};
        CALL(Iallreduce, from, memory.data(), count_, types[reduction_], ops[reduction_], comm, into);
      }
    }
  }

  MPI_Comm comm_;
  MPI_Comm twin_;
  std::uint64_t seed_;
  int kind_ = 0;
  bool in_place_ = false;
  int root_ = 0;
  int count_ = 0;
  int sent_type_ = 0;
  int received_type_ = 0;
  int reduction_ = 0;
  MPI_Datatype sent_as_ = MPI_INT;
  MPI_Datatype received_as_ = MPI_INT;
  Memory sent_;
  Memory memory_;
  Memory native_sent_;
  Memory native_memory_;
};

// By all completion calls, each rank in an order of its own.
class Completion {
 public:
  Completion(std::vector<std::unique_ptr<Posted>>& posted, std::uint64_t seed) : posted_(posted), random_(seed) {}

  void run() {
    std::vector<std::size_t> left(posted_.size());
    std::iota(left.begin(), left.end(), 0);
    std::shuffle(left.begin(), left.end(), random_);
    while (!left.empty()) {
      const std::size_t some = 1 + random_() % std::min<std::size_t>(left.size(), 6);
      complete({left.end() - static_cast<std::ptrdiff_t>(some), left.end()});
      left.resize(left.size() - some);
    }
  }

 private:
  void complete(const std::vector<std::size_t>& which) {
    std::vector<MPI_Request> requests;
    for (const std::size_t one : which) requests.push_back(posted_[one]->request);
    const auto count = static_cast<int>(requests.size());
    int done = 0;
    int index = 0;
    std::vector<int> indices(requests.size());
    switch (below(random_, 9)) {
      case 0:
        for (MPI_Request& request : requests) MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
      case 1: MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE); break;
      case 2:
        for (int i = 0; i < count; ++i) MPI_Waitany(count, requests.data(), &index, MPI_STATUS_IGNORE);
        break;
      case 3:
        for (int found = 0; found < count; found += done) {
          MPI_Waitsome(count, requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE);
        }
        break;
      case 4:
        for (MPI_Request& request : requests) {
          for (done = 0; done == 0;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
        break;
      case 5:
        while (done == 0) MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE);
        break;
      case 6:
        for (int i = 0; i < count; ++i) {
          for (done = 0; done == 0;) MPI_Testany(count, requests.data(), &index, &done, MPI_STATUS_IGNORE);
        }
        break;
      case 7:
        for (int found = 0; found < count; found += std::max(done, 0)) {
          MPI_Testsome(count, requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE);
        }
        break;
      default:
        for (MPI_Request& request : requests) {
          for (done = 0; done == 0;) MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
          MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    for (std::size_t i = 0; i < which.size(); ++i) {
      if (requests[i] != MPI_REQUEST_NULL) fail("a request is still there");
      posted_[which[i]]->request = MPI_REQUEST_NULL;
    }
  }

  std::vector<std::unique_ptr<Posted>>& posted_;
  Random random_;
};

void windows(MPI_Comm comm, MPI_Comm twin, std::uint64_t seed, int count) {
  Random random(seed);
  for (int window = 0; window < count; ++window) {
    const int calls = below(random, 6) == 0 ? 1 + below(random, 60) : 1 + below(random, 6);
    std::vector<std::unique_ptr<Posted>> posted;
    for (int i = 0; i < calls; ++i) {
      posted.push_back(std::make_unique<Posted>(random(), comm, twin));
      posted.back()->post();
    }
    Completion(posted, random() + static_cast<std::uint64_t>(rank)).run();
    for (const auto& one : posted) one->check();
    if (below(random, 8) == 0) MPI_Barrier(comm);
  }
}

void run_random(std::uint64_t seed, int count, int threads) {
  std::vector<MPI_Comm> comms;
  for (int i = 0; i < 2 * threads; ++i) comms.push_back(duplicate());
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      windows(comms[static_cast<std::size_t>(2 * i)], comms[static_cast<std::size_t>(2 * i + 1)],
              seed + static_cast<std::uint64_t>(i) * 1000, count);
    });
  }
  for (std::thread& one : running) one.join();
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  if (rank == 0) std::printf("no difference\n");
}

// Rank 0 waits in the MPI for a message that the last rank sends once it has completed all of its own operations.
void run_ahead(std::size_t many) {
  MPI_Comm comm = duplicate();
  std::vector<int> sent(many);
  std::vector<int> sums(many);
  std::vector<MPI_Request> requests(many);
  std::vector<int> blocks(static_cast<std::size_t>(size) * 64);
  std::vector<int> block(64, rank);
  int token = 0;
  if (rank == size - 1) MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (std::size_t i = 0; i < many; ++i) {
    sent[i] = rank + static_cast<int>(i);
    if (i % 100 == 99) {
      MPI_Iallgather(block.data(), 64, MPI_INT, blocks.data(), 64, MPI_INT, comm, &requests[i]);
    } else {
      MPI_Iallreduce(&sent[i], &sums[i], 1, MPI_INT, MPI_SUM, comm, &requests[i]);
    }
  }
  if (rank == 0) MPI_Send(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD);
  if (rank == 0) MPI_Recv(&token, 1, MPI_INT, size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  // From the last one on.
  for (std::size_t i = many; i-- > 0;) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  if (rank == size - 1) MPI_Send(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
  for (std::size_t i = 0; i < many; ++i) {
    const int expected = size * static_cast<int>(i) + size * (size - 1) / 2;
    if (i % 100 != 99 && sums[i] != expected) fail("sum " + std::to_string(i) + " is " + std::to_string(sums[i]));
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] != static_cast<int>(i / 64)) fail("a block is wrong");
  }
  MPI_Comm_free(&comm);
}

// Waits for none of the others, which have posted some operations and collect them late.
void run_root() {
  constexpr int kMany = 10'000;
  constexpr std::size_t kEarly = 100;
  MPI_Comm comm = duplicate();
  std::vector<int> values(kEarly * 100);
  std::vector<MPI_Request> requests(kEarly);
  for (std::size_t i = 0; i < kEarly; ++i) {
    values[i * 100] = rank == 0 ? static_cast<int>(i) : -1;
    MPI_Ibcast(&values[i * 100], 100, MPI_INT, 0, comm, &requests[i]);
  }
  int token = 0;
  if (rank == 0) {
    MPI_Waitall(static_cast<int>(kEarly), requests.data(), MPI_STATUSES_IGNORE);
    for (int other = 1; other < size; ++other) MPI_Send(&token, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
  } else {
    MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(static_cast<int>(kEarly), requests.data(), MPI_STATUSES_IGNORE);
  }
  for (std::size_t i = 0; i < kEarly; ++i) {
    if (values[i * 100] != static_cast<int>(i)) fail("a value is wrong");
  }
  for (int i = 0; i < kMany; ++i) {
    int value = rank == 0 ? i : -1;
    MPI_Request request{};
    MPI_Ibcast(&value, 1, MPI_INT, 0, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (value != i) fail("value " + std::to_string(i) + " is " + std::to_string(value));
  }
  MPI_Comm_free(&comm);
}

// One operation stays open while many others come and go.
void run_open() {
  constexpr int kMany = 8'000;
  MPI_Comm comm = duplicate();
  MPI_Request open{};
  int first = rank;
  MPI_Iallreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_SUM, comm, &open);
  for (int i = 0; i < kMany; ++i) {
    int sum = 1;
    MPI_Request request{};
    MPI_Iallreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (sum != size) fail("sum is " + std::to_string(sum));
  }
  MPI_Wait(&open, MPI_STATUS_IGNORE);
  if (first != size * (size - 1) / 2) fail("the first sum is " + std::to_string(first));
  MPI_Comm_free(&comm);
}

void run_freed() {
  for (int round = 0; round < 40; ++round) {
    MPI_Comm comm = duplicate();
    std::vector<int> sums(30);
    std::vector<MPI_Request> requests(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = rank;
      MPI_Iallreduce(MPI_IN_PLACE, &sums[i], 1, MPI_INT, MPI_SUM, comm, &requests[i]);
    }
    const bool early = round % size == rank;
    if (early) MPI_Comm_free(&comm);
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    if (!early) MPI_Comm_free(&comm);
    for (const int sum : sums) {
      if (sum != size * (size - 1) / 2) fail("sum is " + std::to_string(sum));
    }
  }
}

void check_error(int code) {
  int error_class = 0;
  MPI_Error_class(code, &error_class);
  std::printf("rank %d: error class %d, which is %s\n", rank, error_class,
              error_class == MPI_SUCCESS        ? "none"
              : error_class == MPI_ERR_TRUNCATE ? "truncate"
                                                : "other");
}

void run_differing(bool other_call, bool returns) {
  MPI_Comm comm = duplicate();
  if (returns) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  std::vector<int> from(64);
  std::vector<int> into(static_cast<std::size_t>(size) * 64);
  MPI_Request request{};
  if (other_call && rank == size - 1) {
    MPI_Iallgather(from.data(), 4, MPI_INT, into.data(), 4, MPI_INT, comm, &request);
  } else {
    MPI_Iallreduce(from.data(), into.data(), rank == size - 1 ? 8 : 4, MPI_INT, MPI_SUM, comm, &request);
  }
  check_error(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

// The last rank's block is longer than the others' and its own room for it, and it has gaps.
void run_long_send(bool returns) {
  MPI_Comm comm = duplicate();
  if (returns) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Datatype gaps = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_INT, 0, 8, &gaps);
  MPI_Type_commit(&gaps);
  constexpr int kBefore = 10;
  std::vector<MPI_Request> requests(kBefore);
  std::vector<int> sums(kBefore, 1);
  for (int i = 0; i < kBefore; ++i) {
    MPI_Iallreduce(MPI_IN_PLACE, &sums[static_cast<std::size_t>(i)], 1, MPI_INT, MPI_SUM, comm,
                   &requests[static_cast<std::size_t>(i)]);
  }
  const int count = rank == size - 1 ? 6000 : 1;
  std::vector<int> from(12'000, -1);
  std::vector<int> into(static_cast<std::size_t>(size));
  MPI_Request request{};
  MPI_Iallgather(from.data(), count, gaps, into.data(), 1, MPI_INT, comm, &request);
  MPI_Waitall(kBefore, requests.data(), MPI_STATUSES_IGNORE);
  for (const int sum : sums) {
    if (sum != size) fail("sum is " + std::to_string(sum));
  }
  check_error(MPI_Wait(&request, MPI_STATUS_IGNORE));
  MPI_Type_free(&gaps);
}

// Before that, the ranks agree on as many calls that they do not do by themselves.
void run_large(const std::string& name, int alike) {
  constexpr int kFew = 4;
  constexpr int kMany = 3000;
  MPI_Comm comm = duplicate();
  std::vector<int> from(static_cast<std::size_t>(size) * kMany);
  std::vector<int> into(static_cast<std::size_t>(size) * kMany);
  for (int i = 0; i < alike; ++i) {
    MPI_Request request{};
    MPI_Iallgather(from.data(), kMany, MPI_INT, into.data(), kMany, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  const int count = rank == size - 1 ? kMany : kFew;
  MPI_Request request{};
  if (name == "iallreduce") {
    MPI_Iallreduce(from.data(), into.data(), count, MPI_INT, MPI_SUM, comm, &request);
  } else if (name == "iallgather") {
    MPI_Iallgather(from.data(), count, MPI_INT, into.data(), count, MPI_INT, comm, &request);
  } else if (name == "ialltoall") {
    MPI_Ialltoall(from.data(), count, MPI_INT, into.data(), count, MPI_INT, comm, &request);
  } else {
    MPI_Ibcast(into.data(), count, MPI_INT, size - 1, comm, &request);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

long option(int argc, char** argv, const char* name, long otherwise) {
  for (int i = 2; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return std::atol(argv[i + 1]);
  }
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string what = argc > 1 ? argv[1] : "random";
  const bool returns = argc > 2 && std::strcmp(argv[2], "returns") == 0;
  if (what == "random") {
    run_random(static_cast<std::uint64_t>(option(argc, argv, "--seed", 1)),
               static_cast<int>(option(argc, argv, "--windows", 100)),
               static_cast<int>(option(argc, argv, "--threads", 1)));
  } else if (what == "ahead") {
    run_ahead(argc > 2 ? static_cast<std::size_t>(std::atol(argv[2])) : 10'000);
  } else if (what == "root") {
    run_root();
  } else if (what == "freed") {
    run_freed();
  } else if (what == "open") {
    run_open();
  } else if (what == "large" && argc > 2) {
    run_large(argv[2], argc > 3 ? std::atoi(argv[3]) : 0);
  } else if (what == "long_send") {
    run_long_send(returns);
  } else if (what == "other_size" || what == "other_call") {
    run_differing(what == "other_call", returns);
  } else {
    std::fprintf(stderr, "posted: %s is unknown\n", what.c_str());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (rank == 0) std::printf("done\n");
  MPI_Finalize();
  return 0;
}
