// This rank's end of the network to the service processes on its DPU. They access its memory without help. The rank
// drives its network only during attach(), when it wakes a sleeping service process, and while another service process
// wants to connect (call_listener.hpp).
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
  // Registers the segment. `transports`: as UCX_TLS; empty: UCX's own settings. `offers_exports`: adds exported handles
  // to the keys if UCX and the network have them.
  [[nodiscard]] static Result<std::unique_ptr<RankNetwork>> open(SegmentView segment, const std::string& transports,
                                                                 bool offers_exports);
  ~RankNetwork() override;

  // For the service processes.
  [[nodiscard]] const RankAddress& address() const { return address_; }
  void progress();
  // Wakes a service process, by its number. Does nothing if it is not connected: it is awake then.
  void ring(std::uint32_t process);
  // Call it before memory that service processes read goes away. Waits until this rank's process has stopped, the job
  // ends, or a second has passed.
  void leave(SegmentHeader& header);
  // The network has unsent rings, or another service process wants to connect.
  [[nodiscard]] bool has_work(const SegmentHeader& header) const {
    if (!open()) return false;
    return ringing_ != 0 || (header.dpu_calls.load(std::memory_order_acquire) & kDpuCalls) != 0;
  }
  // The DPU is lost: its late accesses reach nothing here. Call it after everything is deregistered.
  void shut(const SegmentHeader& header);
  // Any thread.
  [[nodiscard]] bool open() const { return !shut_.load(std::memory_order_acquire); }
  // Memory that the program frees, as far as UCX reports it; nullptr: it does not.
  [[nodiscard]] UnmappedRanges* unmapped();
  // Leaves UCX as it is for good: in a forked child, and if closing is not safe.
  void abandon();

  [[nodiscard]] void* add(std::uint64_t base, std::uint64_t bytes, KeyEntry& entry) override;
  void remove(void* registration) override;

 private:
  explicit RankNetwork(const UcxLibrary& ucx) : ucx_(ucx) {}
  [[nodiscard]] Status start(SegmentView segment, const std::string& transports);
  // Tries once if memory can be exported, on memory that service processes then try to import.
  void try_exports();
  static ucs_status_t hello_received(void* network, const void* header, std::size_t header_bytes, void* data,
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
  std::deque<Answer> answers_;  // kept: UCX may read a header until it is sent
  std::size_t answers_sent_ = 0;
  std::uint32_t ringing_ = 0;
  RankAddress address_;
  bool watches_ = false;
  bool stays_open_ = false;
  std::atomic<bool> shut_{false};
};

}  // namespace outrigger::client
