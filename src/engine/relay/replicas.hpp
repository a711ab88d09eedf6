// Where else a block is to be had than from its source: what algorithms in which ranks pass blocks on are written with.
//
// A local rank that needs a block (or a piece of one) takes a Copy. It is read from a local rank that has it; if one is
// about to get it, that is waited for; otherwise this rank gets it for all of them: from a rank of another service
// process that the algorithm's route names, or from the source itself. A rank whose receive buffer is being read does
// not complete (LocalRank::filled_and_released() waits for its readers).
//
// Between service processes: `want` asks, `copy` answers ("read it there, I keep it" / "ask that one" / "not here"),
// `done` lets it go. "Not here" is always a right answer, because a source is not released by a rank before that rank
// has the block: whatever goes wrong, the source still has it. Who has the block follows from the marks, so a restarted
// service process knows its holders at once, but not its readers: it asks its peers (`quiet`), and completes no rank of
// a replayed operation before all have said that they read nothing there any more.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/context.hpp"
#include "engine/core/suspension.hpp"
#include "protocol/peer_messages.hpp"

namespace outrigger::engine {

class Group;
class LocalRank;
class Operation;

class Copies {
 public:
  // The service processes to ask for a piece, one after the other; nothing: no more, it is to be read at the source.
  using Route = std::optional<SpId> (*)(const Operation& operation, GroupRank source, std::uint32_t piece,
                                        std::uint32_t hop);

  // A part of a source's block. All of it: `piece` is kWhole.
  struct Piece {
    GroupRank source;
    std::uint32_t piece = peer::kWholeBlock;
    std::uint64_t offset_bytes = 0;
    std::uint64_t bytes = 0;
    [[nodiscard]] std::uint64_t end() const { return offset_bytes + bytes; }
  };

  Copies(Context& context, Group& group, Operation& operation)
      : context_(context), group_(group), operation_(operation) {}
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  ~Copies() = default;

  // One rank's way to one piece. Lives in a coroutine's frame.
  class Copy : private Suspension {
   public:
    Copy(Copies& copies, LocalRank& rank, const Piece& piece, Route route);
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;
    ~Copy();

    // Awaited: it is known where to read it.
    class Found {
     public:
      explicit Found(Copy& copy) : copy_(copy) {}
      Found(const Found&) = delete;
      Found& operator=(const Found&) = delete;
      ~Found() = default;
      [[nodiscard]] bool await_ready() const { return copy_.copies_.look_for(copy_); }
      void await_suspend(std::coroutine_handle<> waiter) const { copy_.handle = waiter; }
      void await_resume() const {}

     private:
      Copy& copy_;
    };
    [[nodiscard]] Found found() { return Found(*this); }

    // The rank is to read the piece from its source (or to put it together from smaller ones).
    [[nodiscard]] bool at_source() const { return from_ == From::source; }
    // Both ends of the move.
    [[nodiscard]] Block from() const;
    [[nodiscard]] Block to() const;
    // After the move: whoever was read from is free, and others may have it from here.
    void moved(const fabric::MoveOutcome& outcome);

   private:
    friend class Copies;
    enum class From : std::uint8_t { unknown, source, local, remote };

    Copies& copies_;
    LocalRank& rank_;
    const Piece piece_;
    const Route route_;
    From from_ = From::unknown;
    bool waiting_ = false;  // in its item's line
    bool fetching_ = false;
    std::uint32_t hop_ = 0;
    bool sent_elsewhere_ = false;
    bool off_route_ = false;       // whom it asks it was sent to
    std::optional<SpId> asked_;    // an answer is outstanding
    std::optional<SpId> reading_;  // its service process keeps the holder for us
    GroupRank holder_;
    Block remote_;
  };

  // A rank of this service process has the piece, or is getting it.
  [[nodiscard]] bool is_coming(const Piece& piece) const;

  // --- For the operation. ---
  void on_want(SpId from, const peer::Want& want);
  void on_copy(SpId from, const peer::Copy& copy);
  void on_done(SpId from, const peer::Done& done);
  void on_quiet(SpId from, const peer::Quiet& quiet);
  void peer_restarted(SpId peer);
  // After a restart, with the first part: asks who still reads here.
  void ask_for_quiet();
  [[nodiscard]] bool quiet() const { return loud_.empty(); }
  // A local rank's block has come to its end, or a part has gone: who waits for it here may have to be told.
  void reconsider();
  // A peer was told that it gets the block for this node, and a rank of ours may still come and ask.
  [[nodiscard]] bool remembers() const;
  void close() { closing_ = true; }
  [[nodiscard]] std::optional<std::string> broken_invariant() const;

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
  struct Item {
    std::vector<GroupRank> holders;  // of a piece; of whole blocks one, as the parts know themselves
    Copy* fetcher = nullptr;         // gets it
    std::vector<Copy*> line;         // wait for the fetcher
    std::vector<Peer> askers;        // the same, in other service processes
    std::optional<Peer> granted;     // gets it for this node
    std::vector<Reader> readers;
  };
  using Key = std::pair<GroupRank, std::uint32_t>;

  // True: known at once.
  [[nodiscard]] bool look_for(Copy& copy);
  void leave(Copy& copy);
  [[nodiscard]] LocalRank* open_part(GroupRank rank) const;
  void add_holder(Item& item, const Copy& copy) const;
  [[nodiscard]] LocalRank* holder_of(const Key& key, std::uint64_t needed) const;
  [[nodiscard]] bool will_have(GroupRank source, std::uint64_t digest) const;
  [[nodiscard]] bool fetch(Copy& copy, const Item& item);
  void ask(Copy& copy, SpId service);
  // Whom this service process asks off its route. Nobody waits for one that does so, but is told whom it asks: along
  // routes there are no circles, and so there are none at all.
  [[nodiscard]] static std::optional<SpId> asked_off_route(const Item& item);
  void send_on(SpId asker, const Key& key, Item& item, std::optional<SpId> service);
  void resolve(Copy& copy, Copy::From from);
  void read_from(Copy& copy, LocalRank& holder);
  void stop_reading(Copy& copy);
  void advance(const Key& key, Item& item);
  void answer_askers(const Key& key, Item& item);
  [[nodiscard]] Peer now(SpId sp) const { return Peer{sp, context_.epoch_of(sp)}; }
  void offer(SpId to, const Key& key, Item& item, LocalRank& holder);
  void say_not_here(SpId to, const Key& key);
  void say_quiet_when_due(SpId peer);
  [[nodiscard]] bool reads_from(SpId peer) const;

  Context& context_;
  Group& group_;
  Operation& operation_;
  std::map<Key, Item> items_;
  std::set<Copy*> copies_;    // alive
  std::set<SpId> loud_;       // after a restart: have not said that they read nothing here
  std::set<SpId> quiet_due_;  // have asked whether we read there, and we do
  bool closing_ = false;
};

}  // namespace outrigger::engine
