// A rank whose own MPI does the collective, in virtual time: progress is made only inside MPI calls, or by a progress
// thread.
//
// The protocols are those that MPIs have in common. Messages of up to `eager` bytes are sent at once and copied at both
// ends. A longer one is announced first. Its bytes move in one of three ways once the receiver has a matching receive.
// The network card reads them. Or, within a node, the receiver copies them (cross-memory attach, XPMEM). Or, if
// processors carry the bytes, the receiver requests them from the sender. Sockets accept the bytes within the sending
// call, and the network carries them while ranks compute; the receiver has to read them.
//
//   sender                 receiver                     the end of each arrow is seen when that rank's MPI looks;
//   announce ----------->  matches                      only the card works on its own
//   card   ===bytes=====>  has it
//   done  <------- finished
//
// An algorithm is a coroutine that sends, receives and waits (baselines.hpp).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/core/scheduler.hpp"
#include "engine/core/task.hpp"
#include "fabric/sim/random.hpp"
#include "sim/model/core_copy.hpp"
#include "sim/model/machine.hpp"

namespace outrigger::sim::baselines {

class Host;
class Member;
class Message;
struct Role;

// Identifies a message: its operation, and its number within it.
struct Tag {
  std::uint64_t operation = 0;
  std::uint32_t step = 0;
  bool operator==(const Tag&) const = default;
};

// A processor core that several may use, first come, first served.
class Core {
 public:
  void acquire(std::function<void()> run);
  void release();

 private:
  std::deque<std::function<void()>> waiting_;
  bool taken_ = false;
};

// All ranks of a job.
class Hosts {
 public:
  // With `threads`, ranks of a node share as many cores for their progress threads as the node has service processes.
  Hosts(model::Machine& machine, bool threads);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  [[nodiscard]] Host& host(std::uint32_t rank) { return *hosts_[rank]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(hosts_.size()); }
  [[nodiscard]] std::uint64_t messages() const { return messages_; }
  [[nodiscard]] std::uint64_t message_bytes() const { return message_bytes_; }

 private:
  friend class Host;
  friend class Message;
  [[nodiscard]] Message& make_message();
  void free_message(Message& message);

  model::Machine& machine_;
  bool threads_;
  std::vector<std::unique_ptr<Core>> thread_cores_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Message>> all_messages_;
  std::vector<Message*> free_messages_;
  std::uint64_t messages_ = 0;
  std::uint64_t message_bytes_ = 0;
};

class Host {
 public:
  Host(Hosts& hosts, std::uint32_t rank, Core* thread_core);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host();

  // For members of an operation. Ranks are the job's.
  void send(std::uint32_t to, std::uint64_t bytes, const Tag& tag, engine::Countdown& done);
  void receive(std::uint32_t from, const Tag& tag, engine::Countdown& done);
  void copy(std::uint64_t bytes);
  void reduce(std::uint64_t bytes);
  [[nodiscard]] engine::Scheduler& scheduler() { return scheduler_; }
  [[nodiscard]] std::uint32_t rank() const { return rank_; }

  // For the program: posts a collective. `posted` is called when the call returns; the function given to when_done() is
  // called with `request` when the collective has ended. Several may be active.
  using Algorithm = engine::Task (*)(Member&, std::uint64_t bytes, std::uint32_t root);
  struct Call {
    Algorithm algorithm = nullptr;
    std::uint64_t bytes = 0;
    std::uint32_t root = 0;
    std::uint32_t request = 0;
  };
  void post(const Call& call, const Role& role, std::function<void()> posted);
  void be_in_mpi(bool inside);
  // Enters MPI as long as there is something to do, and at least for a message's time.
  void test(std::function<void()> returned);
  void when_done(std::function<void(std::uint32_t request)> done) { when_done_ = std::move(done); }

 private:
  friend class Message;
  enum class Part : std::uint8_t { copy, socket_out, socket_in };
  struct Event {
    std::uint64_t cost_ns;
    std::function<void()> what;
  };
  struct CoreJob {
    Message* message;
    Part part;
    std::uint64_t bytes;
  };
  // By source and tag: arrived messages without a receive, or receives without a message. First in, first out.
  struct Box {
    std::vector<Message*> unexpected;
    std::vector<engine::Countdown*> wanted;
  };
  struct Key {
    std::uint32_t source = 0;
    Tag tag;
    bool operator==(const Key&) const = default;
  };
  struct HashOfKey {
    std::size_t operator()(const Key& key) const noexcept {
      return static_cast<std::size_t>(fabric::sim::Random::mix(
          key.tag.operation ^ fabric::sim::Random::mix(std::uint64_t{key.source} << 32U | key.tag.step)));
    }
  };
  // Its tasks are the rest of the algorithm.
  struct Operation;

  // Something for this rank's MPI to handle at its next look.
  void take(std::uint64_t cost_ns, std::function<void()> what);
  void add_core_job(Message& message, Part part, std::uint64_t bytes);
  void carry(std::uint64_t bytes);
  void write(Message& message, std::uint64_t bytes);
  [[nodiscard]] double carried_bytes_per_s() const;
  void wake();
  void begin(const Call& call, const Role& role);
  void report_ended();
  void turn();
  void end_turn();
  void do_core_job();
  [[nodiscard]] bool active() const { return in_mpi_ || thread_core_ != nullptr; }
  void matched(Message& message, engine::Countdown& done);
  void arrived(Message& message);
  [[nodiscard]] const model::MpiModel& costs() const { return machine_.cluster.mpi; }
  // True if it waits in MPI with nothing to do and keeps a shared core busy.
  void look_whether_it_waits();

  Hosts& hosts_;
  model::Machine& machine_;
  std::uint32_t rank_;
  Core own_core_;
  Core* thread_core_;  // nullptr if there are no progress threads
  model::Processor& processor_;
  model::ProcessId process_;
  model::CpuBurst burst_;
  model::CoreCopy copy_;
  engine::Scheduler scheduler_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::deque<Event> inbox_;
  std::deque<CoreJob> core_jobs_;
  std::unordered_map<Key, Box, HashOfKey> boxes_;  // by key; none is empty
  std::function<void(std::uint32_t request)> when_done_;
  std::function<void()> test_returned_;  // set while it tests
  bool in_mpi_ = false;
  bool busy_ = false;
  bool waits_ = false;
};

}  // namespace outrigger::sim::baselines
