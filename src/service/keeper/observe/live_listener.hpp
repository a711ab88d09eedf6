// Where `outrigger top`, `watch` and `exporter` read the counts of this node's ranks (report/live.hpp):
//
//   reader                              keeper
//   | finds "outrigger-live:JOB:PID"    | listens there once a rank counts
//   |   in /proc/net/unix               |
//   | connects ------------------------>| closes at once unless the peer is this user or root
//   |<---------------------- one frame  | and closes
//
// Readers send nothing, and nothing is read from them. The name is in the abstract namespace, as those of claims
// (core_claims.hpp), and ends with this process. Without readers the keeper does not wake up.
//
// Rate limit: readers are served together, at the earliest kBetweenLooks after the previous ones, so neither readers
// nor strangers can wake the keeper more often. A frame that does not fit into the socket waits until the reader has
// read; a reader that takes longer than kForOneReader is dropped.
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "service/keeper/events.hpp"

namespace outrigger::service {

class LiveListener {
 public:
  using Clock = std::chrono::steady_clock;
  using MakeFrame = std::function<std::vector<std::byte>()>;
  // Fetches data from other machines before a frame is made.
  struct Preparation {
    std::function<void()> begin;
    std::function<bool()> is_over;
  };
  static constexpr std::chrono::milliseconds kBetweenLooks{50};
  static constexpr std::chrono::seconds kForOneReader{2};
  // After this time the frame is made without them.
  static constexpr std::chrono::milliseconds kForPreparation{250};
  // At a time; further ones are closed and try again.
  static constexpr std::size_t kMostReaders = 16;

  // `events` must outlive this; its events are Source::reader.
  LiveListener(Events& events, MakeFrame make_frame, Preparation preparation)
      : events_(events), make_frame_(std::move(make_frame)), preparation_(std::move(preparation)) {}
  LiveListener(const LiveListener&) = delete;
  LiveListener& operator=(const LiveListener&) = delete;
  ~LiveListener() { close(); }

  // To be called once. If the system gives no socket, the job runs without live figures.
  void open(const std::string& job);
  // An event of Source::reader: a connection, or room in a reader's socket.
  void handle_event();
  void look(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_look() const;
  void close();

 private:
  struct Reader {
    UniqueFd socket;
    std::shared_ptr<const std::vector<std::byte>> frame;
    std::size_t sent = 0;
    Clock::time_point deadline;
  };
  // When the waiting readers are admitted, as known now.
  [[nodiscard]] Clock::time_point admits_at() const;
  void admit(Clock::time_point now);
  // True: it has everything, or has closed.
  [[nodiscard]] bool send(Reader& reader);
  void send_all();

  Events& events_;
  MakeFrame make_frame_;
  Preparation preparation_;
  UniqueFd listener_;
  std::vector<Reader> readers_;
  std::optional<Clock::time_point> admits_from_;  // until then the listener is not watched
  Clock::time_point admitted_;
};

}  // namespace outrigger::service
