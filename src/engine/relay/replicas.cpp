#include "engine/relay/replicas.hpp"

#include <algorithm>

#include "engine/core/operation.hpp"

namespace outrigger::engine {

// ---------------------------------------------------------------- one rank's way to a piece

Copies::Copy::Copy(Copies& copies, LocalRank& rank, const Piece& piece, Route route)
    : copies_(copies), rank_(rank), piece_(piece), route_(route) {
  copies_.copies_.insert(this);
}

Copies::Copy::~Copy() {
  if (!copies_.closing_) copies_.leave(*this);
}

Block Copies::Copy::from() const {
  Block block = remote_;
  if (from_ == From::source) {
    block = rank_.pull_from(piece_.source);
    block.memory.address += piece_.offset_bytes;
  } else if (from_ == From::local) {
    if (const LocalRank* holder = copies_.operation_.find(holder_)) {
      block.memory = holder->posted().receive.block(piece_.source).memory;
      block.memory.address += piece_.offset_bytes;
    }
  }
  block.bytes = piece_.bytes;
  return block;
}

Block Copies::Copy::to() const {
  Block block = rank_.pull_to(piece_.source);
  block.memory.address += piece_.offset_bytes;
  block.bytes = piece_.bytes;
  return block;
}

void Copies::Copy::moved(const fabric::MoveOutcome& outcome) {
  copies_.stop_reading(*this);
  const Key key{piece_.source, piece_.piece};
  Item& item = copies_.items_[key];
  if (outcome.status == fabric::MoveStatus::ok && rank_.gets_all_of(piece_.source)) copies_.add_holder(item, *this);
  if (item.fetcher == this) item.fetcher = nullptr;
  fetching_ = false;
  copies_.advance(key, item);
}

// ---------------------------------------------------------------- finding

bool Copies::look_for(Copy& copy) {
  const Key key{copy.piece_.source, copy.piece_.piece};
  Item& item = items_[key];
  if (LocalRank* holder = holder_of(key, copy.piece_.end()); holder != nullptr && holder != &copy.rank_) {
    read_from(copy, *holder);
    return true;
  }
  // Who gets less than the source sends is of no use to others.
  if (!copy.rank_.gets_all_of(copy.piece_.source)) {
    copy.from_ = Copy::From::source;
    return true;
  }
  if (item.fetcher != nullptr) {
    copy.waiting_ = true;
    item.line.push_back(&copy);
    return false;
  }
  item.fetcher = &copy;
  copy.fetching_ = true;
  return fetch(copy, item);
}

// An open local rank whose receive buffer holds the piece.
LocalRank* Copies::holder_of(const Key& key, std::uint64_t needed) const {
  const auto holds = [&](const LocalRank& part) {
    return part.is_open() && part.is_placed(key.first) && part.placed_bytes(key.first) >= needed;
  };
  const auto found = items_.find(key);
  if (found != items_.end()) {
    for (const GroupRank rank : found->second.holders) {
      if (LocalRank* part = open_part(rank)) return part;
    }
  }
  return operation_.find_part(holds);
}

bool Copies::is_coming(const Piece& piece) const {
  const Key key{piece.source, piece.piece};
  const auto found = items_.find(key);
  return (found != items_.end() && found->second.fetcher != nullptr) || holder_of(key, piece.end()) != nullptr;
}

LocalRank* Copies::open_part(GroupRank rank) const {
  LocalRank* part = operation_.find(rank);
  return part != nullptr && part->is_open() ? part : nullptr;
}

// The first to have it may be the first to leave, and who has a piece is known nowhere else.
void Copies::add_holder(Item& item, const Copy& copy) const {
  std::erase_if(item.holders, [this](GroupRank rank) { return open_part(rank) == nullptr; });
  if (item.holders.empty() || copy.piece_.piece != peer::kWholeBlock) item.holders.push_back(copy.rank_.me());
}

// The next to ask, or the source. True: known at once.
bool Copies::fetch(Copy& copy, const Item& item) {
  if (item.granted && !copy.sent_elsewhere_ && copy.hop_ == 0) {
    copy.sent_elsewhere_ = copy.off_route_ = true;
    ask(copy, item.granted->sp);
    return false;
  }
  while (copy.route_ != nullptr) {
    const std::optional<SpId> next = copy.route_(operation_, copy.piece_.source, copy.piece_.piece, copy.hop_);
    if (!next) break;
    ++copy.hop_;
    if (*next == context_.config.self) continue;
    copy.off_route_ = false;
    ask(copy, *next);
    return false;
  }
  copy.from_ = Copy::From::source;
  return true;
}

void Copies::ask(Copy& copy, SpId service) {
  copy.asked_ = service;
  peer::Want want;
  want.source = copy.piece_.source;
  want.piece = copy.piece_.piece;
  want.digest = copy.rank_.posted().digest;
  context_.send(service, operation_.id(), want);
  if (!copy.off_route_) return;
  const Key key{want.source, want.piece};
  Item& item = items_[key];
  for (const Peer& asker : std::exchange(item.askers, {})) send_on(asker.sp, key, item, service);
}

std::optional<SpId> Copies::asked_off_route(const Item& item) {
  return item.fetcher != nullptr && item.fetcher->off_route_ ? item.fetcher->asked_ : std::nullopt;
}

// To the sibling that gets it, or to whom it has been granted; else the asker is to get it for this node.
void Copies::send_on(SpId asker, const Key& key, Item& item, std::optional<SpId> service) {
  if (!operation_.on_own_node(asker)) return say_not_here(asker, key);
  if (!item.granted) item.granted = now(asker);
  if (!service) service = item.granted->sp;
  if (*service == asker) return say_not_here(asker, key);
  peer::Copy answer;
  answer.source = key.first;
  answer.piece = key.second;
  answer.where = peer::Where::elsewhere;
  answer.service = *service;
  context_.send(asker, operation_.id(), answer);
}

void Copies::resolve(Copy& copy, Copy::From from) {
  copy.from_ = from;
  context_.scheduler.make_ready(copy);
}

void Copies::read_from(Copy& copy, LocalRank& holder) {
  copy.from_ = Copy::From::local;
  copy.holder_ = holder.me();
  holder.add_reader();
}

void Copies::stop_reading(Copy& copy) {
  if (copy.from_ == Copy::From::local) {
    if (LocalRank* holder = operation_.find(copy.holder_)) holder->remove_reader();
  } else if (copy.reading_) {
    const SpId service = *copy.reading_;
    copy.reading_.reset();
    context_.send(service, operation_.id(), peer::Done{copy.piece_.source, copy.piece_.piece});
    say_quiet_when_due(service);
  }
  copy.from_ = Copy::From::unknown;
}

void Copies::leave(Copy& copy) {
  copies_.erase(&copy);
  stop_reading(copy);
  const auto found = items_.find(Key{copy.piece_.source, copy.piece_.piece});
  if (found == items_.end()) return;
  Item& item = found->second;
  if (copy.waiting_) std::erase(item.line, &copy);
  if (item.fetcher != &copy) return;
  item.fetcher = nullptr;
  advance(found->first, item);
}

// Somebody has it now, or the one who was to get it has not got it.
void Copies::advance(const Key& key, Item& item) {
  while (!item.line.empty() && item.fetcher == nullptr) {
    Copy& next = *item.line.front();
    item.line.erase(item.line.begin());
    next.waiting_ = false;
    if (LocalRank* holder = holder_of(key, next.piece_.end()); holder != nullptr && holder != &next.rank_) {
      read_from(next, *holder);
      context_.scheduler.make_ready(next);
      continue;
    }
    item.fetcher = &next;
    next.fetching_ = true;
    if (fetch(next, item)) resolve(next, Copy::From::source);
  }
  answer_askers(key, item);
}

// ---------------------------------------------------------------- other service processes

// Will a local rank that calls the same have it some day, without waiting for the one who asks?
bool Copies::will_have(GroupRank source, std::uint64_t digest) const {
  return operation_.find_part([&](const LocalRank& part) {
    return part.is_open() && part.posted().digest == digest && part.waits_for(source);
  }) != nullptr;
}

void Copies::on_want(SpId from, const peer::Want& want) {
  const Key key{want.source, want.piece};
  // Before the members are known any source may be named.
  const bool full = group_.membership() == nullptr && items_.size() >= context_.config.limits.waiting_announcements;
  if (full && !items_.contains(key)) return say_not_here(from, key);
  Item& item = items_[key];
  // Asked twice, after restarts: the answer is on its way.
  const auto reads = [&](const Reader& reader) { return reader.peer == now(from); };
  if (std::any_of(item.readers.begin(), item.readers.end(), reads)) return;
  const bool asks_back = item.fetcher != nullptr && item.fetcher->asked_ == from;
  LocalRank* holder = holder_of(key, 1);
  if (holder != nullptr && holder->posted().digest == want.digest) return offer(from, key, item, *holder);
  const std::optional<SpId> other = asked_off_route(item);
  if (!asks_back && !other && will_have(want.source, want.digest)) {
    if (std::find(item.askers.begin(), item.askers.end(), now(from)) == item.askers.end()) {
      item.askers.push_back(now(from));
    }
    return;
  }
  send_on(from, key, item, other);
}

void Copies::offer(SpId to, const Key& key, Item& item, LocalRank& holder) {
  peer::Copy answer;
  answer.source = key.first;
  answer.piece = key.second;
  answer.where = peer::Where::here;
  answer.service = context_.config.self;
  answer.holder = holder.me();
  const MemoryRef& memory = holder.posted().receive.block(key.first).memory;
  answer.region = memory.region;
  answer.address = memory.address;
  answer.bytes = holder.placed_bytes(key.first);
  item.readers.push_back(Reader{now(to), holder.me()});
  holder.add_reader();
  context_.send(to, operation_.id(), answer);
}

void Copies::say_not_here(SpId to, const Key& key) {
  peer::Copy answer;
  answer.source = key.first;
  answer.piece = key.second;
  answer.where = peer::Where::nowhere;
  context_.send(to, operation_.id(), answer);
}

void Copies::answer_askers(const Key& key, Item& item) {
  if (item.askers.empty()) return;
  LocalRank* holder = holder_of(key, 1);
  if (holder != nullptr) {
    for (const Peer& asker : std::exchange(item.askers, {})) offer(asker.sp, key, item, *holder);
    return;
  }
  const auto candidate = [&](const LocalRank& part) { return part.is_open() && part.waits_for(key.first); };
  if (operation_.find_part(candidate) != nullptr) return;
  for (const Peer& asker : std::exchange(item.askers, {})) say_not_here(asker.sp, key);
}

void Copies::reconsider() {
  if (closing_) return;
  for (auto& [key, item] : items_) answer_askers(key, item);
}

void Copies::on_copy(SpId from, const peer::Copy& answer) {
  const Key key{answer.source, answer.piece};
  const auto found = items_.find(key);
  Copy* copy = found == items_.end() ? nullptr : found->second.fetcher;
  if (copy == nullptr || copy->asked_ != from) {
    if (answer.where == peer::Where::here) context_.send(from, operation_.id(), peer::Done{key.first, key.second});
    return;
  }
  copy->asked_.reset();
  if (answer.where == peer::Where::here) {
    copy->reading_ = from;
    if (answer.bytes >= copy->piece_.end()) {
      copy->remote_.memory.owner = group_.membership()->world(answer.holder);
      copy->remote_.memory.region = answer.region;
      copy->remote_.memory.address = answer.address + copy->piece_.offset_bytes;
      return resolve(*copy, Copy::From::remote);
    }
    stop_reading(*copy);
  }
  if (answer.where == peer::Where::elsewhere && !copy->sent_elsewhere_ && answer.service != context_.config.self) {
    copy->sent_elsewhere_ = copy->off_route_ = true;
    return ask(*copy, answer.service);
  }
  if (fetch(*copy, found->second)) resolve(*copy, Copy::From::source);
}

void Copies::on_done(SpId from, const peer::Done& done) {
  const auto found = items_.find(Key{done.source, done.piece});
  if (found == items_.end()) return;
  std::vector<Reader>& readers = found->second.readers;
  const auto reader =
      std::find_if(readers.begin(), readers.end(), [&](const Reader& other) { return other.peer == now(from); });
  if (reader == readers.end()) return;
  const GroupRank holder = reader->holder;
  readers.erase(reader);
  if (LocalRank* part = operation_.find(holder)) part->remove_reader();
}

// ---------------------------------------------------------------- restarts

void Copies::ask_for_quiet() {
  for (const Membership::Peer& peer : group_.membership()->peers()) {
    if (loud_.insert(peer.sp).second) context_.send(peer.sp, operation_.id(), peer::Quiet{true});
  }
}

bool Copies::reads_from(SpId peer) const {
  return std::any_of(copies_.begin(), copies_.end(), [peer](const Copy* copy) { return copy->reading_ == peer; });
}

void Copies::say_quiet_when_due(SpId peer) {
  if (!quiet_due_.contains(peer) || reads_from(peer)) return;
  quiet_due_.erase(peer);
  context_.send(peer, operation_.id(), peer::Quiet{false});
}

void Copies::on_quiet(SpId from, const peer::Quiet& quiet) {
  if (quiet.asks) {
    quiet_due_.insert(from);
    return say_quiet_when_due(from);
  }
  if (loud_.erase(from) != 0 && loud_.empty()) operation_.notify_parts();
}

void Copies::peer_restarted(SpId peer) {
  // What the old incarnation read, asked for and kept has gone with it. The new one may have spoken before.
  const auto gone = [&](const Peer& other) { return other.sp == peer && other.epoch != context_.epoch_of(peer); };
  for (auto& [key, item] : items_) {
    std::erase_if(item.askers, gone);
    if (item.granted && gone(*item.granted)) item.granted.reset();
    for (const Reader& reader : item.readers) {
      if (!gone(reader.peer)) continue;
      if (LocalRank* part = operation_.find(reader.holder)) part->remove_reader();
    }
    std::erase_if(item.readers, [&](const Reader& reader) { return gone(reader.peer); });
    if (item.fetcher != nullptr && item.fetcher->asked_ == peer) ask(*item.fetcher, peer);
  }
  // Of an incarnation that is met for the first time it is not known whether it was asked.
  if (loud_.contains(peer)) context_.send(peer, operation_.id(), peer::Quiet{true});
}

bool Copies::remembers() const {
  return std::any_of(items_.begin(), items_.end(), [](const auto& entry) { return entry.second.granted.has_value(); });
}

std::optional<std::string> Copies::broken_invariant() const {
  std::map<GroupRank, std::uint32_t> readers;
  for (const auto& [key, item] : items_) {
    for (const Reader& reader : item.readers) ++readers[reader.holder];
    if (item.fetcher == nullptr && !item.line.empty()) return "ranks wait for a copy that nobody gets";
  }
  for (const Copy* copy : copies_) {
    if (copy->from_ == Copy::From::local) ++readers[copy->holder_];
  }
  const LocalRank* wrong = operation_.find_part([&](const LocalRank& part) {
    const auto counted = readers.find(part.me());
    return part.is_open() && part.readers() != (counted == readers.end() ? 0 : counted->second);
  });
  if (wrong != nullptr) return "readers of a rank's buffer miscounted";
  return std::nullopt;
}

}  // namespace outrigger::engine
