// Transfers between two ends, in the order in which both post them, so nothing is matched. A head before each transfer
// tells its call and its length, for comparison.
//
// A transfer begins when it is posted, as far as the stream has room, and goes on in move(). Nothing waits.
//
// Thread rule: one thread at a time.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "group/stream.hpp"
#include "intranode/call_word.hpp"

namespace outrigger::group {

class Transfers {
 public:
  using Clock = std::chrono::steady_clock;

  // One stream for each end; nullptr: none.
  explicit Transfers(std::vector<std::unique_ptr<Stream>> streams);

  // The next call, which all ends make.
  void begin(intranode::CallWord call);
  // Transfers of a pair are in the order of these. The memory is the caller's again when they have finished.
  void send(std::uint32_t end, std::span<const std::byte> from);
  void receive(std::uint32_t end, std::span<std::byte> into);
  // True: bytes have moved.
  bool move();

  [[nodiscard]] bool is_pending(bool for_sends) const;
  [[nodiscard]] bool has_sends(std::uint32_t end) const { return !lines_[end].sends.empty(); }
  [[nodiscard]] bool has_receives(std::uint32_t end) const { return !lines_[end].receives.empty(); }
  // How many have been completed since the beginning.
  [[nodiscard]] std::uint64_t sent(std::uint32_t end) const { return lines_[end].sent; }
  [[nodiscard]] std::uint64_t received(std::uint32_t end) const { return lines_[end].received; }
  // The time of the last bytes from there.
  [[nodiscard]] Clock::time_point came(std::uint32_t end) const { return lines_[end].came; }
  // Why no more is received: calls or lengths differ. In numbers of ends.
  [[nodiscard]] const std::optional<intranode::Difference>& difference() const { return difference_; }

  [[nodiscard]] std::uint32_t ends() const { return static_cast<std::uint32_t>(lines_.size()); }
  [[nodiscard]] Stream* stream(std::uint32_t end) const { return lines_[end].stream.get(); }
  // Descriptors that become ready when pending transfers can go on.
  void add_descriptors(std::vector<pollfd>& into) const;
  // Before the end of a group that has failed.
  void abandon();

 private:
  struct Head {
    std::uint64_t call = 0;
    std::uint64_t bytes = 0;
  };
  struct Transfer {
    std::uint64_t moved = 0;  // of the head, and then of the bytes
    Head head{};
    const std::byte* from = nullptr;
    std::byte* into = nullptr;
    std::uint64_t bytes = 0;
    [[nodiscard]] bool is_done() const { return moved == sizeof(Head) + bytes; }
    [[nodiscard]] std::uint64_t of_head() const { return std::min<std::uint64_t>(moved, sizeof(Head)); }
    [[nodiscard]] std::uint64_t of_body() const { return moved - of_head(); }
  };
  struct Line {
    std::unique_ptr<Stream> stream;
    std::deque<Transfer> sends;
    std::deque<Transfer> receives;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    Clock::time_point came{};
  };

  bool move_sends(Line& line);
  bool move_receives(std::uint32_t end);
  void check(std::uint32_t end, const Transfer& transfer);

  std::vector<Line> lines_;
  intranode::CallWord call_;
  std::uint64_t calls_ = 0;
  std::optional<intranode::Difference> difference_;
};

}  // namespace outrigger::group
