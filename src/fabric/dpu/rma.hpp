// Reads and writes other processes' memory by UCX, with a callback at the end.
//
// Only deliver() runs callbacks, never the call that started the operation.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>

#include "fabric/ucx/worker.hpp"
#include "protocol/shared/link_counts.hpp"

namespace outrigger::fabric::dpu {

class Rma {
 public:
  using Done = std::function<void(bool ok)>;

  Rma() = default;
  Rma(const Rma&) = delete;
  Rma& operator=(const Rma&) = delete;

  // From now on counts bytes written (sent) and read there; `counts` must stay. nullptr: does not count.
  void count_in(LinkCounts* counts) { counts_ = counts; }

  // `to` must stay until `done`.
  void get(ucp_ep_h from, std::uint64_t address, ucp_rkey_h key, std::span<std::byte> to, Done done);
  // The same into memory that another process has exported: `to` is an address in that process. The write is not
  // ordered with puts to that process.
  void get_into(ucp_ep_h from, std::uint64_t address, ucp_rkey_h key, ucp_mem_h memory, std::uint64_t to,
                std::uint64_t bytes, Done done);
  // `done`: `from` may be reused. The bytes are in place after a flush() that begins then.
  void put(ucp_ep_h to, std::uint64_t address, ucp_rkey_h key, std::span<const std::byte> from, Done done);
  // `done`: all earlier puts are in place.
  void flush(ucp_ep_h endpoint, Done done);
  // Runs in the next deliver().
  void later(std::function<void()> call) { later_.push_back(std::move(call)); }

  // False if nothing had ended.
  bool deliver();
  // Before closing: drops callbacks of ended operations, and later all others.
  void forget_ended() { later_.clear(); }
  void forget_all() {
    later_.clear();
    under_way_.clear();
  }

 private:
  struct Operation {
    Rma* rma;
    Done done;
  };
  [[nodiscard]] ucp_request_param_t begin(Done done);
  void begun(ucs_status_ptr_t request, Operation* operation);
  void ended(Operation* operation, ucs_status_t status);
  static void on_ended(void* request, ucs_status_t status, void* operation);

  std::unordered_map<Operation*, std::unique_ptr<Operation>> under_way_;
  std::deque<std::function<void()>> later_;
  LinkCounts* counts_ = nullptr;
};

}  // namespace outrigger::fabric::dpu
