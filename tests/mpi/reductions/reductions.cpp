// Tests that offloaded reductions equal a reduction in the order of ranks, to the last bit and on all ranks, and change
// nothing else. They may differ from the native MPI only as far as the order explains. Seeded and random: calls,
// operations, datatypes, counts, roots, MPI_IN_PLACE, buffers, communicators, windows of several outstanding operations
// in each rank's own order, completion calls.
//
//   reductions [--seed S] [--operations N] [--max-bytes B] [--ordered 1] [--blocking 1] [--persistent N] [--window W]
//
// --ordered 1: everything possible is offloaded, and so reduced in the order of ranks; without it any order is
// accepted. --blocking 1 also does each by its blocking form, --persistent N posts persistent forms, if the MPI has
// them, and starts each N times more; --window W runs only that window, as a difference's line shows.

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../differential/buffers.hpp"
#include "../differential/communicators.hpp"
#include "../differential/completion.hpp"
#include "../programs/persistent_calls.hpp"
#include "elements.hpp"

namespace reductions {
namespace {

using differential::Buffer;
using differential::Communicator;
using differential::Communicators;
using differential::mix;
using differential::Random;

constexpr int windows_per_epoch = 12;
constexpr int most_outstanding = 8;

struct Options {
  std::uint64_t seed = 1;
  int operations = 200;
  std::int64_t max_bytes = 2 << 20;
  bool ordered = false;
  bool blocking = false;
  int persistent = -1;
  int only_window = -1;
};

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const long long value = std::atoll(argv[i + 1]);
    if (name == "--seed") options.seed = static_cast<std::uint64_t>(value);
    if (name == "--operations") options.operations = static_cast<int>(value);
    if (name == "--max-bytes") options.max_bytes = value;
    if (name == "--ordered") options.ordered = value != 0;
    if (name == "--blocking") options.blocking = value != 0;
    if (name == "--persistent") options.persistent = static_cast<int>(value);
    if (name == "--window") options.only_window = static_cast<int>(value);
  }
  return options;
}

// The program's own operation, which stays native.
void add_ints(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  for (int i = 0; i < *count; ++i) static_cast<unsigned*>(inout)[i] += static_cast<const unsigned*>(in)[i];
}

struct OwnOperator {
  OwnOperator() { MPI_Op_create(&add_ints, 1, &op); }
  ~OwnOperator() { MPI_Op_free(&op); }
  OwnOperator(const OwnOperator&) = delete;
  OwnOperator& operator=(const OwnOperator&) = delete;
  MPI_Op op = MPI_OP_NULL;
};

enum class Call { allreduce, reduce, reduce_scatter_block, reduce_scatter, scan, exscan };
constexpr int calls = 6;

// Equal on all ranks of the group.
struct Plan {
  std::uint64_t seed = 0;
  Call call = Call::allreduce;
  Element element;
  Operator op;
  std::int64_t count = 0;   // as in the call; for reduce_scatter the mean
  std::vector<int> counts;  // of a reduce_scatter
  bool in_place = false;
  bool in_order = false;  // it is offloaded
  bool wild = false;      // the values are

  static Plan make(std::uint64_t seed, int group_size, const Options& options, const OwnOperator& own) {
    Random random(seed);
    Plan plan;
    plan.seed = seed;
    plan.call = static_cast<Call>(random.below(calls));
    plan.element = elements()[static_cast<std::size_t>(random.below(static_cast<int>(elements().size())))];
    const std::vector<Operator> operators = operators_of(plan.element);
    plan.op = operators[static_cast<std::size_t>(random.below(static_cast<int>(operators.size())))];
    plan.in_order = options.ordered && group_size > 1;
    if (plan.element.name == "MPI_UNSIGNED" && random.chance(40)) {
      plan.op = {"one of the program's own", own.op, Combine::own};
      plan.in_order = false;
    }
    plan.wild = plan.in_order && random.chance(50);
    const std::int64_t limit =
        random.chance(6) ? options.max_bytes : std::min<std::int64_t>(options.max_bytes, 128 << 10);
    const std::int64_t bytes = random.log_uniform(limit);
    const bool by_parts = plan.call == Call::reduce_scatter_block || plan.call == Call::reduce_scatter;
    const std::int64_t parts = by_parts ? group_size : 1;
    plan.count = std::max<std::int64_t>(1, bytes / (parts * static_cast<std::int64_t>(plan.element.bytes)));
    if (random.chance(4)) plan.count = 0;
    plan.in_place = random.chance(25);
    if (plan.call == Call::reduce_scatter) plan.counts = some_counts(random, plan.count, group_size);
    return plan;
  }

  // Any lengths, some of them often 0, sometimes all but one.
  static std::vector<int> some_counts(Random& random, std::int64_t mean, int group_size) {
    std::vector<int> counts(static_cast<std::size_t>(group_size), 0);
    if (random.chance(15)) {
      counts[static_cast<std::size_t>(random.below(group_size))] = static_cast<int>(mean);
      return counts;
    }
    for (int& count : counts) {
      count = random.chance(25) ? 0 : random.between(0, static_cast<int>(2 * mean));
    }
    return counts;
  }

  [[nodiscard]] std::size_t elements_before(int rank) const {
    return static_cast<std::size_t>(std::accumulate(counts.begin(), counts.begin() + rank, 0));
  }
};

class Operation {
 public:
  Operation(const Plan& plan, const Communicator& communicator) : plan_(plan), communicator_(&communicator) {
    Random random(mix({plan.seed, 5, static_cast<std::uint64_t>(communicator.rank)}));
    root_ = static_cast<int>(mix({plan.seed, 6}) % static_cast<std::uint64_t>(communicator.size));
    large_form_ = random.chance(30);
    const auto make = [&random](std::size_t bytes, std::uint64_t content) {
      const std::size_t skip = random.chance(40) ? 16 * static_cast<std::size_t>(random.below(600)) : 0;
      return Buffer(0, static_cast<std::ptrdiff_t>(bytes), random.chance(50), skip, content);
    };
    if (!sends_in_place()) send_ = make(vector_bytes(), kSendContent);
    received_ = make(receive_bytes(), kReceiveContent);
    set_up();
    expected_ = Buffer(0, static_cast<std::ptrdiff_t>(receive_bytes()), false, 0, kReceiveContent);
    if (sends_in_place()) put_contribution(expected_);
    if (result_elements() != 0) reduce_in_order();
  }

  void post(MPI_Request* request) { start(communicator_->offloaded, large_form_, request); }

  // False: it stays native, and is not posted. MPICH 4.0 returns finished native persistent requests again.
  bool post_persistent(MPI_Request* request) {
    if (!plan_.in_order) return false;
    const auto& of_mpi = persistent::calls();
    const auto [from, to, count, counts] = arguments();
    switch (plan_.call) {
      case Call::allreduce:
        of_mpi.allreduce(from, to, count, plan_.element.type, plan_.op.op, communicator_->offloaded, MPI_INFO_NULL,
                         &persistent_);
        break;
      case Call::reduce:
        of_mpi.reduce(from, to, count, plan_.element.type, plan_.op.op, root_, communicator_->offloaded, MPI_INFO_NULL,
                      &persistent_);
        break;
      case Call::reduce_scatter_block:
        of_mpi.reduce_scatter_block(from, to, count, plan_.element.type, plan_.op.op, communicator_->offloaded,
                                    MPI_INFO_NULL, &persistent_);
        break;
      case Call::reduce_scatter:
        of_mpi.reduce_scatter(from, to, counts, plan_.element.type, plan_.op.op, communicator_->offloaded,
                              MPI_INFO_NULL, &persistent_);
        break;
      case Call::scan:
        of_mpi.scan(from, to, count, plan_.element.type, plan_.op.op, communicator_->offloaded, MPI_INFO_NULL,
                    &persistent_);
        break;
      case Call::exscan:
        of_mpi.exscan(from, to, count, plan_.element.type, plan_.op.op, communicator_->offloaded, MPI_INFO_NULL,
                      &persistent_);
        break;
    }
    MPI_Start(&persistent_);
    *request = persistent_;
    return true;
  }
  [[nodiscard]] bool is_persistent() const { return persistent_ != MPI_REQUEST_NULL; }
  void run_again() {
    set_up();
    MPI_Start(&persistent_);
    MPI_Wait(&persistent_, MPI_STATUS_IGNORE);
  }
  void free_persistent() { MPI_Request_free(&persistent_); }

  void run_blocking_form() {
    set_up();
    const auto [from, to, count, counts] = arguments();
    switch (plan_.call) {
      case Call::allreduce:
        MPI_Allreduce(from, to, count, plan_.element.type, plan_.op.op, communicator_->offloaded);
        return;
      case Call::reduce:
        MPI_Reduce(from, to, count, plan_.element.type, plan_.op.op, root_, communicator_->offloaded);
        return;
      case Call::reduce_scatter_block:
        MPI_Reduce_scatter_block(from, to, count, plan_.element.type, plan_.op.op, communicator_->offloaded);
        return;
      case Call::reduce_scatter:
        MPI_Reduce_scatter(from, to, counts, plan_.element.type, plan_.op.op, communicator_->offloaded);
        return;
      case Call::scan: MPI_Scan(from, to, count, plan_.element.type, plan_.op.op, communicator_->offloaded); return;
      case Call::exscan: MPI_Exscan(from, to, count, plan_.element.type, plan_.op.op, communicator_->offloaded); return;
    }
  }

  // Describes the difference, if there is one. `native`: it was run natively.
  std::optional<std::string> difference(bool native) {
    const bool in_order = plan_.in_order && !native;
    // After an in-place reduction the native MPI may leave any bytes behind the result.
    const std::size_t result_bytes = result_elements() * plan_.element.bytes;
    if (!in_order && receive_bytes() > result_bytes) {
      std::memcpy(expected_.base() + result_bytes, received_.base() + result_bytes, receive_bytes() - result_bytes);
    }
    if (result_elements() != 0) copy_gaps(plan_.element, received_.base(), expected_.base(), result_elements());
    if (!sends_in_place()) {
      const Buffer sent = contribution();
      if (const std::ptrdiff_t at = send_.first_difference(sent); at != Buffer::none) {
        return "the send buffer was written to at byte " + std::to_string(at);
      }
    }
    const std::ptrdiff_t at = received_.first_difference(expected_);
    if (at == Buffer::none) return std::nullopt;
    const auto result = static_cast<std::ptrdiff_t>(result_bytes);
    if (at >= 0 && at < result && !in_order && rounds(plan_.element, plan_.op)) {
      const bool is_near =
          near(plan_.element, received_.base(), expected_.base(), result_elements(), communicator_->size);
      if (is_near) std::memcpy(received_.base(), expected_.base(), result_bytes);
      const std::ptrdiff_t rest = received_.first_difference(expected_);
      if (rest == Buffer::none) return std::nullopt;
      return "too far from the result, or other bytes differ, from byte " + std::to_string(rest) + " on";
    }
    return "the receive buffer differs first at byte " + std::to_string(at) + ": got " +
           std::to_string(received_.at(at)) + ", should be " + std::to_string(expected_.at(at));
  }

  // False for cases that not all MPIs do correctly.
  [[nodiscard]] bool has_native() const { return !plan_.wild; }
  // Natively, on the twin: collective and blocking.
  void run_native() {
    set_up();
    MPI_Request request = MPI_REQUEST_NULL;
    start(communicator_->native, false, &request);
    int done = 0;
    while (done == 0) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done == 0) sched_yield();
    }
  }

  [[nodiscard]] std::string describe() const {
    constexpr const char* names[calls] = {"MPI_Iallreduce",      "MPI_Ireduce", "MPI_Ireduce_scatter_block",
                                          "MPI_Ireduce_scatter", "MPI_Iscan",   "MPI_Iexscan"};
    return std::string(names[static_cast<int>(plan_.call)]) + " on '" + communicator_->name + "' (rank " +
           std::to_string(communicator_->rank) + " of " + std::to_string(communicator_->size) + "), " + plan_.op.name +
           " of " + std::to_string(plan_.count) + " " + plan_.element.name +
           (plan_.call == Call::reduce ? ", root " + std::to_string(root_) : "") + (plan_.in_place ? ", in place" : "");
  }

 private:
  static constexpr std::uint64_t kSendContent = 77;
  static constexpr std::uint64_t kReceiveContent = 78;

  struct Arguments {
    const void* from;
    void* to;
    int count;
    const int* counts;
  };
  [[nodiscard]] Arguments arguments() const {
    const bool gets = plan_.call != Call::reduce || is_root();
    return {sends_in_place() ? MPI_IN_PLACE : send_.base(), gets ? received_.base() : nullptr,
            static_cast<int>(plan_.count), plan_.counts.data()};
  }

  [[nodiscard]] bool is_root() const { return root_ == communicator_->rank; }
  [[nodiscard]] bool sends_in_place() const { return plan_.in_place && (plan_.call != Call::reduce || is_root()); }
  [[nodiscard]] std::size_t vector_elements() const {
    const auto count = static_cast<std::size_t>(plan_.count);
    if (plan_.call == Call::reduce_scatter) return plan_.elements_before(communicator_->size);
    return plan_.call == Call::reduce_scatter_block ? count * static_cast<std::size_t>(communicator_->size) : count;
  }
  [[nodiscard]] std::size_t vector_bytes() const { return vector_elements() * plan_.element.bytes; }
  // Elements of the result that this rank gets.
  [[nodiscard]] std::size_t result_elements() const {
    if (plan_.call == Call::reduce_scatter) {
      return static_cast<std::size_t>(plan_.counts[static_cast<std::size_t>(communicator_->rank)]);
    }
    return operands() == 0 || (plan_.call == Call::reduce && !is_root()) ? 0 : static_cast<std::size_t>(plan_.count);
  }
  // Ranks that contribute to it, from the first on.
  [[nodiscard]] int operands() const {
    if (plan_.call == Call::exscan) return communicator_->rank;
    return plan_.call == Call::scan ? communicator_->rank + 1 : communicator_->size;
  }
  // Index of this rank's first result element in the reduced vector.
  [[nodiscard]] std::size_t first_element() const {
    if (plan_.call == Call::reduce_scatter) return plan_.elements_before(communicator_->rank);
    return plan_.call == Call::reduce_scatter_block ? result_elements() * static_cast<std::size_t>(communicator_->rank)
                                                    : 0;
  }
  [[nodiscard]] std::size_t receive_bytes() const {
    return sends_in_place() ? vector_bytes() : result_elements() * plan_.element.bytes;
  }

  void fill_as(int rank, std::byte* at) const {
    fill(plan_.element, plan_.op, plan_.wild, at, vector_elements(),
         Random(mix({plan_.seed, 7, static_cast<std::uint64_t>(rank)})));
  }
  void put_contribution(const Buffer& buffer) const { fill_as(communicator_->rank, buffer.base()); }
  [[nodiscard]] Buffer contribution() const {
    Buffer sent(0, static_cast<std::ptrdiff_t>(vector_bytes()), false, 0, kSendContent);
    put_contribution(sent);
    return sent;
  }
  void set_up() {
    received_.fill(kReceiveContent);
    put_contribution(sends_in_place() ? received_ : send_);
  }

  // ((0 op 1) op 2) ...
  void reduce_in_order() {
    std::vector<std::byte> so_far(vector_bytes());
    std::vector<std::byte> next(vector_bytes());
    fill_as(0, so_far.data());
    for (int rank = 1; rank < operands(); ++rank) {
      fill_as(rank, next.data());
      reduce(plan_.element, plan_.op, so_far.data(), next.data(), vector_elements());
    }
    const std::size_t bytes = result_elements() * plan_.element.bytes;
    std::memcpy(expected_.base(), so_far.data() + first_element() * plan_.element.bytes, bytes);
  }

  void start(MPI_Comm communicator, bool large, MPI_Request* request) {
    const auto [from, to, count, counts] = arguments();
    const MPI_Datatype type = plan_.element.type;
    const MPI_Op op = plan_.op.op;
#if MPI_VERSION >= 4
    if (large) {
      switch (plan_.call) {
        case Call::allreduce: MPI_Iallreduce_c(from, to, count, type, op, communicator, request); return;
        case Call::reduce: MPI_Ireduce_c(from, to, count, type, op, root_, communicator, request); return;
        case Call::reduce_scatter_block:
          MPI_Ireduce_scatter_block_c(from, to, count, type, op, communicator, request);
          return;
        case Call::reduce_scatter:
          large_counts_.assign(plan_.counts.begin(), plan_.counts.end());
          MPI_Ireduce_scatter_c(from, to, large_counts_.data(), type, op, communicator, request);
          return;
        case Call::scan: MPI_Iscan_c(from, to, count, type, op, communicator, request); return;
        case Call::exscan: MPI_Iexscan_c(from, to, count, type, op, communicator, request); return;
      }
    }
#else
    static_cast<void>(large);
#endif
    switch (plan_.call) {
      case Call::allreduce: MPI_Iallreduce(from, to, count, type, op, communicator, request); return;
      case Call::reduce: MPI_Ireduce(from, to, count, type, op, root_, communicator, request); return;
      case Call::reduce_scatter_block:
        MPI_Ireduce_scatter_block(from, to, count, type, op, communicator, request);
        return;
      case Call::reduce_scatter: MPI_Ireduce_scatter(from, to, counts, type, op, communicator, request); return;
      case Call::scan: MPI_Iscan(from, to, count, type, op, communicator, request); return;
      case Call::exscan: MPI_Iexscan(from, to, count, type, op, communicator, request); return;
    }
  }

  Plan plan_;
  const Communicator* communicator_;
  int root_ = 0;
  bool large_form_ = false;
  std::vector<MPI_Count> large_counts_;
  Buffer send_;
  Buffer received_;
  Buffer expected_;
  MPI_Request persistent_ = MPI_REQUEST_NULL;
};

class Test {
 public:
  explicit Test(const Options& options) : options_(options) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  // Returns the number of operations; all ranks return after one has found a difference.
  int run() {
    int done = 0;
    for (int window = std::max(0, options_.only_window); done < options_.operations && !bad_; ++window) {
      if (communicators_ == nullptr || window % windows_per_epoch == 0) renew(window / windows_per_epoch);
      done += run_window(window);
      bad_ = agree(bad_);
      if (options_.only_window >= 0) break;
    }
    communicators_.reset();
    return done;
  }
  [[nodiscard]] bool good() const { return !bad_; }

 private:
  void renew(int epoch) {
    communicators_.reset();
    communicators_ = std::make_unique<Communicators>(
        MPI_COMM_WORLD, Random(mix({options_.seed, 3, static_cast<std::uint64_t>(epoch)})));
  }

  // Natively, so that the offloaded operations are the planned ones.
  [[nodiscard]] bool agree(bool bad) const {
    int here = bad ? 1 : 0;
    int anywhere = 0;
    MPI_Request request;
    int done = 0;
    MPI_Iallreduce(&here, &anywhere, 1, MPI_INT, MPI_MAX, communicators_->all().front().native, &request);
    while (done == 0) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done == 0) sched_yield();
    }
    return anywhere != 0;
  }

  int run_window(int number) {
    window_ = number;
    Random random(mix({options_.seed, 1, static_cast<std::uint64_t>(number)}));
    Random own_order(mix({options_.seed, 2, static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(rank_)}));
    const int operations = random.between(1, most_outstanding);
    std::vector<std::unique_ptr<Operation>> planned;
    std::vector<std::vector<std::size_t>> by_communicator(communicators_->all().size());
    for (int i = 0; i < operations; ++i) {
      const auto which = static_cast<std::size_t>(random.below(static_cast<int>(communicators_->all().size())));
      const Communicator& communicator = communicators_->all()[which];
      const std::uint64_t seed = random.next();
      if (!communicator.member()) continue;
      const Plan plan = Plan::make(seed, communicator.size, options_, own_);
      by_communicator[which].push_back(planned.size());
      planned.push_back(std::make_unique<Operation>(plan, communicator));
    }
    post_in_any_order(planned, by_communicator, own_order);
    check(planned, "", false);
    compare_with_native(planned, Random(mix({options_.seed, 9, static_cast<std::uint64_t>(number)})));
    return operations;
  }

  // Operations of one communicator stay in order.
  void post_in_any_order(const std::vector<std::unique_ptr<Operation>>& planned,
                         const std::vector<std::vector<std::size_t>>& by_communicator, Random& own_order) {
    std::vector<MPI_Request> requests(planned.size(), MPI_REQUEST_NULL);
    std::vector<bool> active(planned.size(), false);
    std::vector<std::size_t> next(by_communicator.size(), 0);
    for (std::size_t posted = 0; posted < planned.size();) {
      const auto which = static_cast<std::size_t>(own_order.below(static_cast<int>(by_communicator.size())));
      if (next[which] == by_communicator[which].size()) continue;
      const std::size_t operation = by_communicator[which][next[which]++];
      const bool persistent = options_.persistent >= 0 && planned[operation]->post_persistent(&requests[operation]);
      if (!persistent) planned[operation]->post(&requests[operation]);
      active[operation] = true;
      ++posted;
    }
    differential::complete(requests, active, own_order, [](std::size_t, const MPI_Status*) {});
  }

  void check(const std::vector<std::unique_ptr<Operation>>& planned, const char* how, bool native) {
    for (const auto& operation : planned) check(*operation, how, native);
  }
  void check(Operation& operation, const char* how, bool native) {
    const std::optional<std::string> difference = operation.difference(native);
    if (!difference) return;
    bad_ = true;
    std::fprintf(stderr,
                 "reductions: DIFFERENCE on rank %d: %s%s\n  %s\n  replay: reductions --seed %" PRIu64
                 " --max-bytes %" PRId64 " --window %d   (%d ranks)\n",
                 rank_, how, operation.describe().c_str(), difference->c_str(), options_.seed, options_.max_bytes,
                 window_, size_);
    std::fflush(stderr);
  }

  void compare_with_native(const std::vector<std::unique_ptr<Operation>>& planned, Random random) {
    for (const auto& operation : planned) {
      for (int i = 0; operation->is_persistent() && i < options_.persistent; ++i) {
        operation->run_again();
        check(*operation, "another start of ", false);
      }
      if (operation->is_persistent()) operation->free_persistent();
      if (options_.blocking) {
        operation->run_blocking_form();
        check(*operation, "blocking form of ", false);
      }
    }
    if (!random.chance(25)) return;
    for (const auto& operation : planned) {
      if (!operation->has_native()) continue;
      operation->run_native();
      check(*operation, "natively, ", true);
    }
  }

  Options options_;
  OwnOperator own_;
  int rank_ = 0;
  int size_ = 0;
  int window_ = 0;
  bool bad_ = false;
  std::unique_ptr<Communicators> communicators_;
};

int run(const Options& options) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (options.persistent >= 0 && !persistent::calls().there()) {
    if (rank == 0) std::printf("reductions: no persistent forms\n");
    return 0;
  }
  Test test(options);
  const int operations = test.run();
  if (rank == 0) {
    std::printf("reductions: seed %" PRIu64 ", %d operations: %s\n", options.seed, operations,
                test.good() ? "no difference" : "DIFFERENT");
  }
  return test.good() ? 0 : 1;
}

}  // namespace
}  // namespace reductions

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int bad = reductions::run(reductions::read_options(argc, argv));
  MPI_Finalize();
  return bad;
}
