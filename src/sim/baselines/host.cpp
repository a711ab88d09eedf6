#include "sim/baselines/host.hpp"

#include <algorithm>
#include <cassert>

#include "sim/baselines/member.hpp"
#include "sim/baselines/native_message.hpp"

namespace outrigger::sim::baselines {

void Core::acquire(std::function<void()> run) {
  if (taken_) {
    waiting_.push_back(std::move(run));
    return;
  }
  taken_ = true;
  run();
}

void Core::release() {
  assert(taken_);
  taken_ = false;
  if (waiting_.empty()) return;
  std::function<void()> next = std::move(waiting_.front());
  waiting_.pop_front();
  taken_ = true;
  next();
}

Hosts::Hosts(model::Machine& machine, bool threads) : machine_(machine), threads_(threads) {
  const JobShape& shape = machine.places.shape();
  for (std::uint32_t core = 0; threads && core < machine.places.services(); ++core) {
    thread_cores_.push_back(std::make_unique<Core>());
  }
  for (std::uint32_t rank = 0; rank < shape.nodes * shape.ranks_per_node; ++rank) {
    Core* const thread_core = threads ? thread_cores_[machine.places.service_of(rank)].get() : nullptr;
    hosts_.push_back(std::make_unique<Host>(*this, rank, thread_core));
  }
}

Hosts::~Hosts() = default;

Message& Hosts::make_message() {
  if (free_messages_.empty()) return *all_messages_.emplace_back(std::make_unique<Message>(*this));
  Message& message = *free_messages_.back();
  free_messages_.pop_back();
  return message;
}

void Hosts::free_message(Message& message) {
  free_messages_.push_back(&message);
}

Host::Host(Hosts& hosts, std::uint32_t rank, Core* thread_core)
    : hosts_(hosts),
      machine_(hosts.machine_),
      rank_(rank),
      thread_core_(thread_core),
      processor_(thread_core == nullptr ? machine_.core_of_rank(rank)
                                        : machine_.processors.of_services(machine_.places.node_of(rank))),
      process_(model::Machine::process_of_rank(rank)),
      burst_(processor_, process_),
      copy_(machine_, processor_, process_) {}

struct Host::Operation {
  Operation(Host& host, const Role& role, std::uint32_t number)
      : member(host, role), tasks(host.scheduler_), request(number) {}
  Member member;
  engine::TaskList tasks;
  std::uint32_t request;
};

Host::~Host() = default;

void Host::send(std::uint32_t to, std::uint64_t bytes, const Tag& tag, engine::Countdown& done) {
  ++hosts_.messages_;
  hosts_.message_bytes_ += bytes;
  burst_.spend(costs().message_ns);
  hosts_.make_message().send(*this, hosts_.host(to), bytes, tag, done);
}

void Host::receive(std::uint32_t from, const Tag& tag, engine::Countdown& done) {
  const Key key{from, tag};
  Box& box = boxes_[key];
  if (box.unexpected.empty()) {
    box.wanted.push_back(&done);
    return;
  }
  Message& message = *box.unexpected.front();
  box.unexpected.erase(box.unexpected.begin());
  if (box.unexpected.empty()) boxes_.erase(key);
  message.matched(done);
}

void Host::arrived(Message& message) {
  const Key from{message.source().rank(), message.tag()};
  Box& box = boxes_[from];
  if (box.wanted.empty()) {
    box.unexpected.push_back(&message);
    return;
  }
  engine::Countdown& done = *box.wanted.front();
  box.wanted.erase(box.wanted.begin());
  if (box.wanted.empty()) boxes_.erase(from);
  message.matched(done);
}

void Host::copy(std::uint64_t bytes) {
  burst_.spend(model::host_copy_ns(machine_, bytes));
}

// Copies a short message into or out of the MPI's memory.
void Host::carry(std::uint64_t bytes) {
  const double bytes_per_s = costs().eager_bytes_per_s > 0
                                 ? machine_.copy_rate(costs().eager_bytes_per_s, costs().missed_bytes_per_s)
                                 : carried_bytes_per_s();
  burst_.spend(model::bytes_ns(bytes, bytes_per_s));
}

// To a socket, whose buffers accept it at once.
void Host::write(Message& message, std::uint64_t bytes) {
  const std::uint64_t chunk_bytes = machine_.cluster.network.chunk_bytes;
  for (std::uint64_t begun = 0; begun < bytes; begun += chunk_bytes) {
    const std::uint64_t chunk = std::min(chunk_bytes, bytes - begun);
    burst_.spend(model::bytes_ns(chunk, machine_.cluster.host.socket_bytes_per_s));
    burst_.then([&message, chunk] { message.set_out(chunk); });
  }
}

double Host::carried_bytes_per_s() const {
  const model::HostModel& host = machine_.cluster.host;
  if (costs().copy_bytes_per_s > 0) return machine_.copy_rate(costs().copy_bytes_per_s, costs().missed_bytes_per_s);
  return machine_.copy_rate(host.copy_bytes_per_s, host.missed_bytes_per_s);
}

void Host::reduce(std::uint64_t bytes) {
  burst_.spend(model::bytes_ns(bytes, machine_.cluster.host.reduce_bytes_per_s));
}

void Host::begin(const Call& call, const Role& role) {
  Operation& operation = *operations_.emplace_back(std::make_unique<Operation>(*this, role, call.request));
  operation.tasks.spawn(call.algorithm(operation.member, call.bytes, call.root));
}

// Earlier arrivals are handled first; they must not count as the end of this operation.
void Host::post(const Call& call, const Role& role, std::function<void()> posted) {
  in_mpi_ = true;
  if (thread_core_ != nullptr) {  // the thread continues
    machine_.core_of_rank(rank_).run(process_, costs().post_ns, std::move(posted));
    return take(costs().message_ns, [this, call, role] { begin(call, role); });
  }
  take(costs().post_ns, [this, call, role, posted = std::move(posted)] {
    begin(call, role);
    scheduler_.run();
    burst_.then(posted);
  });
}

void Host::test(std::function<void()> returned) {
  in_mpi_ = true;
  if (thread_core_ != nullptr) {
    return machine_.core_of_rank(rank_).run(process_, costs().message_ns, [this, returned = std::move(returned)] {
      in_mpi_ = false;
      returned();
    });
  }
  test_returned_ = std::move(returned);
  take(costs().message_ns, [] {});
}

void Host::be_in_mpi(bool inside) {
  in_mpi_ = inside;
  wake();
  look_whether_it_waits();
}

void Host::take(std::uint64_t cost_ns, std::function<void()> what) {
  inbox_.push_back(Event{cost_ns, std::move(what)});
  wake();
}

void Host::add_core_job(Message& message, Part part, std::uint64_t bytes) {
  core_jobs_.push_back(CoreJob{&message, part, bytes});
  wake();
}

void Host::wake() {
  if (busy_ || !active() || (inbox_.empty() && core_jobs_.empty())) return;
  busy_ = true;
  look_whether_it_waits();
  Core& core = thread_core_ == nullptr ? own_core_ : *thread_core_;
  machine_.time.after(0, [this, &core] { core.acquire([this] { turn(); }); });
}

// Handles one arrival, or one piece of a message to carry.
void Host::turn() {
  if (inbox_.empty()) return core_jobs_.empty() ? end_turn() : do_core_job();
  burst_.begin();
  const Event event = std::move(inbox_.front());
  inbox_.pop_front();
  burst_.spend(event.cost_ns + (thread_core_ == nullptr ? 0 : costs().thread_switch_ns));
  event.what();
  scheduler_.run();
  burst_.then([this] { end_turn(); });
}

void Host::do_core_job() {
  CoreJob job = core_jobs_.front();
  core_jobs_.pop_front();
  const std::uint64_t bytes = std::min(job.bytes, machine_.cluster.network.chunk_bytes);
  job.bytes -= bytes;
  if (job.bytes != 0) core_jobs_.push_front(job);
  const model::HostModel& host = machine_.cluster.host;
  const auto done = [this, job, bytes] {
    burst_.begin();
    job.message->carried(job.part == Part::socket_out, bytes);
    scheduler_.run();
    burst_.then([this] { end_turn(); });
  };
  if (job.part == Part::copy) {
    const std::uint32_t node = machine_.places.node_of(rank_);
    const std::uint64_t core_ns = model::bytes_ns(bytes, carried_bytes_per_s());
    return copy_.begin(node, bytes, core_ns, done);
  }
  processor_.run(process_, model::bytes_ns(bytes, host.socket_bytes_per_s), done);
}

void Host::report_ended() {
  for (std::size_t i = 0; i < operations_.size();) {
    if (!operations_[i]->tasks.empty()) {
      ++i;
      continue;
    }
    const std::uint32_t request = operations_[i]->request;
    operations_.erase(operations_.begin() + static_cast<std::ptrdiff_t>(i));
    if (when_done_) when_done_(request);
  }
}

void Host::end_turn() {
  busy_ = false;
  (thread_core_ == nullptr ? own_core_ : *thread_core_).release();
  report_ended();
  if (test_returned_ && inbox_.empty() && core_jobs_.empty()) {
    in_mpi_ = false;
    return std::exchange(test_returned_, nullptr)();
  }
  wake();
  look_whether_it_waits();
}

void Host::look_whether_it_waits() {
  const bool waits = thread_core_ == nullptr && in_mpi_ && !busy_;
  if (waits == waits_) return;
  waits_ = waits;
  if (machine_.cluster.host.waiting == model::Waiting::spins) processor_.spin(process_, waits);
  if (machine_.cluster.host.waiting == model::Waiting::yields) processor_.poll(process_, waits);
}

}  // namespace outrigger::sim::baselines
