// UCX with ownership: a context, a worker with its address, and the endpoints made from it.
//
// Thread rule: one thread. UCX's own settings (UCX_*) apply, except that shared-memory transports are left out: the
// wire connects different nodes.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace outrigger::fabric::ucx {

[[nodiscard]] Error ucx_error(const std::string& what, ucs_status_t status);

class Context {
 public:
  // `transports`: as UCX_TLS; empty: all but shared memory.
  [[nodiscard]] static Result<Context> open(const std::string& transports);
  // For access to other processes' memory. `transports`: as UCX_TLS; empty: UCX's own settings. `imports`: the network
  // can also write into memory that others have exported. Only for machines that support it: elsewhere such a context
  // connects to no peer.
  [[nodiscard]] static Result<Context> open_for_memory(const std::string& transports, bool imports = false);
  Context(Context&& other) noexcept;
  Context& operator=(Context&& other) = delete;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();
  [[nodiscard]] ucp_context_h get() const { return context_; }

 private:
  explicit Context(ucp_context_h context) : context_(context) {}
  ucp_context_h context_;
};

// UCX's callbacks, called from Worker::progress() only.
class WorkerEvents {
 public:
  // A message; `data` is valid during the call only. With `rendezvous` it has not come yet: return UCS_INPROGRESS and
  // pass `data` to Worker::receive() once, at any time.
  [[nodiscard]] virtual ucs_status_t arrived(std::span<const std::byte> header, void* data, std::size_t bytes,
                                             bool rendezvous) = 0;

  // Called before arrived() if the sender wants an answer: use this endpoint, which UCX owns.
  virtual void came_from(ucp_ep_h /*sender*/) {}

 protected:
  ~WorkerEvents() = default;
};

// The active message id of the wire; headers distinguish messages.
inline constexpr unsigned kMessageId = 1;

class Worker {
 public:
  // `events` is called for active messages; it must outlive the worker.
  [[nodiscard]] static Result<Worker> open(const Context& context, WorkerEvents& events,
                                           unsigned message_id = kMessageId);
  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&& other) = delete;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  [[nodiscard]] ucp_worker_h get() const { return worker_; }
  [[nodiscard]] const std::vector<std::byte>& address() const { return address_; }
  // Readable when something has happened since arm().
  [[nodiscard]] int event_fd() const { return event_fd_; }
  // False: something has happened already; call progress() first.
  [[nodiscard]] bool arm() const;
  [[nodiscard]] bool progress() const { return ucp_worker_progress(worker_) != 0; }

 private:
  explicit Worker(ucp_worker_h worker) : worker_(worker) {}
  ucp_worker_h worker_;
  std::vector<std::byte> address_;
  int event_fd_ = -1;
};

// Transports of a connection, each as transport/device.
struct Lanes {
  std::vector<std::string> memory;    // by which the network moves memory (RDMA); empty: processors copy
  std::vector<std::string> messages;  // for messages
};

// Parses UCX's text about an endpoint.
[[nodiscard]] Lanes lanes_in(std::string_view printed);

class Endpoint {
 public:
  Endpoint() = default;
  // `broken` becomes true, at some later time, when the peer is unreachable. UCX does not watch processes of the same
  // machine: no transport there both moves memory and reports failures.
  enum class Peer { watched, same_machine };
  [[nodiscard]] static Result<Endpoint> open(const Worker& worker, std::span<const std::byte> address, bool& broken,
                                             Peer peer = Peer::watched);
  Endpoint(Endpoint&& other) noexcept;
  Endpoint& operator=(Endpoint&& other) noexcept;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint();
  [[nodiscard]] ucp_ep_h get() const { return endpoint_; }
  [[nodiscard]] Lanes lanes() const;

 private:
  explicit Endpoint(const Worker& worker) : worker_(worker.get()) {}
  void close();
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
};

}  // namespace outrigger::fabric::ucx
