// A rank whose own MPI does the collective, in virtual time: nothing gets on but inside MPI calls, or where a progress
// thread stands by.
//
// The protocols are those that MPIs have in common. Up to `eager` bytes a message is sent at once and copied at both
// ends. A longer one is announced first; its receiver, once it has a matching receive, has the network card read it,
// copies it itself within a node (cross-memory attach, XPMEM), or asks the sender for it where processors carry the
// bytes.
//
//     sender                 receiver                     each arrow's end needs a look by that rank's MPI
//       announce ----------->  matches                    but the card's own work, which goes on by itself
//       card   ===bytes=====>  has it
//       done  <------- finished
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
#include "sim/model/core_copy.hpp"
#include "sim/model/machine.hpp"

namespace outrigger::sim::baselines {

class Host;
class Message;

// A processor core that several may want; they get it in the order in which they ask.
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

  // For algorithms. Each counts `done` once, when the buffer may be used again. Tags tell messages of a pair apart.
  void send(std::uint32_t to, std::uint64_t bytes, std::uint32_t tag, engine::Countdown& done);
  void receive(std::uint32_t from, std::uint64_t bytes, std::uint32_t tag, engine::Countdown& done);
  void copy(std::uint64_t bytes);    // within the rank's memory: packing
  void reduce(std::uint64_t bytes);  // two vectors of so many bytes
  [[nodiscard]] engine::Scheduler& scheduler() { return scheduler_; }
  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return hosts_.size(); }

  // For the program: posts a collective; `posted` is called when the call returns.
  void post(engine::Task (*algorithm)(Host&, std::uint64_t, std::uint32_t), std::uint64_t bytes, std::uint32_t root,
            std::function<void()> posted);
  void be_in_mpi(bool inside);
  [[nodiscard]] bool done() const { return tasks_.empty(); }
  void when_done(std::function<void()> done) { when_done_ = std::move(done); }

 private:
  friend class Message;
  enum class Part : std::uint8_t { copy, socket_out, socket_in };
  struct Event {
    std::uint64_t cost_ns;
    std::function<void()> what;
  };
  struct Chore {
    Message* message;
    Part part;
    std::uint64_t bytes;
  };
  // Of a source and a tag: what has come and is not wanted yet, or is wanted and has not come. First in, first out.
  struct Box {
    std::vector<Message*> unexpected;
    std::vector<engine::Countdown*> wanted;
  };
  [[nodiscard]] static std::uint64_t key(std::uint32_t source, std::uint32_t tag) {
    return std::uint64_t{source} << 32U | tag;
  }

  // Something that this rank's MPI sees when it looks next.
  void take(std::uint64_t cost_ns, std::function<void()> what);
  void add_chore(Message& message, Part part, std::uint64_t bytes);
  void wake();
  void turn();
  void end_turn();
  void do_chore(std::uint64_t switch_ns);
  [[nodiscard]] bool active() const { return in_mpi_ || thread_core_ != nullptr; }
  void matched(Message& message, engine::Countdown& done);
  void arrived(Message& message);
  [[nodiscard]] const model::MpiModel& costs() const { return machine_.cluster.mpi; }
  // Whether it waits in MPI with nothing to do, and keeps a shared core busy with that.
  void look_whether_it_spins();

  Hosts& hosts_;
  model::Machine& machine_;
  std::uint32_t rank_;
  Core own_core_;
  Core* thread_core_;  // null: there are no progress threads
  model::Processor& processor_;
  model::CpuBurst burst_;
  model::CoreCopy copy_;
  engine::Scheduler scheduler_;
  engine::TaskList tasks_;
  std::deque<Event> inbox_;
  std::deque<Chore> chores_;
  std::unordered_map<std::uint64_t, Box> boxes_;  // by key; none is empty
  std::function<void()> when_done_;
  bool in_mpi_ = false;
  bool busy_ = false;
  bool running_ = false;  // a collective has been posted and has not ended
  bool spins_ = false;
};

}  // namespace outrigger::sim::baselines
