// Blocks that can be read at other ranks than their sources: the base of all algorithms in which ranks pass blocks on.
//
//     Fetch fetch(operation.replicas(), rank, segment, route);
//     co_await fetch.located();  // the place to read it: a local rank, a rank of another service process, the source
//     const bool near = operation.is_near(fetch.from());
//     co_await operation.enter_window(rank, near);
//     ... move from fetch.from() to fetch.to() ...
//     operation.leave_window(rank, near);
//     fetch.moved(outcome);      // this rank holds the segment now: others may read it here
//
// A rank does not complete while its receive buffer is being read (LocalRank::filled_and_released() waits for readers).
// An operand (Use::operand) is read until the Fetch is destroyed, without moved().
//
// States of a Fetch. At most one fetch of a segment is its *fetcher*; others queue behind it. Queued fetches are
// processed when they are made, and whenever there is no fetcher. A *delegate* is a service process of the same node
// that was told to fetch the segment for the node. The first event that applies counts.
//
//     state       event                                                next state  sent
//     queued      an open local rank holds the segment                 local
//                 the rank has room for less than the source sends     source
//                 another is the fetcher, or a local rank makes the
//                     operand and has not made it yet                  queued
//                 it becomes the fetcher; there is a delegate          forwarded   request, to the delegate
//                 it becomes the fetcher; the route has a hop          asking      request, to that hop
//                 it becomes the fetcher; the route has none           source
//     asking,     answer: here, all of the segment                     remote
//     forwarded   answer: here, less                                   as nowhere  done, and as nowhere
//                 answer: forwarded, for the first time                forwarded   request, to the one that is named
//                 answer: nowhere; the route has another hop           asking      request, to that hop
//                 answer: nowhere; the route has none                  source
//                 the service process that was asked has restarted     the same    request, again
//     local,      moved(), or destroyed                                ended
//     source
//     remote      moved(), or destroyed                                ended       done, later if moved_untold()
//
// States of another service process that asks for a segment here:
//
//     state       event                                                next state  sent
//     none        request: an open local rank holds some of the block  reading     answer: here
//                 request: the fetcher is forwarded or asks that one,
//                     or no local rank will have the segment           none        answer: forwarded, or nowhere (*)
//                 request: else                                        waiting
//     waiting     an open local rank holds some of the block           reading     answer: here
//                 no local rank will have the segment                  none        answer: nowhere
//                 the fetcher is forwarded                             none        answer: forwarded, or nowhere (*)
//     reading     done                                                 none
//     any         it has restarted                                     none
//
// A rank that could not read a part of a block will not have the block.
//
// (*) Forwarded to the place where the fetcher was forwarded, else to the delegate; the first requester becomes the
// delegate. Nowhere for the delegate itself, and for service processes of other nodes.
//
// A source may offer its own whole block: it answers the service processes that read it at the source as if they had
// asked before. They send no request then (Use::offered). After a restart of either they ask. Else each offer is
// answered once; states of an offer at the reader:
//
//     state       event                                                next state
//     open        the fetcher asks the source                          taken
//                 answer: an open local rank may take it               early
//                 answer: else                                         taken       done, if it is here
//     early       the fetcher asks the source                          taken, with this answer
//                 no open local rank may take it                       taken       done, if it is here
//     taken       the fetcher asks the source                          taken       request
//
// So a fetch without a request waits only for an answer that is still to come. An answer follows the announcement,
// which keeps the operation until all local ranks have posted; without one there are no fetches. So no answer is lost,
// even if the source is lost before ranks post here.
//
// Waits have no cycle: routes have none, and a forwarded fetcher is not waited for. "Nowhere" is always a correct
// answer: a rank releases a source only when it has the block, so the source still has it. Holders of whole blocks
// follow from the marks, so a restarted service process knows them; quiescence.hpp finds their readers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/context.hpp"
#include "engine/core/group.hpp"
#include "engine/core/local_rank.hpp"
#include "engine/core/move.hpp"
#include "engine/relay/eager_replicas.hpp"
#include "engine/relay/quiescence.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine {

class Replicas;

// A part of a source's block, or all of it.
struct Segment {
  GroupRank source;
  std::uint32_t index = peer::kWholeBlock;
  std::uint64_t offset_bytes = 0;
  std::uint64_t bytes = 0;
  [[nodiscard]] std::uint64_t end() const { return offset_bytes + bytes; }
  using Key = std::pair<GroupRank, std::uint32_t>;
  [[nodiscard]] Key key() const { return Key{source, index}; }
};

// The service process to ask for a segment at each hop; nullopt after the last: the segment is read at its source.
// Routes have no cycles.
using Route = std::optional<SpId> (*)(const Membership& group, const Segment& segment, std::uint32_t hop);

// Lives in a coroutine's frame.
class Fetch {
 public:
  enum class Use : std::uint8_t { copy, operand, offered };  // offered: a copy that its source offers
  Fetch(Replicas& replicas, LocalRank& rank, const Segment& segment, Route route, Use use = Use::copy);
  Fetch(const Fetch&) = delete;
  Fetch& operator=(const Fetch&) = delete;
  ~Fetch();

  [[nodiscard]] Until<Fetch> located() { return Until(*this, &Fetch::is_located, located_); }
  [[nodiscard]] bool at_source() const { return state_ == State::source; }
  // Both ends of the move.
  [[nodiscard]] Block from() const;
  [[nodiscard]] Block to() const;
  // Awaited: the move between them. The holder's service process may have sent a short replica with its answer.
  [[nodiscard]] Move move() const;
  void moved(const fabric::MoveOutcome& outcome);
  // The same, but the holder is told by Replicas::tell_of_moved(): all at once, in one batch of messages.
  void moved_untold(const fabric::MoveOutcome& outcome);

 private:
  friend class Replicas;
  enum class State : std::uint8_t { queued, asking, forwarded, local, remote, source, ended };

  [[nodiscard]] bool is_located() const { return state_ >= State::local; }
  [[nodiscard]] bool asks(SpId service) const;
  void locate(State where);
  void end();

  Replicas& replicas_;
  LocalRank& rank_;
  const Segment segment_;
  const Route route_;
  const Use use_;
  State state_ = State::queued;
  bool was_forwarded_ = false;
  std::uint32_t hop_ = 0;
  SpId service_;      // the process that is asked, or where the segment is read
  GroupRank holder_;  // valid if the holder is local
  Block found_;       // the holder's whole block
  Signal located_;
};

class Replicas {
 public:
  explicit Replicas(Operation& operation) : quiescence(operation), eager(operation), operation_(operation) {}
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;
  ~Replicas() = default;

  // True if a rank of this service process holds or fetches it.
  [[nodiscard]] bool is_held_or_fetched(const Segment& segment) const;
  // Sends the "done" of segments that were moved_untold().
  void tell_of_moved();
  // Will answer those who read a local rank's own segment here as if they had asked. To be called before the rank
  // announces.
  void offer_to_readers(const Segment& segment);

  // --- For the engine. ---
  void on_request(SpId from, const peer::ReplicaRequest& request);
  void on_answer(SpId from, const peer::ReplicaAnswer& answer);
  void on_done(SpId from, const peer::ReplicaDone& done);
  void on_quiesce(SpId from, const peer::Quiesce& quiesce);
  void peer_restarted(SpId peer);
  // A local rank's block of that source has ended: fetches that wait for it may continue.
  void reconsider(GroupRank source);
  // A local rank has begun or gone: any waiting fetch may continue.
  void reconsider();
  // Further ranks of a delegate may still ask.
  [[nodiscard]] bool has_delegates() const;
  // The operation ends: fetches that are destroyed from now on wake no others.
  void close() { closing_ = true; }
  [[nodiscard]] std::optional<std::string> broken_invariant() const;

  Quiescence quiescence;
  EagerReplicas eager;

 private:
  friend class Fetch;
  // A service process at the time of its request: a former incarnation's requests are void.
  struct Incarnation {
    SpId sp;
    Epoch epoch;
    bool operator==(const Incarnation&) const = default;
  };
  struct Reader {
    Incarnation reader;
    GroupRank holder;
  };
  // The fetches and requests of one segment.
  struct Entry {
    Segment::Key key;
    std::vector<Fetch*> fetches;  // in the order of their creation
    Fetch* fetcher = nullptr;     // one of `fetches`, or nullptr
    std::vector<Incarnation> waiting;
    std::vector<Reader> readers;
    std::optional<Incarnation> delegate;
    [[nodiscard]] bool is_waited_for() const;
  };

  [[nodiscard]] Entry& entry_of(const Segment::Key& key);
  [[nodiscard]] Entry* find(const Segment::Key& key);
  void erase_if_idle(const Entry& entry);
  [[nodiscard]] LocalRank* holder_of(const Segment::Key& key, std::uint64_t needed_bytes) const;
  [[nodiscard]] bool waits_for_maker(const Fetch& fetch) const;
  [[nodiscard]] Incarnation incarnation(SpId sp) const;

  [[nodiscard]] bool leave_queue(Entry& entry, Fetch& fetch);
  void ask_next(Entry& entry, Fetch& fetch);
  void ask(Entry& entry, Fetch& fetch, Fetch::State state, SpId service);
  void let_go(SpId holder, const Segment::Key& key);
  void let_go_untold(SpId holder, const Segment::Key& key);
  [[nodiscard]] bool is_offered(SpId service, const Segment::Key& key) const;
  [[nodiscard]] bool may_come_early(SpId from, const Segment::Key& key) const;
  [[nodiscard]] bool may_be_offer(SpId from, const Segment::Key& key) const;
  // From `first` to `last`, both included.
  void reconsider(const Segment::Key& first, const Segment::Key& last);
  void let_go_unwanted(const Segment::Key& first, const Segment::Key& last);
  void answer_quiesce(SpId peer);

  void advance(Entry& entry);
  void offer(Entry& entry, SpId to, LocalRank& holder);
  void forward(Entry& entry, SpId requester);
  void answer(SpId to, const Segment::Key& key, peer::Where where, SpId service = {}, GroupRank holder = {},
              const Block& block = {});

  Operation& operation_;
  std::map<Segment::Key, Entry> entries_;
  // superset of the waiting entries_; scanning all at each block would be quadratic
  std::set<Segment::Key> waited_for_;
  // One holder of a whole block is enough: ranks know which whole blocks they have.
  std::map<Segment::Key, std::vector<GroupRank>> holders_;
  std::map<Segment::Key, peer::ReplicaAnswer> early_;  // from the sources, before they are awaited
  std::set<Segment::Key> taken_;                       // offers that are awaited, or whose answers were not kept
  std::vector<std::pair<SpId, Segment::Key>> untold_;  // holders of segments that have been moved
  bool closing_ = false;
};

}  // namespace outrigger::engine
