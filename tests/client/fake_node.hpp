// A keeper and a service process in threads of the test, so that the client is tested without the daemon: sends and
// receives control messages, maps segment and regions, and completes slots on request.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/memory/program_memory.hpp"
#include "client/start/attach.hpp"
#include "protocol/shared/segment.hpp"
#include "protocol/wire/control.hpp"
#include "support/eventually.hpp"

namespace outrigger::client::test {

inline bool release(void* memory) {
  return ProgramMemory::of_process().release(memory);
}

struct FakeNodeOptions {
  bool answer_hello = true;
  std::string refusal;  // not empty: refuse with this
  bool touch_probe = true;
  bool answer_regions = true;
  bool accept_regions = true;
  bool seal_segment = true;
  std::uint64_t segment_bytes = SegmentView::segment_bytes();
  std::uint32_t segment_rank = 3;  // the rank is 3 of 8
  std::uint32_t reach = kReachAll;
  std::int32_t cpu = -1;
  std::optional<copy::CoreShare> core_share;  // by `cpu` unless set
};

class FakeNode {
 public:
  explicit FakeNode(FakeNodeOptions options = {});
  ~FakeNode();
  FakeNode(const FakeNode&) = delete;
  FakeNode& operator=(const FakeNode&) = delete;

  [[nodiscard]] AttachOptions attach_options(std::uint32_t timeout_ms = 40000) const;
  // Attaches, or fails the test and returns null.
  [[nodiscard]] AttachedEndpoint attach() const;

  // The service process's side. One thread at a time; not while serving.
  [[nodiscard]] std::optional<SlotIndex> take_post(std::chrono::milliseconds at_most = std::chrono::seconds(40));
  // The memory of a slot, or of an overflow record.
  [[nodiscard]] OperationSlot& place(SlotIndex slot) const;
  [[nodiscard]] SlotRequestBody body(SlotIndex slot) const { return place(slot).body; }
  void complete(SlotIndex slot, CompletionStatus status = CompletionStatus::ok, std::uint32_t late = 0);
  // Completes all posts until stop_serving(). With `sleepy` it sleeps for the doorbell in between.
  void start_serving(bool sleepy = false);
  void stop_serving();
  [[nodiscard]] std::uint64_t served() const { return served_.load(); }
  // Since the last call; not while it serves.
  [[nodiscard]] bool doorbell_was_rung() const;
  [[nodiscard]] std::uint64_t doorbells() const { return doorbells_.load(); }
  // The memory at `ref`; nullptr if it is not all in one shared region.
  [[nodiscard]] std::byte* at(LocalRef ref, std::uint64_t bytes) const;
  [[nodiscard]] SegmentHeader& header() const { return segment_.header(); }

  // The keeper's side.
  void set_fatal(const std::string& text);
  void hang_up();
  void set_accept_regions(bool accept);
  void send(ControlKind kind, std::span<const std::byte> body);
  [[nodiscard]] std::optional<HelloBody> hello() const;
  [[nodiscard]] std::size_t regions() const;
  [[nodiscard]] std::size_t regions_ever() const { return regions_ever_.load(); }
  [[nodiscard]] bool said_goodbye() const { return goodbye_.load(); }
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

 private:
  [[nodiscard]] bool anything_posted() const;
  [[nodiscard]] SlotIndex take_record();
  struct Region {
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    std::byte* mapping = nullptr;
  };

  void keep();
  void handle(ControlMessage message);
  void welcome(const HelloBody& hello);
  void add_region(const RegionBody& body, const UniqueFd& fd);
  void serve(bool sleepy);

  FakeNodeOptions options_;
  KeeperAddress address_;
  UniqueFd listener_;
  UniqueFd stop_;
  UniqueFd segment_fd_;
  UniqueFd doorbell_;
  SegmentView segment_;
  std::uint32_t head_ = 0;
  std::vector<LocalRef> records_;  // all overflow records taken; their indexes follow the slots'
  mutable std::mutex mutex_;
  ControlSocket socket_;
  std::optional<HelloBody> hello_;
  std::map<std::uint32_t, Region> regions_;
  std::uint32_t highest_region_ = 1;
  std::vector<std::string> problems_;
  std::atomic<std::size_t> regions_ever_{0};
  std::atomic<bool> goodbye_{false};
  std::atomic<bool> serving_{false};
  std::atomic<std::uint64_t> served_{0};
  std::atomic<std::uint64_t> doorbells_{0};
  std::thread keeper_;
  std::thread service_;
};

// Polls until done or the time is over.
[[nodiscard]] bool finish(RankEndpoint& client, PendingOperation& operation,
                          std::chrono::milliseconds at_most = std::chrono::seconds(60));

[[nodiscard]] std::vector<WorldRank> world(std::uint32_t size);
// A core that this process may run on.
[[nodiscard]] int allowed_cpu();

}  // namespace outrigger::client::test
