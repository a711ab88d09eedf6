#include "engine/relay/replicas.hpp"

#include <algorithm>
#include <cassert>

#include "engine/core/operation.hpp"

namespace outrigger::engine {
namespace {

// Will a local rank (that calls the same) have it some day, without waiting for the one who asks? A prefix is the one
// rank's whose it is.
bool will_have(const Operation& operation, GroupRank source, std::optional<std::uint64_t> digest) {
  return operation.ranks.find_if([&](const LocalRank& rank) {
    const bool gets_it = !is_prefix(rank.posted().collective) || rank.me() == source;
    return gets_it && rank.is_open() && (!digest || rank.posted().digest == *digest) &&
           rank.pairs[source].receive != ReceiveState::filled;
  }) != nullptr;
}

}  // namespace

// ---------------------------------------------------------------- local ranks

bool Replicas::locate(Fetch& fetch) {
  assert(fetch.from_ == Fetch::From::unknown && !fetch.queued_ && "a segment is looked for once");
  const Key key = key_of(fetch.segment_);
  Entry& entry = entries_[key];
  if (LocalRank* holder = holder_of(key, fetch.segment_.end()); holder != nullptr && holder != &fetch.rank_) {
    fetch.read_from(*holder);
    return true;
  }
  // Who gets less than the source sends is of no use to others.
  if (!fetch.rank_.blocks.has_room_for_all_of(fetch.segment_.source)) {
    fetch.from_ = Fetch::From::source;
    return true;
  }
  if (entry.fetcher != nullptr || waits_for_maker(fetch)) {
    fetch.queued_ = true;
    entry.queue.push_back(&fetch);
    waited_for_.insert(key);
    return false;
  }
  entry.fetcher = &fetch;
  return ask_next(fetch, entry);
}

// An open local rank whose receive buffer holds the segment.
LocalRank* Replicas::holder_of(const Key& key, std::uint64_t needed_bytes) const {
  const LocalRanks& ranks = operation_.ranks;
  if (const auto found = entries_.find(key); found != entries_.end()) {
    for (const GroupRank holder : found->second.holders) {
      if (LocalRank* rank = ranks.find_open(holder)) return rank;
    }
  }
  return ranks.find_if([&](const LocalRank& rank) {
    return rank.is_open() && rank.pairs[key.first].placed && rank.blocks.placed_bytes(key.first) >= needed_bytes;
  });
}

bool Replicas::is_coming(const Segment& segment) const {
  const Key key = key_of(segment);
  const auto found = entries_.find(key);
  return (found != entries_.end() && found->second.fetcher != nullptr) || holder_of(key, segment.end()) != nullptr;
}

bool Replicas::ask_next(Fetch& fetch, const Entry& entry) {
  if (entry.granted && !fetch.forwarded_ && fetch.hop_ == 0) {
    fetch.forwarded_ = fetch.off_route_ = true;
    ask(fetch, entry.granted->sp);
    return false;
  }
  const Membership& membership = operation_.membership();
  while (fetch.route_ != nullptr) {
    const std::optional<SpId> next = fetch.route_(membership, fetch.segment_, fetch.hop_);
    if (!next) break;
    ++fetch.hop_;
    if (*next == membership.self()) continue;
    fetch.off_route_ = false;
    ask(fetch, *next);
    return false;
  }
  fetch.from_ = Fetch::From::source;
  return true;
}

void Replicas::ask(Fetch& fetch, SpId service) {
  fetch.asked_ = service;
  peer::ReplicaRequest request;
  request.source = fetch.segment_.source;
  request.segment = fetch.segment_.index;
  request.digest = fetch.rank_.posted().digest;
  operation_.context.send(service, operation_.id(), request);
  if (!fetch.off_route_) return;
  const Key key = key_of(fetch.segment_);
  Entry& entry = entries_[key];
  for (const Peer& requester : std::exchange(entry.requesters, {})) forward(requester.sp, key, entry, service);
}

void Replicas::moved(Fetch& fetch, const fabric::MoveOutcome& outcome) {
  const Key key = key_of(fetch.segment_);
  Entry& entry = entries_[key];
  if (outcome.status == fabric::MoveStatus::ok && fetch.rank_.blocks.has_room_for_all_of(fetch.segment_.source)) {
    // The first to have it may be the first to leave, and who has a segment is known nowhere else.
    std::erase_if(entry.holders, [&](GroupRank rank) { return operation_.ranks.find_open(rank) == nullptr; });
    if (entry.holders.empty() || key.second != peer::kWholeBlock) entry.holders.push_back(fetch.rank_.me());
  }
  if (entry.fetcher == &fetch) entry.fetcher = nullptr;
  advance(key, entry);
}

void Replicas::leave(Fetch& fetch) {
  if (closing_) return;
  fetches_.erase(&fetch);
  fetch.stop_reading();
  const auto found = entries_.find(key_of(fetch.segment_));
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (fetch.queued_) std::erase(entry.queue, &fetch);
  if (entry.fetcher != &fetch) return;
  entry.fetcher = nullptr;
  advance(found->first, entry);
}

// Somebody has it now, or the one who was to get it has not got it.
void Replicas::advance(const Key& key, Entry& entry) {
  while (!entry.queue.empty() && entry.fetcher == nullptr) {
    Fetch& next = *entry.queue.front();
    LocalRank* holder = holder_of(key, next.segment_.end());
    if (holder == nullptr && waits_for_maker(next)) break;
    entry.queue.erase(entry.queue.begin());
    next.queued_ = false;
    if (holder != nullptr && holder != &next.rank_) {
      next.read_from(*holder);
      next.resolve(Fetch::From::local);
      continue;
    }
    entry.fetcher = &next;
    if (ask_next(next, entry)) next.resolve(Fetch::From::source);
  }
  answer_requesters(key, entry);
}

// ---------------------------------------------------------------- answers of other service processes

void Replicas::on_answer(SpId from, const peer::ReplicaAnswer& answer) {
  const bool here = answer.where == peer::Where::here;
  const auto found = entries_.find(Key{answer.source, answer.segment});
  Fetch* fetch = found == entries_.end() ? nullptr : found->second.fetcher;
  if (fetch == nullptr || fetch->asked_ != from) {
    if (!here) return;
    ahead.forget(answer.source, from);
    return operation_.context.send(from, operation_.id(), peer::ReplicaDone{answer.source, answer.segment});
  }
  assert(fetch->from_ == Fetch::From::unknown && !fetch->reading_ && "who asks does not know yet");
  fetch->asked_.reset();
  if (here) {
    fetch->reading_ = from;
    if (answer.bytes >= fetch->segment_.end()) {
      fetch->remote_.memory.owner = operation_.membership().world(answer.holder);
      fetch->remote_.memory.region = answer.region;
      fetch->remote_.memory.address = answer.address + fetch->segment_.offset_bytes;
      return fetch->resolve(Fetch::From::remote);
    }
    fetch->stop_reading();
  }
  if (answer.where == peer::Where::forwarded && !fetch->forwarded_ &&
      answer.service != operation_.membership().self()) {
    fetch->forwarded_ = fetch->off_route_ = true;
    return ask(*fetch, answer.service);
  }
  if (ask_next(*fetch, found->second)) fetch->resolve(Fetch::From::source);
}

bool Replicas::reads_from(SpId peer) const {
  return std::any_of(fetches_.begin(), fetches_.end(), [peer](const Fetch* fetch) { return fetch->reading_ == peer; });
}

// ---------------------------------------------------------------- requests of other service processes

Replicas::Peer Replicas::now(SpId sp) const {
  return Peer{sp, operation_.context.epoch_of(sp)};
}

bool Replicas::waits_for_maker(const Fetch& fetch) const {
  return fetch.use_ == Fetch::Use::operand && will_have(operation_, fetch.segment_.source, fetch.rank_.posted().digest);
}

void Replicas::on_request(SpId from, const peer::ReplicaRequest& request) {
  const Key key{request.source, request.segment};
  // Before the members are known any source may be named.
  const bool full = operation_.group.membership() == nullptr &&
                    entries_.size() >= operation_.context.config.limits.waiting_announcements;
  if (full && !entries_.contains(key)) return say_not_here(from, key);
  Entry& entry = entries_[key];
  // Asked twice, after restarts: the answer is on its way.
  const auto reads = [&](const Reader& reader) { return reader.peer == now(from); };
  if (std::any_of(entry.readers.begin(), entry.readers.end(), reads)) return;
  const bool asks_back = entry.fetcher != nullptr && entry.fetcher->asked_ == from;
  LocalRank* holder = holder_of(key, 1);
  if (holder != nullptr && holder->posted().digest == request.digest) return offer(from, key, entry, *holder);
  const std::optional<SpId> other = entry.asked_off_route();
  if (asks_back || other || !will_have(operation_, request.source, request.digest))
    return forward(from, key, entry, other);
  if (std::find(entry.requesters.begin(), entry.requesters.end(), now(from)) == entry.requesters.end()) {
    entry.requesters.push_back(now(from));
    waited_for_.insert(key);
  }
}

void Replicas::offer(SpId to, const Key& key, Entry& entry, LocalRank& holder) {
  const MemoryRef& memory = holder.posted().receive.block(key.first).memory;
  peer::ReplicaAnswer answer;
  answer.source = key.first;
  answer.segment = key.second;
  answer.where = peer::Where::here;
  answer.service = operation_.membership().self();
  answer.holder = holder.me();
  answer.region = memory.region;
  answer.address = memory.address;
  answer.bytes = holder.blocks.placed_bytes(key.first);
  entry.readers.push_back(Reader{now(to), holder.me()});
  holder.add_reader();
  if (key.second == peer::kWholeBlock) ahead.send(to, key.first, holder);
  operation_.context.send(to, operation_.id(), answer);
}

// To the sibling that gets it, or to whom it has been granted; else the requester is to get it for this node.
void Replicas::forward(SpId requester, const Key& key, Entry& entry, std::optional<SpId> service) {
  if (!operation_.context.share_node(requester, operation_.context.config.self)) return say_not_here(requester, key);
  if (!entry.granted) entry.granted = now(requester);
  if (!service) service = entry.granted->sp;
  if (*service == requester) return say_not_here(requester, key);
  peer::ReplicaAnswer answer;
  answer.source = key.first;
  answer.segment = key.second;
  answer.where = peer::Where::forwarded;
  answer.service = *service;
  operation_.context.send(requester, operation_.id(), answer);
}

void Replicas::say_not_here(SpId to, const Key& key) {
  peer::ReplicaAnswer answer;
  answer.source = key.first;
  answer.segment = key.second;
  operation_.context.send(to, operation_.id(), answer);
}

void Replicas::answer_requesters(const Key& key, Entry& entry) {
  if (entry.requesters.empty()) return;
  LocalRank* holder = holder_of(key, 1);
  if (holder == nullptr && will_have(operation_, key.first, std::nullopt)) return;
  for (const Peer& requester : std::exchange(entry.requesters, {})) {
    if (holder != nullptr) {
      offer(requester.sp, key, entry, *holder);
    } else {
      say_not_here(requester.sp, key);
    }
  }
}

void Replicas::reconsider() {
  if (closing_) return;
  // Who goes on here may begin to wait, and may have others reconsidered.
  for (auto next = waited_for_.begin(); next != waited_for_.end();) {
    const Key key = *next;
    Entry& entry = entries_.at(key);
    advance(key, entry);
    if (!entry.is_waited_for()) waited_for_.erase(key);
    next = waited_for_.upper_bound(key);
  }
}

void Replicas::on_done(SpId from, const peer::ReplicaDone& done) {
  const auto found = entries_.find(Key{done.source, done.segment});
  if (found == entries_.end()) return;
  std::vector<Reader>& readers = found->second.readers;
  const auto reader =
      std::find_if(readers.begin(), readers.end(), [&](const Reader& other) { return other.peer == now(from); });
  if (reader == readers.end()) return;
  const GroupRank holder = reader->holder;
  ahead.withdraw(done.source, from);
  readers.erase(reader);
  if (LocalRank* rank = operation_.ranks.find(holder)) rank->remove_reader();
}

// ---------------------------------------------------------------- restarts

void Replicas::on_quiesce(SpId from, const peer::Quiesce& quiesce) {
  if (!quiesce.asks) return quiescence.on_answer(from);
  quiescence.owe_answer(from);
  stopped_reading_from(from);
}

void Replicas::stopped_reading_from(SpId peer) {
  if (quiescence.owes_answer(peer) && !reads_from(peer)) quiescence.answer(peer);
}

void Replicas::peer_restarted(SpId peer) {
  // What the old incarnation read, asked for and kept has gone with it. The new one may have spoken before.
  const Epoch epoch = operation_.context.epoch_of(peer);
  const auto gone = [&](const Peer& other) { return other.sp == peer && other.epoch != epoch; };
  for (auto& [key, entry] : entries_) {
    std::erase_if(entry.requesters, gone);
    if (entry.granted && gone(*entry.granted)) entry.granted.reset();
    for (const Reader& reader : entry.readers) {
      if (!gone(reader.peer)) continue;
      ahead.withdraw(key.first, reader.peer.sp);
      if (LocalRank* rank = operation_.ranks.find(reader.holder)) rank->remove_reader();
    }
    std::erase_if(entry.readers, [&](const Reader& reader) { return gone(reader.peer); });
    if (entry.fetcher != nullptr && entry.fetcher->asked_ == peer) ask(*entry.fetcher, peer);
  }
  quiescence.ask_again(peer);
}

bool Replicas::remembers() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const auto& entry) { return entry.second.granted.has_value(); });
}

std::optional<std::string> Replicas::broken_invariant() const {
  std::map<GroupRank, std::uint32_t> readers;
  for (const auto& [key, entry] : entries_) {
    for (const Reader& reader : entry.readers) ++readers[reader.holder];
    const auto waits = [this](const Fetch* fetch) { return !waits_for_maker(*fetch); };
    if (entry.fetcher == nullptr && std::ranges::any_of(entry.queue, waits)) {
      return "ranks wait for a replica that nobody gets";
    }
    if (entry.is_waited_for() && !waited_for_.contains(key)) return "who waits for a replica is not reconsidered";
  }
  for (const Fetch* fetch : fetches_) {
    if (fetch->from_ == Fetch::From::local) ++readers[fetch->holder_];
  }
  const LocalRank* wrong = operation_.ranks.find_if([&](const LocalRank& rank) {
    const auto counted = readers.find(rank.me());
    return rank.is_open() && rank.readers() != (counted == readers.end() ? 0 : counted->second);
  });
  if (wrong != nullptr) return "readers of a rank's buffer miscounted";
  return std::nullopt;
}

}  // namespace outrigger::engine
