// This rank's end of the network to the service processes on its DPU. They read and write its memory by themselves; the
// rank lets its network work only while it is wired up in attach(), when a sleeping service process is rung, and while
// another service process would like to connect (call_listener.hpp).
//
// Thread rule: the owner locks.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "client/memory/registration_cache.hpp"
#include "client/network/ucx_library.hpp"
#include "protocol/wire/rank_address.hpp"
#include "protocol/wire/rank_message.hpp"

namespace outrigger::client {

class RankNetwork final : public Registrar {
 public:
  // Registers the segment. `transports`: as UCX_TLS; empty: what UCX's own settings name. `offers_exports`: exported
  // handles go with the keys, where UCX and the network have them.
  [[nodiscard]] static Result<std::unique_ptr<RankNetwork>> open(SegmentView segment, const std::string& transports,
                                                                 bool offers_exports);
  ~RankNetwork() override;

  // For the service processes.
  [[nodiscard]] const RankAddress& address() const { return address_; }
  void progress();
  // Wakes a service process, by the number of its process. Nothing where it is not connected: it is awake then.
  void ring(std::uint32_t process);
  // Before the memory that service processes look at goes away: until the one that serves this rank has said that they
  // do so no more, or the job ends, or a second has passed.
  void leave(SegmentHeader& header);
  // There are rings that the network has not taken yet, or another service process would like to connect.
  [[nodiscard]] bool has_work(const SegmentHeader& header) const {
    if (!open()) return false;
    return ringing_ != 0 || (header.dpu_calls.load(std::memory_order_acquire) & kDpuCalls) != 0;
  }
  // The DPU is lost. What it may still have under way finds nothing here any more. Once everything is removed.
  void shut(const SegmentHeader& header);
  // Any thread.
  [[nodiscard]] bool open() const { return !shut_.load(std::memory_order_acquire); }
  // Memory that the program gives back, as far as it can be known; null: it cannot.
  [[nodiscard]] UnmappedRanges* unmapped();
  // Leaves UCX as it is, for good: in a forked child, where nothing here is its own, and where closing is not safe.
  void abandon();

  [[nodiscard]] void* add(std::uint64_t base, std::uint64_t bytes, KeyEntry& entry) override;
  void remove(void* registration) override;

 private:
  explicit RankNetwork(const UcxLibrary& ucx) : ucx_(ucx) {}
  [[nodiscard]] Status start(SegmentView segment, const std::string& transports);
  // Whether memory can be exported is tried once, on memory on which service processes then try to import it.
  void try_exports();
  static ucs_status_t greeted(void* network, const void* header, std::size_t header_bytes, void* data,
                              std::size_t bytes, const ucp_am_recv_param_t* parameters);
  void close();
  static void rung(void* request, ucs_status_t status, void* network);
  void send(ucp_ep_h to, const RankMessage& message);

  const UcxLibrary& ucx_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_mem_h segment_memory_ = nullptr;
  bool exports_ = false;
  struct Unmap {
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Unmap> trial_;
  ucp_mem_h trial_memory_ = nullptr;
  std::unordered_map<std::uint32_t, ucp_ep_h> bells_;  // UCX's, by number of the process
  struct Answer {
    ucp_ep_h to;
    RankMessage message;
  };
  std::deque<Answer> answers_;  // UCX may look at a header until it is sent: kept
  std::size_t answers_sent_ = 0;
  std::uint32_t ringing_ = 0;
  RankAddress address_;
  bool watches_ = false;
  bool stays_open_ = false;
  std::atomic<bool> shut_{false};
};

}  // namespace outrigger::client
