#include "sim/baselines/native_message.hpp"

#include <algorithm>

namespace outrigger::sim::baselines {
namespace {

constexpr std::uint64_t kSignalBytes = 64;  // an announcement, or the end of reading

}  // namespace

bool Message::within_node() const {
  const Places& places = hosts_.machine_.places;
  return places.node_of(source_->rank()) == places.node_of(target_->rank());
}

bool Message::by_processors() const {
  return hosts_.machine_.cluster.network.wire == model::WireKind::processor && !within_node();
}

model::Route Message::way() const {
  const model::Machine& machine = hosts_.machine_;
  return machine.topology.route(machine.place_of_rank(source_->rank()), machine.place_of_rank(target_->rank()));
}

void Message::send(Host& source, Host& target, std::uint64_t bytes, const Tag& tag, engine::Countdown& done) {
  source_ = &source;
  target_ = &target;
  bytes_ = std::max<std::uint64_t>(bytes, 1);  // an empty message still arrives
  tag_ = tag;
  carried_in_ = carried_out_ = 0;
  ends_left_ = 2;
  send_done_ = &done;
  receive_done_ = nullptr;
  eager_ = bytes <= hosts_.machine_.cluster.mpi.eager_bytes;
  if (!eager_) return signal(source, target, &Message::seen_by_target);
  within_node() ? source.carry(bytes) : source.copy(bytes);
  if (by_processors()) {
    source.write(*this, bytes_);
  } else if (within_node()) {
    signal(source, target, &Message::seen_by_target);
  } else {
    source.burst_.then([this] { set_out(bytes_); });
  }
  source_done();
}

void Message::signal(Host& from, Host& to, void (Message::*seen)()) {
  model::Machine& machine = hosts_.machine_;
  std::uint64_t way_ns = 0;  // within a node the look at the other end is the whole cost
  if (!within_node()) {
    const model::Route route =
        machine.topology.route(machine.place_of_rank(from.rank()), machine.place_of_rank(to.rank()));
    way_ns = machine.network.control_ns(route, kSignalBytes);
  }
  from.burst_.then([this, &machine, &to, seen, way_ns] {
    machine.time.after(way_ns,
                       [this, &to, seen] { to.take(to.costs().message_ns, [this, seen] { (this->*seen)(); }); });
  });
}

void Message::seen_by_target() {
  target_->arrived(*this);
}

void Message::matched(engine::Countdown& done) {
  receive_done_ = &done;
  if (eager_) {
    within_node() ? target_->carry(bytes_) : target_->copy(bytes_);
    return received();
  }
  if (within_node()) {
    target_->burst_.spend(target_->costs().rendezvous_ns);
    return target_->add_core_job(*this, Host::Part::copy, bytes_);
  }
  if (by_processors()) return signal(*target_, *source_, &Message::asked_for);
  model::Machine& machine = hosts_.machine_;
  const model::Route ask =
      machine.topology.route(machine.place_of_rank(target_->rank()), machine.place_of_rank(source_->rank()));
  const std::uint64_t asked_ns = machine.network.control_ns(ask, kSignalBytes);
  target_->burst_.then([this, &machine, asked_ns] { machine.time.after(asked_ns, [this] { set_out(bytes_); }); });
}

// Only if processors carry the bytes.
void Message::asked_for() {
  source_->add_core_job(*this, Host::Part::socket_out, bytes_);
}

void Message::carried(bool out, std::uint64_t bytes) {
  if (out) {
    set_out(bytes);
    carried_out_ += bytes;
    if (carried_out_ == bytes_) source_done();
    return;
  }
  carried_in_ += bytes;
  if (carried_in_ != bytes_) return;
  if (!eager_) {
    received();
    if (within_node()) signal(*target_, *source_, &Message::source_done);
    return;
  }
  target_->take(target_->costs().message_ns, [this] { seen_by_target(); });
}

void Message::set_out(std::uint64_t bytes) {
  hosts_.machine_.network.send(way(), bytes, *this);
}

void Message::chunk_arrived(std::uint64_t bytes, bool last) {
  if (by_processors()) return target_->add_core_job(*this, Host::Part::socket_in, bytes);
  if (!last) return;
  if (eager_) return target_->take(target_->costs().message_ns, [this] { seen_by_target(); });
  target_->take(target_->costs().message_ns, [this] {
    signal(*target_, *source_, &Message::source_done);
    received();
  });
}

void Message::received() {
  receive_done_->count();
  end_of_one();
}

void Message::source_done() {
  send_done_->count();
  end_of_one();
}

void Message::end_of_one() {
  if (--ends_left_ == 0) hosts_.free_message(*this);
}

}  // namespace outrigger::sim::baselines
