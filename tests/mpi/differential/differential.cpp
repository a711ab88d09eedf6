// Tests that offloaded collectives put the same bytes in the same places as the native MPI, and change no others.
// Seeded and random: calls, counts, displacements, datatypes, MPI_IN_PLACE, MPI_BOTTOM, buffers, communicators, windows
// of several outstanding operations mixed with point-to-point messages, posting orders and completion calls. Every
// operation runs once more on a native communicator (info outrigger=off), and whole buffers are compared. Where they
// differ, the right bytes follow from the seed, and show which of both is wrong.
//
//   differential [--seed S] [--operations N] [--max-bytes B] [--threads T] [--window W] [--stall-s S] [--verbose 1]
//               [--careful 1] [--blocking 1] [--persistent N] [--pause-us P]
//
//   --window W      runs only that window. A difference prints this option for the replay
//   --stall-s S     without progress for S seconds, prints the outstanding operations and ends
//   --verbose 1     prints every operation before it is posted
//   --careful 1     avoids errors of the native MPIs of Debian 12
//   --blocking 1    also runs every operation by its blocking form
//   --persistent N  posts persistent forms instead, and starts each N times more
//   --pause-us P    ranks pause about this long before they post, with variations
//
// Without Outrigger both sides are native. The program must then pass with --careful 1.

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../programs/persistent_calls.hpp"
#include "communicators.hpp"
#include "completion.hpp"
#include "operation.hpp"
#include "watchdog.hpp"

namespace differential {
namespace {

constexpr int windows_per_epoch = 12;            // new communicators after so many windows
constexpr std::int64_t window_bytes = 16 << 20;  // about the most bytes that a rank sends in a window

struct Options {
  std::uint64_t seed = 1;
  int operations = 200;
  std::int64_t max_bytes = 4 << 20;
  int threads = 1;
  int only_window = -1;
  int stall_s = 60;
  bool verbose = false;
  bool careful = false;
  int spoil = 0;  // 1: what is received, 2: what it is compared with
  bool blocking = false;
  int persistent = -1;  // additional starts; -1: no persistent forms
  int pause_us = 0;
};

// Open MPI 4.1 rarely mixes messages on new communicators, where its ranks get no core for seconds.
int most_native_errors(const Options& options) {
  if (options.spoil == 2) return std::numeric_limits<int>::max();
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
  int length = 0;
  MPI_Get_library_version(version.data(), &length);
  return std::string_view(version.data()).starts_with("Open MPI v4") ? 1 : 0;
}

std::atomic<int> native_errors = 0;  // of this rank

[[noreturn]] void usage(const char* problem) {
  std::fprintf(stderr,
               "differential: %s\n"
               "usage: differential [--seed S] [--operations N] [--max-bytes B] [--threads 1|2] [--window W]\n         "
               "           [--stall-s S] [--verbose 1] [--careful 1] [--blocking 1] [--spoil 1|2] [--pause-us P]\n"
               "                    [--persistent N]\n",
               problem);
  std::exit(2);
}

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 >= argc) usage("an option without a value");
    const std::string name = argv[i];
    const long long value = std::atoll(argv[i + 1]);
    if (name == "--seed") {
      options.seed = static_cast<std::uint64_t>(value);
    } else if (name == "--operations" && value > 0) {
      options.operations = static_cast<int>(value);
    } else if (name == "--max-bytes" && value > 0) {
      options.max_bytes = value;
    } else if (name == "--threads" && (value == 1 || value == 2)) {
      options.threads = static_cast<int>(value);
    } else if (name == "--stall-s" && value > 0) {
      options.stall_s = static_cast<int>(value);
    } else if (name == "--verbose") {
      options.verbose = value != 0;
    } else if (name == "--careful") {
      options.careful = value != 0;
    } else if (name == "--blocking") {
      options.blocking = value != 0;
    } else if (name == "--persistent" && value >= 0) {
      options.persistent = static_cast<int>(value);
    } else if (name == "--pause-us" && value >= 0) {
      options.pause_us = static_cast<int>(value);
    } else if (name == "--spoil") {
      options.spoil = static_cast<int>(value);
    } else if (name == "--window" && value >= 0) {
      options.only_window = static_cast<int>(value);
    } else {
      usage((name + " " + argv[i + 1] + " is not understood").c_str());
    }
  }
  return options;
}

// A point-to-point message that is outstanding beside the collectives.
struct Message {
  int from, to, tag;
  std::int64_t bytes;
  bool persistent;
  std::uint64_t content;
};

// One post, in this rank's order.
struct Step {
  enum class Kind { operation, barrier, send, receive } kind;
  std::size_t index;         // of the operation or message
  std::size_t communicator;  // steps on it keep their order; any for messages
};

// Several operations and messages that are outstanding at the same time.
class Window {
 public:
  Window(const Options& options, int thread, int number, const Communicators& communicators, MPI_Comm messages)
      : options_(options), thread_(thread), number_(number), messages_comm_(messages) {
    MPI_Comm_rank(messages, &rank_);
    MPI_Comm_size(messages, &size_);
    // The number of operations does not depend on the thread, so that threads can synchronize between windows.
    operations_ = operations_in(options.seed, number);
    const std::uint64_t seed =
        mix({options.seed, 2, static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(thread)});
    plan_operations(Random(mix({seed, 1})), communicators);
    plan_messages(Random(mix({seed, 2})));
    own_ = std::make_unique<Random>(mix({seed, 3, static_cast<std::uint64_t>(rank_)}));
    order_steps();
  }

  static int operations_in(std::uint64_t seed, int number) {
    Random random(mix({seed, 1, static_cast<std::uint64_t>(number)}));
    return random.chance(25) ? random.between(1, 2) : random.between(3, 16);
  }

  void post(Watchdog& watchdog) {
    watchdog.now(thread_, title("posting"), descriptions_);
    requests_.assign(steps_.size(), MPI_REQUEST_NULL);
    active_.assign(steps_.size(), false);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (options_.verbose) std::fprintf(stderr, "%s\n  %s\n", title("posting").c_str(), descriptions_[i].c_str());
      if (options_.pause_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(pause_us()));
      post_step(i);
      active_[i] = true;
      if (own_->chance(10)) {
        poke(std::span(requests_).first(i + 1), active_, *own_, report_to(watchdog));
      }
    }
    // Null and inactive requests must do no harm.
    for (int i = own_->below(3); i > 0; --i) {
      requests_.push_back(MPI_REQUEST_NULL);
      active_.push_back(false);
    }
  }

  // May be called by another thread than the posting one.
  void complete_all(Watchdog& watchdog) {
    complete(requests_, active_, *own_, report_to(watchdog));
    for (std::size_t i = 0; i < steps_.size(); ++i) finish_step(i);
  }

  // Runs everything natively and compares. True if there is no difference.
  bool check(Watchdog& watchdog) {
    watchdog.now(thread_, title("running natively"), {});
    bool good = true;
    for (std::unique_ptr<Operation>& operation : planned_) {
      if (operation == nullptr) continue;
      operation->run_native();
      watchdog.advanced();
    }
    for (std::unique_ptr<Operation>& operation : planned_) {
      if (operation == nullptr) continue;
      if (options_.spoil == 1) operation->spoil();
      if (options_.spoil == 2) operation->spoil_native();
      good = compare(*operation, "") && good;
    }
    for (std::unique_ptr<Operation>& operation : planned_) {
      if (operation == nullptr || !options_.blocking) continue;
      operation->run_blocking_form();
      watchdog.advanced();
      good = compare(*operation, "blocking form of ") && good;
    }
    for (std::unique_ptr<Operation>& operation : planned_) {
      if (operation == nullptr || !operation->is_persistent()) continue;
      for (int i = 0; i < options_.persistent; ++i) {
        operation->run_again();
        watchdog.advanced();
        good = compare(*operation, "another start of ") && good;
      }
      operation->free_persistent();
    }
    repeat_barriers(watchdog);
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const Message& message = messages_[i];
      if (message.to == rank_ && !received_[i].untouched(message.content)) {
        good = fail("message " + std::to_string(i) + ": wrong bytes");
      }
    }
    return good && !failed_;
  }

  [[nodiscard]] int operations() const { return operations_; }

 private:
  void plan_operations(Random random, const Communicators& communicators) {
    const std::vector<Communicator>& all = communicators.all();
    const int different = random.between(1, static_cast<int>(all.size()));
    const int shift = random.below(static_cast<int>(all.size()));
    std::int64_t left = window_bytes;
    for (int i = 0; i < operations_; ++i) {
      const auto which = static_cast<std::size_t>((shift + random.below(different)) % static_cast<int>(all.size()));
      const Communicator& communicator = all[which];
      // Groups may differ between ranks ("halves"), so all ranks plan as members of it.
      Plan plan = Plan::make(random.next(), size_, std::max<std::int64_t>(1, std::min(options_.max_bytes, left)),
                             options_.careful);
      left -= plan.longest * plan.quantum * unit_bytes(plan.unit) * size_;
      if (communicator.size == 1 || (options_.careful && communicator.name == "cart")) plan.keep_native_right();
      planned_.push_back(communicator.member() ? std::make_unique<Operation>(plan, communicator) : nullptr);
      const bool barrier_before = random.chance(8);
      if (communicator.member()) {
        if (barrier_before) steps_.push_back({Step::Kind::barrier, planned_.size() - 1, which});
        steps_.push_back({Step::Kind::operation, planned_.size() - 1, which});
        barrier_on_.push_back(communicator.offloaded);
      } else {
        barrier_on_.push_back(MPI_COMM_NULL);
      }
    }
  }

  void plan_messages(Random random) {
    const int count = random.chance(40) ? 0 : random.between(1, 6);
    for (int i = 0; i < count; ++i) {
      Message message{};
      message.from = random.below(size_);
      message.to = random.below(size_);
      message.tag = i;
      message.bytes = random.log_uniform(random.chance(15) ? 1 << 20 : 20'000);
      message.persistent = random.chance(25);
      message.content = random.next();
      messages_.push_back(message);
      const auto index = messages_.size() - 1;
      sent_.emplace_back();
      received_.emplace_back();
      if (message.from == rank_) {
        sent_.back() = Buffer(0, message.bytes, message.content % 2 == 0, 0, message.content);
        steps_.push_back({Step::Kind::send, index, 0});
      }
      if (message.to == rank_) {
        received_.back() = Buffer(0, message.bytes, false, 0, message.content);
        // The sender's guards, but other bytes inside until the message comes.
        std::memset(received_.back().base(), 0x5a, static_cast<std::size_t>(message.bytes));
        steps_.push_back({Step::Kind::receive, index, 0});
      }
    }
  }

  // Every rank has its own order; only operations on the same communicator stay in order.
  void order_steps() {
    std::vector<Step> shuffled = steps_;
    for (std::size_t i = shuffled.size(); i > 1; --i) {
      std::swap(shuffled[i - 1], shuffled[static_cast<std::size_t>(own_->below(static_cast<int>(i)))]);
    }
    if (own_->chance(30)) shuffled = steps_;
    const auto collective = [](const Step& step) {
      return step.kind == Step::Kind::operation || step.kind == Step::Kind::barrier;
    };
    // Fill the places of each communicator's steps in the common order.
    std::vector<bool> used(steps_.size(), false);
    for (Step& place : shuffled) {
      if (!collective(place)) continue;
      for (std::size_t i = 0; i < steps_.size(); ++i) {
        if (used[i] || !collective(steps_[i]) || steps_[i].communicator != place.communicator) continue;
        place = steps_[i];
        used[i] = true;
        break;
      }
    }
    steps_ = shuffled;
    for (const Step& step : steps_) descriptions_.push_back(describe(step));
  }

  [[nodiscard]] bool is_persistent(const Step& step) const {
    if (step.kind == Step::Kind::barrier) return options_.persistent >= 0;
    return step.kind == Step::Kind::operation && planned_[step.index]->is_persistent();
  }
  [[nodiscard]] std::string describe(const Step& step) const {
    if (step.kind == Step::Kind::operation) return planned_[step.index]->describe();
    if (step.kind == Step::Kind::barrier) return "MPI_Ibarrier before operation " + std::to_string(step.index);
    const Message& message = messages_[step.index];
    return (step.kind == Step::Kind::send ? "send of " : "receive of ") + std::to_string(message.bytes) +
           " bytes from rank " + std::to_string(message.from) + " to rank " + std::to_string(message.to);
  }

  void post_step(std::size_t i) {
    const Step& step = steps_[i];
    MPI_Request* request = &requests_[i];
    if (step.kind == Step::Kind::operation && options_.persistent >= 0) {
      return planned_[step.index]->post_persistent(request);
    }
    if (step.kind == Step::Kind::operation) return planned_[step.index]->post(request);
    if (step.kind == Step::Kind::barrier) {
      post_barrier(barrier_on_[step.index], request);
      return;
    }
    const Message& m = messages_[step.index];
    const int bytes = static_cast<int>(m.bytes);
    const bool sending = step.kind == Step::Kind::send;
    void* data = sending ? sent_[step.index].base() : received_[step.index].base();
    if (m.persistent) {
      if (sending) {
        MPI_Send_init(data, bytes, MPI_BYTE, m.to, m.tag, messages_comm_, request);
      } else {
        MPI_Recv_init(data, bytes, MPI_BYTE, m.from, m.tag, messages_comm_, request);
      }
      MPI_Start(request);
    } else if (sending) {
      MPI_Isend(data, bytes, MPI_BYTE, m.to, m.tag, messages_comm_, request);
    } else {
      MPI_Irecv(data, bytes, MPI_BYTE, m.from, m.tag, messages_comm_, request);
    }
  }

  // Persistent forms are left out in a group of one, see Operation.
  void post_barrier(MPI_Comm on, MPI_Request* request) {
    int size = 0;
    MPI_Comm_size(on, &size);
    if (options_.persistent < 0 || size == 1) {
      MPI_Ibarrier(on, request);
      return;
    }
    persistent::calls().barrier(on, MPI_INFO_NULL, request);
    MPI_Start(request);
    persistent_barriers_.push_back(*request);
  }

  // As many starts as other operations.
  void repeat_barriers(Watchdog& watchdog) {
    for (std::size_t i = 0; i < planned_.size(); ++i) {
      const bool is_there = std::ranges::any_of(
          steps_, [i](const Step& step) { return step.kind == Step::Kind::barrier && step.index == i; });
      if (!options_.blocking || !is_there) continue;
      MPI_Barrier(barrier_on_[i]);
      watchdog.advanced();
    }
    for (int again = 0; again < options_.persistent; ++again) {
      for (MPI_Request& barrier : persistent_barriers_) MPI_Start(&barrier);
      MPI_Waitall(static_cast<int>(persistent_barriers_.size()), persistent_barriers_.data(), MPI_STATUSES_IGNORE);
    }
    for (MPI_Request& barrier : persistent_barriers_) MPI_Request_free(&barrier);
    persistent_barriers_.clear();
  }

  Done report_to(Watchdog& watchdog) {
    return [this, &watchdog](std::size_t index, const MPI_Status* status) {
      watchdog.done(thread_, index);
      if (status != nullptr && steps_[index].kind == Step::Kind::receive) check_status(index, *status);
    };
  }

  void check_status(std::size_t index, const MPI_Status& status) {
    const Message& message = messages_[steps_[index].index];
    int bytes = -1;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (status.MPI_SOURCE != message.from || status.MPI_TAG != message.tag || bytes != message.bytes) {
      failed_ = !fail(describe(steps_[index]) + ": status says source " + std::to_string(status.MPI_SOURCE) + ", tag " +
                      std::to_string(status.MPI_TAG) + ", " + std::to_string(bytes) + " bytes");
    }
  }

  // Between nine and twelve tenths.
  int pause_us() { return options_.pause_us / 10 * 9 + own_->below(options_.pause_us / 10 * 3 + 1); }

  void finish_step(std::size_t i) {
    const Step& step = steps_[i];
    const bool message = step.kind == Step::Kind::send || step.kind == Step::Kind::receive;
    if (message && messages_[step.index].persistent) {
      MPI_Request_free(&requests_[i]);
    } else if (requests_[i] != MPI_REQUEST_NULL && !is_persistent(step)) {
      failed_ = !fail(describe(step) + ": completed, but its request is not MPI_REQUEST_NULL");
    }
  }

  [[nodiscard]] std::string title(const char* doing) const {
    return "seed " + std::to_string(options_.seed) + ", window " + std::to_string(number_) + ", thread " +
           std::to_string(thread_) + ": " + doing;
  }

  // False: the offloaded call is wrong, or the native one more often than it may be.
  bool compare(const Operation& operation, const char* form) {
    const std::optional<Operation::Difference> difference = operation.difference();
    if (!difference) return true;
    const bool fails = !difference->native_is_wrong || ++native_errors > most_native_errors(options_);
    report(fails ? "DIFFERENCE" : "WRONG bytes of the native MPI",
           form + operation.describe() + "\n  " + difference->text);
    return !fails;
  }

  // Prints and returns false.
  bool fail(const std::string& what) const {
    report("DIFFERENCE", what);
    return false;
  }
  void report(const char* verdict, const std::string& what) const {
    std::fprintf(stderr,
                 "differential: %s on rank %d, seed %" PRIu64
                 ", window %d, thread %d:\n  %s\n"
                 "  replay: differential --seed %" PRIu64 " --threads %d --max-bytes %" PRId64
                 " --window %d%s   (%d ranks)\n",
                 verdict, rank_, options_.seed, number_, thread_, what.c_str(), options_.seed, options_.threads,
                 options_.max_bytes, number_, options_.careful ? " --careful 1" : "", size_);
    std::fflush(stderr);
  }

  const Options& options_;
  int thread_;
  int number_;
  MPI_Comm messages_comm_;
  int rank_ = 0;
  int size_ = 0;
  int operations_ = 0;
  std::unique_ptr<Random> own_;  // decisions of this rank alone
  std::vector<std::unique_ptr<Operation>> planned_;
  std::vector<MPI_Comm> barrier_on_;
  std::vector<MPI_Request> persistent_barriers_;
  std::vector<Message> messages_;
  std::vector<Buffer> sent_;
  std::vector<Buffer> received_;
  std::vector<Step> steps_;
  std::vector<std::string> descriptions_;
  std::vector<MPI_Request> requests_;
  std::vector<bool> active_;
  bool failed_ = false;
};

// The two threads of a rank exchange their posts here.
struct Exchange {
  explicit Exchange(int threads) : barrier(threads) {}
  std::barrier<> barrier;
  Window* posted[2] = {nullptr, nullptr};
};

class Worker {
 public:
  Worker(const Options& options, int thread, MPI_Comm parent, Watchdog& watchdog, Exchange& exchange)
      : options_(options), thread_(thread), parent_(parent), watchdog_(watchdog), exchange_(exchange) {
    MPI_Comm_dup(parent, &messages_);
    if (options.threads > 1) renew_communicators(0);  // one thread at a time makes communicators
  }
  ~Worker() {
    communicators_.reset();
    MPI_Comm_free(&messages_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void run() {
    const int per_thread = (options_.operations + options_.threads - 1) / options_.threads;
    for (int number = 0; operations_ < per_thread && good_; ++number) {
      if (options_.only_window >= 0) number = options_.only_window;
      if (options_.threads == 1) renew_communicators(number / windows_per_epoch);
      run_window(number);
      if (options_.only_window >= 0) break;
    }
  }

  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] int operations() const { return operations_; }

 private:
  void renew_communicators(int epoch) {
    if (epoch == epoch_) return;
    epoch_ = epoch;
    watchdog_.now(thread_, "making communicators", {});
    communicators_.reset();
    const auto thread = static_cast<std::uint64_t>(thread_);
    const Random random(mix({options_.seed, 3, static_cast<std::uint64_t>(epoch), thread}));
    communicators_ = std::make_unique<Communicators>(parent_, random);
  }

  void run_window(int number) {
    Window window(options_, thread_, number, *communicators_, messages_);
    window.post(watchdog_);
    const bool swap =
        options_.threads > 1 && Random(mix({options_.seed, 4, static_cast<std::uint64_t>(number)})).chance(40);
    if (swap) {
      exchange_.posted[thread_] = &window;
      exchange_.barrier.arrive_and_wait();
      exchange_.posted[1 - thread_]->complete_all(watchdog_);
      exchange_.barrier.arrive_and_wait();
    } else {
      window.complete_all(watchdog_);
    }
    operations_ += window.operations();
    const int bad_here = window.check(watchdog_) ? 0 : 1;
    int bad = 0;
    MPI_Request request;
    int done = 0;
    // Natively, so that the offloaded operations are the planned ones.
    const MPI_Comm native = communicators_->all().front().native;
    MPI_Iallreduce(&bad_here, &bad, 1, MPI_INT, MPI_MAX, native, &request);
    while (done == 0) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done == 0) sched_yield();
    }
    // Both threads must agree to stop, or one would wait for ever.
    if (bad != 0) good_ = false;
    if (bad != 0 && options_.threads > 1) MPI_Abort(MPI_COMM_WORLD, 1);
    watchdog_.now(thread_, "", {});
  }

  const Options& options_;
  int thread_;
  MPI_Comm parent_;
  MPI_Comm messages_ = MPI_COMM_NULL;
  Watchdog& watchdog_;
  Exchange& exchange_;
  std::unique_ptr<Communicators> communicators_;
  int epoch_ = -1;
  int operations_ = 0;
  bool good_ = true;
};

int run_all(const Options& options) {
  int rank;
  int size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Watchdog watchdog(rank, options.stall_s);
  Exchange exchange(options.threads);
  MPI_Comm second = MPI_COMM_NULL;
  if (options.threads > 1) MPI_Comm_dup(MPI_COMM_WORLD, &second);
  int bad = 0;
  int operations = 0;
  {
    Worker first(options, 0, MPI_COMM_WORLD, watchdog, exchange);
    std::unique_ptr<Worker> other;
    if (options.threads > 1) other = std::make_unique<Worker>(options, 1, second, watchdog, exchange);
    std::thread thread;
    if (other) thread = std::thread([&other] { other->run(); });
    first.run();
    if (thread.joinable()) thread.join();
    bad = first.good() && (!other || other->good()) ? 0 : 1;
    operations = first.operations() + (other ? other->operations() : 0);
  }
  if (second != MPI_COMM_NULL) MPI_Comm_free(&second);
  if (rank == 0) {
    std::printf("differential: seed %" PRIu64 ", %d ranks, %d threads, %d operations: %s%s\n", options.seed, size,
                options.threads, operations, bad == 0 ? "no difference" : "DIFFERENT",
                native_errors == 0 ? "" : " but for native errors");
  }
  return bad;
}

}  // namespace
}  // namespace differential

int main(int argc, char** argv) {
  const differential::Options options = differential::read_options(argc, argv);
  const int wanted = options.threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, wanted, &provided);
  if (provided < wanted) {
    std::fprintf(stderr, "differential: this MPI has no MPI_THREAD_MULTIPLE\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int bad = differential::run_all(options);
  MPI_Finalize();
  return bad;
}
