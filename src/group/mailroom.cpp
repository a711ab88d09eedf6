#include "group/mailroom.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include "base/futex.hpp"

namespace outrigger::group {
namespace {

using namespace std::chrono_literals;

// A doorbell that was missed costs that time.
constexpr auto kSleep = 1ms;
constexpr std::uint32_t kThreadYields = 50;
// Looks from one check of the time to the next while bytes move.
constexpr std::uint64_t kLooksToCheck = 256;

// Throws bytes of a message away. Returns how many.
std::uint64_t drop(Stream& stream, std::uint64_t bytes) {
  std::array<std::byte, 4096> unwanted;
  std::uint64_t dropped = 0;
  while (dropped < bytes) {
    const std::size_t piece = std::min<std::uint64_t>(unwanted.size(), bytes - dropped);
    const std::size_t read = stream.read({}, std::span(unwanted).first(piece));
    if (read == 0) break;
    dropped += read;
  }
  return dropped;
}

bool accepts(const Letter& receive, std::uint32_t source, std::int64_t tag) {
  return (receive.peer == source || receive.peer == kAnyMember) && receive.tag == tag;
}

}  // namespace

Mailroom::Mailroom(const intranode::WaitPolicy& policy, const Layout& layout, GroupArea area, MemberWatch& watch,
                   std::vector<std::unique_ptr<Stream>> streams)
    : policy_(policy),
      layout_(layout),
      rank_(layout.rank()),
      area_(std::move(area)),
      watch_(watch),
      peers_(layout.size()) {
  for (std::uint32_t peer = 0; peer < peers_.size(); ++peer) peers_[peer].stream = std::move(streams[peer]);
}

Mailroom::~Mailroom() {
  {
    const std::scoped_lock held(lock_);
    ends_ = true;
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (!watch_.failure().is_set()) return;
  for (const Peer& peer : peers_) peer.stream->abandon();
}

std::shared_ptr<Letter> Mailroom::send(std::span<const std::byte> from, std::uint32_t to, std::int64_t tag,
                                       bool in_background) {
  auto letter = std::make_shared<Letter>();
  *letter = {.peer = to, .tag = tag, .is_send = true, .from = from.data(), .bytes = from.size()};
  const std::scoped_lock held(lock_);
  if (is_refused(*letter)) return letter;
  peers_[to].sends.push_back(letter);
  (void)move_sends(to);
  if (in_background && !letter->done) start_thread();
  return letter;
}

std::shared_ptr<Letter> Mailroom::receive(std::span<std::byte> into, std::uint32_t source, std::int64_t tag,
                                          bool in_background) {
  auto letter = std::make_shared<Letter>();
  *letter = {.peer = source, .tag = tag, .into = into.data(), .bytes = into.size()};
  const std::scoped_lock held(lock_);
  if (is_refused(*letter)) return letter;
  if (!take_kept(letter)) receives_.push_back(letter);
  (void)move_all();
  if (in_background && !letter->done) start_thread();
  return letter;
}

bool Mailroom::is_refused(Letter& letter) {
  if (!failed_.is_set()) {
    if (const Failure failure = watch_.failure(); failure.is_set()) fail_all(failure);
  }
  letter.failure = failed_;
  return failed_.is_set();
}

Mailroom::Waited Mailroom::state_of(const Letter& letter) {
  if (letter.failure.is_set() || (letter.done && !letter.fits)) return Waited::failed;
  return letter.done ? Waited::done : Waited::late;
}

Mailroom::Waited Mailroom::test(const std::shared_ptr<Letter>& letter) {
  const std::scoped_lock held(lock_);
  ++letter->waiting_callers;
  if (state_of(*letter) == Waited::late) (void)move_all();
  if (state_of(*letter) == Waited::late) look_after();
  --letter->waiting_callers;
  return state_of(*letter);
}

Mailroom::Waited Mailroom::wait(const std::shared_ptr<Letter>& letter, std::chrono::milliseconds timeout) {
  const Clock::time_point end = Clock::now() + timeout;
  std::unique_lock held(lock_);
  ++waiting_callers_;
  ++letter->waiting_callers;
  // It spins once only: who moves these bytes may share the core.
  const std::uint64_t first_yield = std::uint64_t{policy_.spins} + 1;
  std::uint64_t look = 0;
  for (std::uint64_t looks = 0;; ++look, ++looks) {
    const std::uint32_t seen = bell();
    if (move_all()) look = std::min(look, first_yield);
    const bool looks_long = look > policy_.spins;
    const bool checks = looks_long || looks % kLooksToCheck == kLooksToCheck - 1;
    if (checks && state_of(*letter) == Waited::late) look_after();
    if (state_of(*letter) != Waited::late || (checks && Clock::now() >= end)) break;
    const bool sleeps = look > policy_.spins + std::uint64_t{policy_.yields};
    std::vector<pollfd> connections = sleeps ? pending_connections() : std::vector<pollfd>();
    held.unlock();
    if (sleeps) {
      sleep(seen, std::move(connections));
    } else if (looks_long) {
      (void)::sched_yield();
    }
    held.lock();
  }
  --waiting_callers_;
  --letter->waiting_callers;
  const Waited state = state_of(*letter);
  if (is_pending() && thread_.joinable()) work_.notify_one();
  return state;
}

void Mailroom::cancel(const std::shared_ptr<Letter>& letter) {
  const std::scoped_lock held(lock_);
  if (letter->done || letter->failure.is_set()) return;
  letter->into = nullptr;  // an arriving message is dropped
  receives_.remove(letter);
  for (Kept& one : kept_) {
    if (one.taker == letter) one.taker = std::make_shared<Letter>(Letter{.bytes = one.head.bytes});
  }
  if (letter->is_send) std::erase(peers_[letter->peer].sends, letter);
  letter->done = true;
  // The next message's head would be taken for this one's bytes.
  if (letter->is_send && letter->head_moved > 0) {
    fail_all(watch_.fail({.kind = FailureKind::aborted, .about = rank_, .noticed = rank_}));
  }
}

void Mailroom::fail(const Failure& failure) {
  const std::scoped_lock held(lock_);
  fail_all(watch_.fail(failure));
}

bool Mailroom::move_all() {
  if (failed_.is_set()) return false;
  bool any = false;
  for (std::uint32_t peer = 0; peer < peers_.size(); ++peer) {
    any = move_sends(peer) || any;
    any = move_arrivals(peer) || any;
  }
  return any;
}

bool Mailroom::move_sends(std::uint32_t to) {
  std::deque<std::shared_ptr<Letter>>& sends = peers_[to].sends;
  if (sends.empty() || failed_.is_set()) return false;
  bool any = false;
  while (!sends.empty()) {
    Letter& letter = *sends.front();
    const Head head{.tag = letter.tag, .bytes = letter.bytes};
    const auto head_bytes = std::as_bytes(std::span(&head, 1)).subspan(letter.head_moved);
    const std::span body(letter.from + letter.moved, letter.bytes - letter.moved);
    const std::size_t moved = peers_[to].stream->write(head_bytes, body);
    const std::size_t of_head = std::min(moved, head_bytes.size());
    letter.head_moved += of_head;
    letter.moved += moved - of_head;
    any = any || moved > 0;
    if (letter.head_moved < sizeof head || letter.moved < letter.bytes) break;
    letter.done = true;
    sends.pop_front();
  }
  return any;
}

bool Mailroom::is_room_from(std::uint32_t source) const {
  const Peer& peer = peers_[source];
  if (peer.kept_bytes == 0 || peer.kept_bytes + peer.head.bytes <= kMostKeptBytes) return true;
  return std::ranges::any_of(receives_, [&](const auto& one) {
    return one->waiting_callers > 0 && (one->peer == source || one->peer == kAnyMember);
  });
}

std::shared_ptr<Letter> Mailroom::take_receive(std::uint32_t source, std::int64_t tag) {
  const auto found = std::ranges::find_if(receives_, [&](const auto& one) { return accepts(*one, source, tag); });
  if (found == receives_.end()) return nullptr;
  std::shared_ptr<Letter> letter = *found;
  receives_.erase(found);
  letter->peer = source;
  return letter;
}

// False: no whole head is there, or there is no room to keep the message.
bool Mailroom::begin_arrival(std::uint32_t source) {
  Peer& peer = peers_[source];
  const auto rest = std::as_writable_bytes(std::span(&peer.head, 1)).subspan(peer.head_moved);
  peer.head_moved += peer.stream->read(rest, {});
  if (peer.head_moved < sizeof(Head)) return false;
  const Head& head = peer.head;
  Arriving arriving{.bytes = head.bytes};
  arriving.letter = take_receive(source, head.tag);
  if (arriving.letter != nullptr) {
    arriving.letter->fits = head.bytes == arriving.letter->bytes;
    arriving.letter->other_bytes = head.bytes;
    if (!arriving.letter->fits) arriving.letter->into = nullptr;
  } else {
    if (!is_room_from(source)) return false;
    kept_.push_back({.source = source, .head = head, .bytes = std::vector<std::byte>(head.bytes)});
    arriving.kept = &kept_.back();
    peer.kept_bytes += head.bytes;
  }
  peer.head_moved = 0;
  peer.arriving = std::move(arriving);
  return true;
}

bool Mailroom::move_arrivals(std::uint32_t source) {
  if (failed_.is_set()) return false;
  bool any = false;
  Stream& stream = *peers_[source].stream;
  std::optional<Arriving>& arriving = peers_[source].arriving;
  while (arriving || begin_arrival(source)) {
    const std::uint64_t left = arriving->bytes - arriving->moved;
    std::byte* into = arriving->kept != nullptr ? arriving->kept->bytes.data() : arriving->letter->into;
    const std::uint64_t moved = into != nullptr ? stream.read({}, {into + arriving->moved, left}) : drop(stream, left);
    arriving->moved += moved;
    any = any || moved > 0;
    if (arriving->moved < arriving->bytes) break;
    end_arrival(source);
    any = true;
  }
  if (any) peers_[source].came = Clock::now();
  return any;
}

void Mailroom::end_arrival(std::uint32_t source) {
  Peer& peer = peers_[source];
  const Arriving arrived = *std::exchange(peer.arriving, std::nullopt);
  if (arrived.letter != nullptr) {
    arrived.letter->done = true;
    return;
  }
  arrived.kept->arrived = arrived.bytes;
  if (arrived.kept->taker == nullptr) return;
  hand_over(*arrived.kept, *arrived.kept->taker);
  peer.kept_bytes -= arrived.bytes;
  kept_.remove_if([&](const Kept& one) { return &one == arrived.kept; });
}

void Mailroom::hand_over(const Kept& kept, Letter& letter) {
  letter.peer = kept.source;
  letter.fits = kept.head.bytes == letter.bytes;
  letter.other_bytes = kept.head.bytes;
  if (letter.fits && letter.into != nullptr && !kept.bytes.empty()) {
    std::memcpy(letter.into, kept.bytes.data(), kept.bytes.size());
  }
  letter.done = true;
}

bool Mailroom::take_kept(const std::shared_ptr<Letter>& letter) {
  const auto found = std::ranges::find_if(
      kept_, [&](const Kept& one) { return one.taker == nullptr && accepts(*letter, one.source, one.head.tag); });
  if (found == kept_.end()) return false;
  const bool is_arriving = peers_[found->source].arriving && peers_[found->source].arriving->kept == &*found;
  if (is_arriving) {
    letter->peer = found->source;
    found->taker = letter;
    return true;
  }
  hand_over(*found, *letter);
  peers_[found->source].kept_bytes -= found->head.bytes;
  kept_.erase(found);
  return true;
}

bool Mailroom::is_pending() const {
  const bool takes = std::ranges::any_of(kept_, [](const Kept& one) { return one.taker != nullptr; });
  return takes || !receives_.empty() ||
         std::ranges::any_of(peers_, [](const Peer& one) { return !one.sends.empty() || one.arriving; });
}

bool Mailroom::waits_for(std::uint32_t member) const {
  return !peers_[member].sends.empty() || peers_[member].arriving ||
         std::ranges::any_of(receives_, [&](const auto& one) { return one->peer == member; });
}

bool Mailroom::waits_for_any() const {
  return std::ranges::any_of(receives_, [](const auto& one) { return one->peer == kAnyMember; });
}

// A message of a member that has ended may be complete in its stream.
bool Mailroom::has_ended(std::uint32_t source) {
  if (!watch_.has_ended(source) && !peers_[source].stream->is_broken()) return false;
  (void)move_arrivals(source);
  const Peer& peer = peers_[source];
  const bool waits_for_room = !peer.arriving && peer.head_moved == sizeof(Head);
  return !waits_for_room && has_all(source);
}

bool Mailroom::has_all(std::uint32_t source) {
  const Peer& peer = peers_[source];
  if (layout_.is_here(source) || peer.stream->is_closed()) return true;
  if (peer.stream->is_broken() && !peer.sends.empty()) return true;
  return watch_.has_ended(source, kOnTheWay) && Clock::now() - peer.came >= kOnTheWay;
}

// The stream of a member of another node that has destroyed its group is closed, too.
void Mailroom::look_after() {
  const Clock::time_point now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kBetweenLooks;
  watch_.look();
  if (Failure failure = watch_.failure(); failure.is_set()) return fail_all(failure);
  std::uint32_t others = 0;
  std::uint32_t last_ended = rank_;
  for (std::uint32_t peer = 0; peer < peers_.size(); ++peer) {
    if (peer == rank_ || !(waits_for(peer) || waits_for_any())) continue;
    ++others;
    if (!has_ended(peer)) continue;
    if (waits_for(peer)) return fail_for(peer);
    --others;
    last_ended = peer;
  }
  if (others == 0 && last_ended != rank_ && waits_for_any()) fail_for(last_ended);
}

// A member that closes its stream after a failure has told the failure before.
void Mailroom::fail_for(std::uint32_t ended) {
  watch_.look();
  fail_all(watch_.fail(watch_.end_of(ended)));
}

// Streams are left in the middle of messages, so nothing is moved any more.
void Mailroom::fail_all(const Failure& failure) {
  if (failed_.is_set()) return;
  failed_ = failure;
  for (Peer& peer : peers_) {
    for (const auto& letter : peer.sends) letter->failure = failure;
    peer.sends.clear();
    if (peer.arriving && peer.arriving->letter != nullptr) peer.arriving->letter->failure = failure;
    peer.arriving.reset();
  }
  for (const auto& letter : receives_) letter->failure = failure;
  receives_.clear();
  for (const Kept& one : kept_) {
    if (one.taker != nullptr) one.taker->failure = failure;
  }
  kept_.clear();
}

// Those of other nodes that something is waited for. One whose next message there is no room for would wake for
// nothing.
std::vector<pollfd> Mailroom::pending_connections() const {
  std::vector<pollfd> found;
  for (const Peer& peer : peers_) {
    if (peer.stream->descriptor() < 0 || peer.stream->is_closed()) continue;
    const bool stays = !peer.arriving && peer.head_moved == sizeof(Head);
    const bool sends = !peer.sends.empty() && !peer.stream->is_broken();
    const int events = (stays ? 0 : POLLIN) | (sends ? POLLOUT : 0);
    if (events == 0) continue;
    found.push_back({.fd = peer.stream->descriptor(), .events = static_cast<short>(events), .revents = 0});
  }
  return found;
}

// A member of both kinds of peers sleeps for bytes of other nodes. It sees those that come from its own node meanwhile
// after kSleep.
void Mailroom::sleep(std::uint32_t seen, std::vector<pollfd> connections) const {
  if (!connections.empty()) {
    if (bell() != seen) return;
    (void)::poll(connections.data(), connections.size(), static_cast<int>(kSleep.count()));
    return;
  }
  Doorbell& doorbell = own_bell();
  doorbell.sleepers.fetch_add(1, std::memory_order_seq_cst);
  futex_wait(doorbell.rings, seen, kSleep);
  doorbell.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void Mailroom::start_thread() {
  if (!thread_.joinable()) thread_ = std::thread([this] { run_thread(); });
  work_.notify_one();
}

// The thread has no caller that could catch an error.
bool Mailroom::move_or_fail() {
  try {
    const bool moved = move_all();
    look_after();
    return moved;
  } catch (const std::exception&) {
    fail_all(watch_.fail({.kind = FailureKind::no_memory, .about = rank_, .noticed = rank_}));
    return false;
  }
}

void Mailroom::run_thread() {
  std::unique_lock held(lock_);
  for (std::uint32_t idle = 0; !ends_;) {
    if (waiting_callers_ > 0 || !is_pending()) {
      work_.wait(held);
      idle = 0;
      continue;
    }
    const std::uint32_t seen = bell();
    if (move_or_fail() || seen != bell()) idle = 0;
    const bool sleeps = ++idle > kThreadYields;
    std::vector<pollfd> connections = sleeps ? pending_connections() : std::vector<pollfd>();
    held.unlock();
    if (sleeps) {
      sleep(seen, std::move(connections));
    } else {
      (void)::sched_yield();
    }
    held.lock();
  }
}

}  // namespace outrigger::group
