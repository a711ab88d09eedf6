#include "engine/relay/replicas.hpp"

#include <algorithm>

#include "engine/core/operation.hpp"

namespace outrigger::engine {
namespace {

Block part_of(Block block, const Segment& segment) {
  block.memory.address += segment.offset_bytes;
  block.bytes = segment.bytes;
  return block;
}

// True if a local rank (with the same call) will have the segment without waiting for the requester. Only the rank
// itself makes its prefix.
bool will_have(const Operation& operation, GroupRank source, std::optional<std::uint64_t> digest) {
  return operation.ranks.find_if([&](const LocalRank& rank) {
    const bool gets_it = !is_prefix(rank.posted().collective) || rank.me() == source;
    return gets_it && rank.is_open() && (!digest || rank.posted().digest == *digest) &&
           rank.pairs[source].receive != ReceiveState::filled && !rank.pairs[source].failed;
  }) != nullptr;
}

// A local rank will take the source's slice, or may.
bool expects_offer(const Operation& operation, GroupRank source) {
  return operation.ranks.find_if([source](const LocalRank& rank) {
    return rank.is_open() && rank.eager_sends == EagerSends::slices &&
           rank.pairs[source].receive != ReceiveState::filled;
  }) != nullptr;
}

// The reader reads the source's segments at the source, for its node or for itself.
bool reads_at_source(const Membership& group, SpId reader, GroupRank source) {
  const SpId owner = group.service_of(source);
  const std::size_t node = group.node_of(reader);
  if (reader == owner || node == group.node_of(owner)) return reader != owner;
  const std::vector<SpId>& siblings = group.services_by_node()[node];
  return siblings[source.value() % siblings.size()] == reader;
}

}  // namespace

// ---------------------------------------------------------------- fetches

Fetch::Fetch(Replicas& replicas, LocalRank& rank, const Segment& segment, Route route, Use use)
    : replicas_(replicas),
      rank_(rank),
      segment_(segment),
      route_(route),
      use_(use),
      located_(replicas.operation_.context.scheduler) {
  Replicas::Entry& entry = replicas_.entry_of(segment.key());
  entry.fetches.push_back(this);
  if (!replicas_.leave_queue(entry, *this)) replicas_.waited_for_.insert(entry.key);
}

Fetch::~Fetch() {
  if (replicas_.closing_) return;
  end();
  Replicas::Entry& entry = replicas_.entries_.at(segment_.key());
  std::erase(entry.fetches, this);
  if (entry.fetcher == this) {
    entry.fetcher = nullptr;
    replicas_.advance(entry);
  }
  replicas_.erase_if_idle(entry);
}

Block Fetch::from() const {
  return part_of(at_source() ? rank_.blocks.pull_from(segment_.source) : found_, segment_);
}

Block Fetch::to() const {
  return part_of(rank_.blocks.pull_to(segment_.source), segment_);
}

Move Fetch::move() const {
  const Operation& operation = replicas_.operation_;
  const GroupRank reader = EagerReplicas::name_of_reader(operation.membership(), operation.membership().self());
  return Move(operation, segment_.source, reader, from(), to());
}

void Fetch::moved(const fabric::MoveOutcome& outcome) {
  end();
  Replicas::Entry& entry = replicas_.entries_.at(segment_.key());
  if (outcome.status == fabric::MoveStatus::ok && rank_.blocks.has_room_for_all_of(segment_.source)) {
    // The first holder may leave first, and other holders of a segment are known nowhere else.
    std::vector<GroupRank>& holders = replicas_.holders_[entry.key];
    const LocalRanks& ranks = replicas_.operation_.ranks;
    std::erase_if(holders, [&ranks](GroupRank rank) { return ranks.find_open(rank) == nullptr; });
    if (holders.empty() || segment_.index != peer::kWholeBlock) holders.push_back(rank_.me());
  }
  if (entry.fetcher == this) entry.fetcher = nullptr;
  replicas_.advance(entry);
}

// If this rank does not hold the segment now, another may ask for it again: the holder must know by then.
void Fetch::moved_untold(const fabric::MoveOutcome& outcome) {
  if (state_ == State::remote && outcome.status == fabric::MoveStatus::ok) {
    state_ = State::ended;
    replicas_.let_go_untold(service_, segment_.key());
  }
  moved(outcome);
}

void Fetch::end() {
  const State state = std::exchange(state_, State::ended);
  if (state == State::remote) replicas_.let_go(service_, segment_.key());
  if (state != State::local) return;
  if (LocalRank* holder = replicas_.operation_.ranks.find(holder_)) holder->remove_reader();
}

bool Fetch::asks(SpId service) const {
  return (state_ == State::asking || state_ == State::forwarded) && service_ == service;
}

void Fetch::locate(State where) {
  state_ = where;
  located_.notify();
}

// False: it stays in the queue.
bool Replicas::leave_queue(Entry& entry, Fetch& fetch) {
  const GroupRank source = fetch.segment_.source;
  LocalRank* holder = holder_of(entry.key, fetch.segment_.end());
  if (holder != nullptr && holder != &fetch.rank_) {
    fetch.holder_ = holder->me();
    fetch.found_.memory = holder->posted().receive.block(source).memory;
    holder->add_reader();
    fetch.locate(Fetch::State::local);
  } else if (!fetch.rank_.blocks.has_room_for_all_of(source)) {
    fetch.locate(Fetch::State::source);
  } else if (entry.fetcher != nullptr || (holder == nullptr && waits_for_maker(fetch))) {
    return false;
  } else {
    entry.fetcher = &fetch;
    ask_next(entry, fetch);
  }
  return true;
}

void Replicas::ask_next(Entry& entry, Fetch& fetch) {
  if (entry.delegate && !fetch.was_forwarded_ && fetch.hop_ == 0)
    return ask(entry, fetch, Fetch::State::forwarded, entry.delegate->sp);
  const Membership& membership = operation_.membership();
  while (fetch.route_ != nullptr) {
    const std::optional<SpId> next = fetch.route_(membership, fetch.segment_, fetch.hop_);
    if (!next) break;
    ++fetch.hop_;
    if (*next != membership.self()) return ask(entry, fetch, Fetch::State::asking, *next);
  }
  fetch.locate(Fetch::State::source);
}

void Replicas::ask(Entry& entry, Fetch& fetch, Fetch::State state, SpId service) {
  const bool offered = state == Fetch::State::asking && fetch.state_ != state && fetch.use_ == Fetch::Use::offered &&
                       is_offered(service, entry.key);
  fetch.state_ = state;
  fetch.service_ = service;
  if (offered && taken_.insert(entry.key).second) {
    const auto early = early_.extract(entry.key);
    return early ? on_answer(service, early.mapped()) : void();
  }
  const auto [source, index] = entry.key;
  operation_.context.send(service, operation_.id(), peer::ReplicaRequest{source, index, fetch.rank_.posted().digest});
  if (state != Fetch::State::forwarded) return;
  fetch.was_forwarded_ = true;
  for (const Incarnation& requester : std::exchange(entry.waiting, {})) forward(entry, requester.sp);
}

void Replicas::on_answer(SpId from, const peer::ReplicaAnswer& answer) {
  const Segment::Key key{answer.source, answer.segment};
  const bool here = answer.where == peer::Where::here;
  Entry* entry = find(key);
  if (entry == nullptr || entry->fetcher == nullptr || !entry->fetcher->asks(from)) {
    if (may_come_early(from, key)) {
      early_.insert_or_assign(key, answer);
      return;
    }
    if (may_be_offer(from, key)) taken_.insert(key);
    return here ? let_go(from, key) : void();
  }
  Fetch& fetch = *entry->fetcher;
  if (here && answer.bytes >= fetch.segment_.end()) {
    fetch.found_.memory = MemoryRef{operation_.membership().world(answer.holder), answer.region, answer.address};
    return fetch.locate(Fetch::State::remote);
  }
  if (here) let_go(from, key);
  const bool forwarded = answer.where == peer::Where::forwarded && answer.service != operation_.membership().self();
  if (forwarded && !fetch.was_forwarded_) return ask(*entry, fetch, Fetch::State::forwarded, answer.service);
  ask_next(*entry, fetch);
}

void Replicas::let_go(SpId holder, const Segment::Key& key) {
  eager.forget(key.first, holder);
  operation_.context.send(holder, operation_.id(), peer::ReplicaDone{key.first, key.second});
  answer_quiesce(holder);
}

void Replicas::let_go_untold(SpId holder, const Segment::Key& key) {
  eager.forget(key.first, holder);
  untold_.emplace_back(holder, key);
  answer_quiesce(holder);  // a restarted holder may wait for it before it makes what this rank still misses
}

// The source answers without a request, as neither it nor this service process has been restarted.
bool Replicas::is_offered(SpId service, const Segment::Key& key) const {
  const Context& context = operation_.context;
  const Membership& group = operation_.membership();
  return key.second == peer::kWholeBlock && group.service_of(key.first) == service &&
         context.config.epoch == Epoch{1} && context.epoch_of(service) == Epoch{1} &&
         reads_at_source(group, group.self(), key.first);
}

bool Replicas::may_come_early(SpId from, const Segment::Key& key) const {
  return operation_.group.membership() != nullptr && is_offered(from, key) && !taken_.contains(key) &&
         expects_offer(operation_, key.first);
}

// Before the members are known: only sources that have announced may have offered.
bool Replicas::may_be_offer(SpId from, const Segment::Key& key) const {
  if (operation_.group.membership() != nullptr) return is_offered(from, key);
  return key.second == peer::kWholeBlock && operation_.matcher.keeps(from, key.first);
}

void Replicas::offer_to_readers(const Segment& segment) {
  const Context& context = operation_.context;
  const Membership& group = operation_.membership();
  if (context.config.epoch > Epoch{1}) return;
  for (const Membership::Peer& peer : group.peers()) {
    if (context.epoch_of(peer.sp) > Epoch{1} || !reads_at_source(group, peer.sp, segment.source)) continue;
    entry_of(segment.key()).waiting.push_back(Incarnation{peer.sp, Epoch{1}});
    waited_for_.insert(segment.key());
  }
}

// No local rank will take them any more.
void Replicas::let_go_unwanted(const Segment::Key& first, const Segment::Key& last) {
  for (auto early = early_.lower_bound(first); early != early_.end() && early->first <= last;) {
    const auto [key, answer] = *early;
    const bool wanted = expects_offer(operation_, key.first);
    early = wanted ? std::next(early) : early_.erase(early);
    if (wanted) continue;
    taken_.insert(key);
    if (answer.where == peer::Where::here) let_go(operation_.membership().service_of(key.first), key);
  }
}

void Replicas::tell_of_moved() {
  for (const auto& [holder, key] : std::exchange(untold_, {})) {
    operation_.context.send(holder, operation_.id(), peer::ReplicaDone{key.first, key.second});
  }
}

// ---------------------------------------------------------------- segments

Replicas::Entry& Replicas::entry_of(const Segment::Key& key) {
  Entry& entry = entries_[key];
  entry.key = key;
  return entry;
}

Replicas::Entry* Replicas::find(const Segment::Key& key) {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

void Replicas::erase_if_idle(const Entry& entry) {
  if (!entry.fetches.empty() || !entry.waiting.empty() || !entry.readers.empty() || entry.delegate) return;
  waited_for_.erase(entry.key);
  entries_.erase(entry.key);
}

bool Replicas::Entry::is_waited_for() const {
  const auto queued = [](const Fetch* fetch) { return fetch->state_ == Fetch::State::queued; };
  return !waiting.empty() || std::ranges::any_of(fetches, queued);
}

// An open local rank whose receive buffer holds the segment, or nullptr.
LocalRank* Replicas::holder_of(const Segment::Key& key, std::uint64_t needed_bytes) const {
  const LocalRanks& ranks = operation_.ranks;
  if (const auto found = holders_.find(key); found != holders_.end()) {
    for (const GroupRank holder : found->second) {
      if (LocalRank* rank = ranks.find_open(holder)) return rank;
    }
  }
  return ranks.find_if([&](const LocalRank& rank) {
    return rank.is_open() && rank.pairs[key.first].placed && rank.blocks.placed_bytes(key.first) >= needed_bytes;
  });
}

bool Replicas::is_held_or_fetched(const Segment& segment) const {
  const auto found = entries_.find(segment.key());
  return (found != entries_.end() && found->second.fetcher != nullptr) ||
         holder_of(segment.key(), segment.end()) != nullptr;
}

// Only one rank makes an operand: if it is local, the fetch waits for it.
bool Replicas::waits_for_maker(const Fetch& fetch) const {
  return fetch.use_ == Fetch::Use::operand && will_have(operation_, fetch.segment_.source, fetch.rank_.posted().digest);
}

// A local rank may hold the segment now, or the fetcher has failed.
void Replicas::advance(Entry& entry) {
  for (Fetch* fetch : entry.fetches) {
    if (entry.fetcher != nullptr) break;
    if (fetch->state_ == Fetch::State::queued && !leave_queue(entry, *fetch)) break;
  }
  if (entry.waiting.empty()) return;
  LocalRank* holder = holder_of(entry.key, 1);
  if (holder == nullptr && will_have(operation_, entry.key.first, std::nullopt)) return;
  for (const Incarnation& requester : std::exchange(entry.waiting, {})) {
    if (holder != nullptr) {
      offer(entry, requester.sp, *holder);
    } else {
      answer(requester.sp, entry.key, peer::Where::nowhere);
    }
  }
}

void Replicas::reconsider(GroupRank source) {
  reconsider({source, 0}, {source, peer::kWholeBlock});
}

void Replicas::reconsider() {
  reconsider({GroupRank{0}, 0}, {GroupRank{~std::uint32_t{0}}, peer::kWholeBlock});
}

void Replicas::reconsider(const Segment::Key& first, const Segment::Key& last) {
  if (closing_) return;
  let_go_unwanted(first, last);
  // Waiters that continue may add new waiters, and may need another pass.
  for (auto next = waited_for_.lower_bound(first); next != waited_for_.end() && *next <= last;) {
    const Segment::Key key = *next;
    Entry& entry = entries_.at(key);
    ++operation_.context.counters.reconsidered_segments;
    advance(entry);
    if (!entry.is_waited_for()) waited_for_.erase(key);
    next = waited_for_.upper_bound(key);
  }
}

bool Replicas::has_delegates() const {
  return std::ranges::any_of(entries_, [](const auto& entry) { return entry.second.delegate.has_value(); });
}

// ---------------------------------------------------------------- other service processes

Replicas::Incarnation Replicas::incarnation(SpId sp) const {
  return {sp, operation_.context.epoch_of(sp)};
}

void Replicas::on_request(SpId from, const peer::ReplicaRequest& request) {
  const Segment::Key key{request.source, request.segment};
  // Any source may be named before the members are known.
  const bool full = operation_.group.membership() == nullptr &&
                    entries_.size() >= operation_.context.config.limits.waiting_announcements;
  if (full && !entries_.contains(key)) return answer(from, key, peer::Where::nowhere);
  Entry& entry = entry_of(key);
  const Incarnation requester = incarnation(from);
  // Repeated after restarts: the answer is on its way.
  if (std::ranges::find(entry.readers, requester, &Reader::reader) != entry.readers.end()) return;
  LocalRank* holder = holder_of(key, 1);
  if (holder != nullptr && holder->posted().digest == request.digest) return offer(entry, from, *holder);
  const Fetch* fetcher = entry.fetcher;
  const bool elsewhere = fetcher != nullptr && (fetcher->state_ == Fetch::State::forwarded || fetcher->asks(from));
  if (elsewhere || !will_have(operation_, request.source, request.digest)) return forward(entry, from);
  if (std::ranges::find(entry.waiting, requester) != entry.waiting.end()) return;
  entry.waiting.push_back(requester);
  waited_for_.insert(key);
}

void Replicas::offer(Entry& entry, SpId to, LocalRank& holder) {
  const auto [source, index] = entry.key;
  entry.readers.push_back(Reader{incarnation(to), holder.me()});
  holder.add_reader();
  if (index == peer::kWholeBlock) eager.send(to, source, holder);
  const Block block{holder.posted().receive.block(source).memory, holder.blocks.placed_bytes(source)};
  answer(to, entry.key, peer::Where::here, operation_.membership().self(), holder.me(), block);
}

// To the place where the fetcher was forwarded, else to the delegate.
void Replicas::forward(Entry& entry, SpId requester) {
  if (!operation_.context.share_node(requester, operation_.context.config.self))
    return answer(requester, entry.key, peer::Where::nowhere);
  if (!entry.delegate) entry.delegate = incarnation(requester);
  const bool forwarded = entry.fetcher != nullptr && entry.fetcher->state_ == Fetch::State::forwarded;
  const SpId service = forwarded ? entry.fetcher->service_ : entry.delegate->sp;
  if (service == requester) return answer(requester, entry.key, peer::Where::nowhere);
  answer(requester, entry.key, peer::Where::forwarded, service);
}

void Replicas::answer(SpId to, const Segment::Key& key, peer::Where where, SpId service, GroupRank holder,
                      const Block& block) {
  const auto [owner, region, address] = block.memory;
  const peer::ReplicaAnswer answer{key.first, key.second, where, service, holder, region, address, block.bytes};
  operation_.context.send(to, operation_.id(), answer);
}

void Replicas::on_done(SpId from, const peer::ReplicaDone& done) {
  Entry* entry = find(Segment::Key{done.source, done.segment});
  if (entry == nullptr) return;
  const auto reader = std::ranges::find(entry->readers, incarnation(from), &Reader::reader);
  if (reader == entry->readers.end()) return;
  const GroupRank holder = reader->holder;
  eager.withdraw(done.source, from);
  entry->readers.erase(reader);
  erase_if_idle(*entry);
  if (LocalRank* rank = operation_.ranks.find(holder)) rank->remove_reader();
}

void Replicas::on_quiesce(SpId from, const peer::Quiesce& quiesce) {
  if (!quiesce.asks) return quiescence.on_answer(from);
  quiescence.owe_answer(from);
  answer_quiesce(from);
}

void Replicas::answer_quiesce(SpId peer) {
  const auto reads_there = [peer](const auto& entry) {
    const Fetch* fetcher = entry.second.fetcher;
    return fetcher != nullptr && fetcher->state_ == Fetch::State::remote && fetcher->service_ == peer;
  };
  if (quiescence.owes_answer(peer) && std::ranges::none_of(entries_, reads_there)) quiescence.answer(peer);
}

void Replicas::peer_restarted(SpId peer) {
  // Drops the state of the old incarnation. The new one may have sent messages before.
  const Epoch epoch = operation_.context.epoch_of(peer);
  const auto gone = [&](const Incarnation& other) { return other.sp == peer && other.epoch != epoch; };
  for (auto& [key, entry] : entries_) {
    std::erase_if(entry.waiting, gone);
    if (entry.delegate && gone(*entry.delegate)) entry.delegate.reset();
    std::erase_if(entry.readers, [&, source = key.first](const Reader& reader) {
      if (!gone(reader.reader)) return false;
      eager.withdraw(source, peer);
      if (LocalRank* rank = operation_.ranks.find(reader.holder)) rank->remove_reader();
      return true;
    });
    if (entry.fetcher != nullptr && entry.fetcher->asks(peer)) ask(entry, *entry.fetcher, entry.fetcher->state_, peer);
  }
  const auto from_peer = [&](const auto& early) {
    return operation_.membership().service_of(early.first.first) == peer;
  };
  std::erase_if(early_, from_peer);
  quiescence.ask_again(peer);
}

std::optional<std::string> Replicas::broken_invariant() const {
  std::map<GroupRank, std::uint32_t> readers;
  for (const auto& [key, entry] : entries_) {
    bool waited_for = !entry.waiting.empty();
    for (const Reader& reader : entry.readers) ++readers[reader.holder];
    for (const Fetch* fetch : entry.fetches) {
      switch (fetch->state_) {
        case Fetch::State::queued:
          waited_for = true;
          if (entry.fetcher == nullptr && !waits_for_maker(*fetch))
            return "ranks wait for a replica that no rank fetches";
          break;
        case Fetch::State::asking:
        case Fetch::State::forwarded:
        case Fetch::State::remote:
          if (entry.fetcher != fetch) return "a replica is requested twice at a time";
          break;
        case Fetch::State::local: ++readers[fetch->holder_]; break;
        case Fetch::State::source:
        case Fetch::State::ended: break;
      }
    }
    if (waited_for && !waited_for_.contains(key)) return "a rank that waits for a replica is not reconsidered";
    const auto has_answer = [this, source = key.first, &entry = entry] {
      return holder_of(entry.key, 1) != nullptr || !will_have(operation_, source, std::nullopt);
    };
    if (!entry.waiting.empty() && has_answer()) return "a request that can be answered waits";
  }
  const LocalRank* wrong = operation_.ranks.find_if([&](const LocalRank& rank) {
    const auto counted = readers.find(rank.me());
    return rank.is_open() && rank.readers() != (counted == readers.end() ? 0 : counted->second);
  });
  if (wrong != nullptr) return "readers of a rank's buffer miscounted";
  return std::nullopt;
}

}  // namespace outrigger::engine
