// Where else a block is to be had than from its source: what algorithms in which ranks pass blocks on are written with.
//
// A local rank that needs a segment of a block makes a Fetch. It is read from a local rank that has it; if one is about
// to get it, that is waited for; otherwise this rank gets it for all of them: from a rank of another service process
// that the algorithm's route names, or from the source itself. A rank whose receive buffer is being read does not
// complete (LocalRank::filled_and_released() waits for its readers).
//
// Between service processes: a request asks, the answer says "read it here, I keep it" / "that one gets it" / "not
// here", and done lets it go. "Not here" is always a right answer, because a source is not released by a rank before
// that rank has the block: whatever goes wrong, the source still has it. Who has the block follows from the marks, so a
// restarted service process knows its holders at once; of their readers it hears by quiescence.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/context.hpp"
#include "engine/relay/eager_replicas.hpp"
#include "engine/relay/fetch.hpp"
#include "engine/relay/quiescence.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine {

class Replicas {
 public:
  explicit Replicas(Operation& operation) : quiescence(operation), ahead(operation), operation_(operation) {}
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;
  ~Replicas() = default;

  [[nodiscard]] Operation& operation() const { return operation_; }

  // A rank of this service process has the segment, or is getting it.
  [[nodiscard]] bool is_coming(const Segment& segment) const;

  // --- For Fetch. ---
  void enter(Fetch& fetch) { fetches_.insert(&fetch); }
  // True: known at once. Else the fetch is resumed when it is.
  [[nodiscard]] bool locate(Fetch& fetch);
  void moved(Fetch& fetch, const fabric::MoveOutcome& outcome);
  void leave(Fetch& fetch);
  void stopped_reading_from(SpId peer);

  // --- For the engine. ---
  void on_request(SpId from, const peer::ReplicaRequest& request);
  void on_answer(SpId from, const peer::ReplicaAnswer& answer);
  void on_done(SpId from, const peer::ReplicaDone& done);
  void on_quiesce(SpId from, const peer::Quiesce& quiesce);
  void peer_restarted(SpId peer);
  // A local rank's block has come to its end, or a rank has gone: who waits for it here may have to be told.
  void reconsider();
  // A peer was told that it gets the block for this node, and a rank of ours may still come and ask.
  [[nodiscard]] bool remembers() const;
  // Fetches that are dropped from now on let nobody go on.
  void close() { closing_ = true; }
  [[nodiscard]] std::optional<std::string> broken_invariant() const;

  Quiescence quiescence;
  EagerReplicas ahead;

 private:
  // A service process as it was when it spoke: what a former incarnation said is void.
  struct Peer {
    SpId sp;
    Epoch epoch;
    bool operator==(const Peer&) const = default;
  };
  struct Reader {
    Peer peer;
    GroupRank holder;
  };
  // What is known here of one segment.
  struct Entry {
    std::vector<GroupRank> holders;  // of a segment; of whole blocks one, as the ranks know themselves
    Fetch* fetcher = nullptr;        // gets it
    std::vector<Fetch*> queue;       // wait for the fetcher, or for the one that will be
    std::vector<Peer> requesters;    // the same, in other service processes
    std::optional<Peer> granted;     // gets it for this node
    std::vector<Reader> readers;
    [[nodiscard]] bool is_waited_for() const { return !queue.empty() || !requesters.empty(); }
    // Whom this service process asks off its route. Nobody waits for one that does so, but is told whom it asks: along
    // routes there are no circles, and so there are none at all.
    [[nodiscard]] std::optional<SpId> asked_off_route() const {
      return fetcher != nullptr && fetcher->off_route_ ? fetcher->asked_ : std::nullopt;
    }
  };
  using Key = std::pair<GroupRank, std::uint32_t>;
  [[nodiscard]] static Key key_of(const Segment& segment) { return Key{segment.source, segment.index}; }

  [[nodiscard]] LocalRank* holder_of(const Key& key, std::uint64_t needed_bytes) const;
  // Operands are what one rank alone makes: where that is here it is waited for.
  [[nodiscard]] bool waits_for_maker(const Fetch& fetch) const;
  // The next to ask, or the source. True: known at once.
  [[nodiscard]] bool ask_next(Fetch& fetch, const Entry& entry);
  void ask(Fetch& fetch, SpId service);
  void advance(const Key& key, Entry& entry);
  [[nodiscard]] bool reads_from(SpId peer) const;

  [[nodiscard]] Peer now(SpId sp) const;
  void answer_requesters(const Key& key, Entry& entry);
  void offer(SpId to, const Key& key, Entry& entry, LocalRank& holder);
  void forward(SpId requester, const Key& key, Entry& entry, std::optional<SpId> service);
  void say_not_here(SpId to, const Key& key);

  Operation& operation_;
  std::map<Key, Entry> entries_;
  std::set<Key> waited_for_;  // at least those of entries_ that are: to walk all at each block takes squares
  std::set<Fetch*> fetches_;  // alive
  bool closing_ = false;
};

}  // namespace outrigger::engine
