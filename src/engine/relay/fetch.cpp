#include "engine/relay/fetch.hpp"

#include "engine/core/operation.hpp"
#include "engine/relay/replicas.hpp"

namespace outrigger::engine {

Fetch::Fetch(Replicas& replicas, LocalRank& rank, const Segment& segment, Route route, Use use)
    : replicas_(replicas), rank_(rank), segment_(segment), route_(route), use_(use) {
  replicas_.enter(*this);
}

Fetch::~Fetch() {
  replicas_.leave(*this);
}

bool Fetch::Located::await_ready() const {
  return fetch_.replicas_.locate(fetch_);
}

Block Fetch::from() const {
  Block block = remote_;
  if (from_ == From::source) {
    block = rank_.blocks.pull_from(segment_.source);
    block.memory.address += segment_.offset_bytes;
  } else if (from_ == From::local) {
    if (const LocalRank* holder = replicas_.operation().ranks.find(holder_)) {
      block.memory = holder->posted().receive.block(segment_.source).memory;
      block.memory.address += segment_.offset_bytes;
    }
  }
  block.bytes = segment_.bytes;
  return block;
}

Block Fetch::to() const {
  Block block = rank_.blocks.pull_to(segment_.source);
  block.memory.address += segment_.offset_bytes;
  block.bytes = segment_.bytes;
  return block;
}

Move Fetch::move() const {
  const Operation& operation = replicas_.operation();
  const GroupRank reader = EagerReplicas::name_of_reader(operation.membership(), operation.membership().self());
  return Move(operation, segment_.source, reader, from(), to());
}

void Fetch::moved(const fabric::MoveOutcome& outcome) {
  stop_reading();
  replicas_.moved(*this, outcome);
}

void Fetch::resolve(From from) {
  from_ = from;
  replicas_.operation().context.scheduler.make_ready(*this);
}

void Fetch::read_from(LocalRank& holder) {
  from_ = From::local;
  holder_ = holder.me();
  holder.add_reader();
}

void Fetch::stop_reading() {
  Operation& operation = replicas_.operation();
  if (from_ == From::local) {
    if (LocalRank* holder = operation.ranks.find(holder_)) holder->remove_reader();
  } else if (reading_) {
    const SpId service = *reading_;
    reading_.reset();
    replicas_.ahead.forget(segment_.source, service);
    operation.context.send(service, operation.id(), peer::ReplicaDone{segment_.source, segment_.index});
    replicas_.stopped_reading_from(service);
  }
  from_ = From::unknown;
}

}  // namespace outrigger::engine
