// Messages between two members: a stream of bytes for each pair. A message is a head, its tag and length, and then its
// bytes, in as many pieces as the stream's room wants. A waiting caller moves the bytes of all messages of this member.
// While no caller waits and something is pending, a thread does.
//
//     sender   head, bytes  -> stream ->  receiver: into the first fitting receive, or kept until there is one
//
// Thread rule: any.
#pragma once

#include <poll.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "group/group_area.hpp"
#include "group/layout.hpp"
#include "group/member_watch.hpp"
#include "group/stream.hpp"
#include "intranode/waiter.hpp"

namespace outrigger::group {

// Bytes of messages without a receive that are kept from one member. Beyond, its messages stay in the stream, and
// it waits, unless a caller waits for a message that may be behind them.
inline constexpr std::uint64_t kMostKeptBytes = std::uint64_t{64} << 20;

inline constexpr std::uint32_t kAnyMember = UINT32_MAX;

// One message's end here. The mailroom's lock guards it.
struct Letter {
  std::uint32_t peer = 0;  // kAnyMember: until a message fits
  std::int64_t tag = 0;
  bool is_send = false;
  const std::byte* from = nullptr;  // of a send
  std::byte* into = nullptr;        // of a receive; nullptr: bytes are dropped
  std::uint64_t bytes = 0;
  std::uint64_t moved = 0;
  std::size_t head_moved = 0;  // of a send
  std::uint32_t waiting_callers = 0;
  bool done = false;
  bool fits = true;  // false: the message has other_bytes instead
  std::uint64_t other_bytes = 0;
  Failure failure{};  // instead of done
};

class Mailroom {
 public:
  enum class Waited : std::uint8_t { done, late, failed };

  // `streams` by rank, also to the member itself. `layout` and `watch` outlive it.
  Mailroom(const intranode::WaitPolicy& policy, const Layout& layout, GroupArea area, MemberWatch& watch,
           std::vector<std::unique_ptr<Stream>> streams);
  ~Mailroom();
  Mailroom(const Mailroom&) = delete;
  Mailroom& operator=(const Mailroom&) = delete;

  // The memory stays in use until the letter is done or cancelled. `in_background`: it moves without a waiting caller.
  [[nodiscard]] std::shared_ptr<Letter> send(std::span<const std::byte> from, std::uint32_t to, std::int64_t tag,
                                             bool in_background);
  [[nodiscard]] std::shared_ptr<Letter> receive(std::span<std::byte> into, std::uint32_t source, std::int64_t tag,
                                                bool in_background);
  [[nodiscard]] Waited wait(const std::shared_ptr<Letter>& letter, std::chrono::milliseconds timeout);
  // `late`: not yet.
  [[nodiscard]] Waited test(const std::shared_ptr<Letter>& letter);
  // Its memory is not used from now on. Fails the group if a part of a send has moved: the stream is of no more
  // use.
  void cancel(const std::shared_ptr<Letter>& letter);
  // Fails the group and all its letters.
  void fail(const Failure& failure);

 private:
  using Clock = std::chrono::steady_clock;
  struct Head {
    std::int64_t tag = 0;
    std::uint64_t bytes = 0;
  };
  // A message that came before its receive.
  struct Kept {
    std::uint32_t source = 0;
    Head head;
    std::vector<std::byte> bytes;
    std::uint64_t arrived = 0;
    std::shared_ptr<Letter> taker{};  // came while it was arriving
  };
  // A message that is arriving: into a letter, or kept.
  struct Arriving {
    std::uint64_t bytes = 0;
    std::uint64_t moved = 0;
    std::shared_ptr<Letter> letter{};
    Kept* kept = nullptr;
  };
  struct Peer {
    std::unique_ptr<Stream> stream;
    std::deque<std::shared_ptr<Letter>> sends;
    Head head{};  // of the next message, as far as it has come
    std::size_t head_moved = 0;
    std::optional<Arriving> arriving;
    std::uint64_t kept_bytes = 0;
    Clock::time_point came{};  // the last bytes
  };

  // With the lock. True: bytes have moved.
  bool move_all();
  bool move_sends(std::uint32_t to);
  bool move_arrivals(std::uint32_t source);
  [[nodiscard]] bool begin_arrival(std::uint32_t source);
  // For the message whose head has come from there.
  [[nodiscard]] bool is_room_from(std::uint32_t source) const;
  [[nodiscard]] std::shared_ptr<Letter> take_receive(std::uint32_t source, std::int64_t tag);
  void end_arrival(std::uint32_t source);
  [[nodiscard]] bool take_kept(const std::shared_ptr<Letter>& letter);
  void hand_over(const Kept& kept, Letter& letter);
  void look_after();
  // Takes the last bytes of a member that has ended. True: no more will come.
  [[nodiscard]] bool has_ended(std::uint32_t source);
  [[nodiscard]] bool has_all(std::uint32_t source);
  [[nodiscard]] bool waits_for_any() const;
  void fail_for(std::uint32_t ended);
  [[nodiscard]] bool waits_for(std::uint32_t member) const;
  void fail_all(const Failure& failure);
  // Fails a new letter if the group has failed.
  [[nodiscard]] bool is_refused(Letter& letter);
  bool move_or_fail();
  [[nodiscard]] bool is_pending() const;
  // The own doorbell and bytes of other nodes wake a sleeper.
  [[nodiscard]] std::uint32_t bell() const { return own_bell().rings.load(std::memory_order_seq_cst); }
  [[nodiscard]] Doorbell& own_bell() const { return area_.doorbell(layout_.place()); }
  [[nodiscard]] std::vector<pollfd> pending_connections() const;

  void sleep(std::uint32_t seen, std::vector<pollfd> connections) const;
  void start_thread();
  void run_thread();
  [[nodiscard]] static Waited state_of(const Letter& letter);

  intranode::WaitPolicy policy_;
  const Layout& layout_;
  std::uint32_t rank_;
  GroupArea area_;
  MemberWatch& watch_;

  std::mutex lock_;
  std::vector<Peer> peers_;
  std::list<std::shared_ptr<Letter>> receives_;  // in the order in which they were posted
  std::list<Kept> kept_;                         // in the order in which they came
  Failure failed_{};                             // set once: nothing is moved from then on
  Clock::time_point next_look_{};
  std::uint32_t waiting_callers_ = 0;
  bool ends_ = false;
  std::condition_variable work_;
  std::thread thread_;
};

}  // namespace outrigger::group
