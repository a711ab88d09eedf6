// Where `outrigger top`, `watch` and `exporter` ask what this node's ranks have counted so far (report/live.hpp):
//
//   reader                              keeper
//    | finds "outrigger-live:JOB:PID"    | listens there once a rank counts
//    |   in /proc/net/unix               |
//    | connects ------------------------>| looks who that is: this user or root, or it is closed at once
//    |<---------------------- one frame  | and closes
//
// A reader says nothing: nothing of it is read. The name is in the abstract namespace as those of claims are
// (core_claims.hpp), and goes with this process. While nobody asks nothing here wakes the keeper. Whoever asks is
// served at the earliest kBetweenLooks after those before, with all who have come meanwhile: so many frames a second
// are made at most, whatever readers do, and strangers can wake the keeper no more often. A frame that does not fit
// into the socket waits until the reader has read; who has not taken it within kForOneReader is sent away.
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

class LiveDoor {
 public:
  using Clock = std::chrono::steady_clock;
  using MakeFrame = std::function<std::vector<std::byte>()>;
  // What has to be here before a frame is made, where that is not all on this machine.
  struct Preparation {
    std::function<void()> begin;
    std::function<bool()> is_over;
  };
  static constexpr std::chrono::milliseconds kBetweenLooks{50};
  static constexpr std::chrono::seconds kForOneReader{2};
  // Then the frame is made with what is here.
  static constexpr std::chrono::milliseconds kForPreparation{250};
  // At a time; further ones are closed, and come again.
  static constexpr std::size_t kMostReaders = 16;

  // `events` must outlive this, whose events are Source::reader.
  LiveDoor(Events& events, MakeFrame make_frame, Preparation preparation)
      : events_(events), make_frame_(std::move(make_frame)), preparation_(std::move(preparation)) {}
  LiveDoor(const LiveDoor&) = delete;
  LiveDoor& operator=(const LiveDoor&) = delete;
  ~LiveDoor() { close(); }

  // Once; a system that gives no socket has no live figures, and its job goes on.
  void open(const std::string& job);
  // Of Source::reader: somebody has come, or can take more.
  void hear();
  // To be called when it is time.
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
  // When those who have come are admitted, as it looks now.
  [[nodiscard]] Clock::time_point admits_at() const;
  void admit(Clock::time_point now);
  // True: it has all, or has gone.
  [[nodiscard]] bool send(Reader& reader);
  void send_all();

  Events& events_;
  MakeFrame make_frame_;
  Preparation preparation_;
  UniqueFd door_;
  std::vector<Reader> readers_;
  std::optional<Clock::time_point> admits_from_;  // until they are admitted the door is not watched
  Clock::time_point admitted_;
};

}  // namespace outrigger::service
