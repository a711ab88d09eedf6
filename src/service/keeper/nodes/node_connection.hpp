// A TCP connection between the keepers of two nodes: first each proves that it knows the job's secret, without sending
// it (proof/dpu_greeting.hpp; who has called proves first), then news (protocol/wire/node_news.hpp) go either way.
//
// Nothing here blocks. Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "proof/dpu_greeting.hpp"
#include "protocol/wire/job_map.hpp"
#include "protocol/wire/node_news.hpp"

namespace outrigger::service {

// A port of the system's choice at every address of this machine, for connections that nobody has accepted yet. Port 0:
// there is none to be had.
struct NodeListener {
  UniqueFd socket;
  KeeperPlace place;
};
[[nodiscard]] NodeListener listen_for_nodes();

class NodeConnection {
 public:
  // Of somebody who has connected.
  NodeConnection(UniqueFd socket, const Secret& secret)
      : socket_(std::move(socket)), side_(proof::DpuGreeting::Side::dpu), secret_(secret) {}
  // Begins to connect.
  [[nodiscard]] static NodeConnection call(const KeeperPlace::Address& address, std::uint16_t port,
                                           const Secret& secret);

  [[nodiscard]] int fd() const { return socket_.get(); }
  // Gets on with whatever can be got on with.
  void work();
  [[nodiscard]] bool connected() const { return !connecting_ && !over(); }
  [[nodiscard]] bool greeted() const { return greeting_ && greeting_->greeted(); }
  [[nodiscard]] bool wants_to_write() const { return connecting_ || !outgoing_.empty(); }
  // Why it is of no use any more; nothing: it is.
  [[nodiscard]] const std::optional<std::string>& problem() const { return problem_; }
  [[nodiscard]] bool over() const { return problem_.has_value(); }

  // Once it is greeted().
  void send(const NodeNews& news);
  // What the other end has said.
  [[nodiscard]] std::optional<NodeNews> next();
  void end(std::string problem) { problem_ = std::move(problem); }

 private:
  [[nodiscard]] bool is_connected();
  void flush();
  void take_in();

  UniqueFd socket_;
  proof::DpuGreeting::Side side_;
  Secret secret_;
  bool connecting_ = false;
  std::optional<proof::DpuVisitor> greeting_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
  std::optional<std::string> problem_;
};

}  // namespace outrigger::service
