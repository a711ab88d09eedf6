// A TCP connection between the keepers of two nodes. First each proves that it knows the job's secret without sending
// it (proof/dpu_handshake.hpp; the caller proves first), then messages (protocol/wire/node_news.hpp) go both ways.
//
// Nothing here blocks. Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "proof/dpu_handshake.hpp"
#include "protocol/wire/job_map.hpp"
#include "protocol/wire/node_news.hpp"

namespace outrigger::service {

// A port chosen by the system on every address of this machine. Port 0: there is none.
struct NodeListener {
  UniqueFd socket;
  KeeperPlace place;
};
[[nodiscard]] NodeListener listen_for_nodes();

class NodeConnection {
 public:
  // An accepted connection.
  NodeConnection(UniqueFd socket, const Secret& secret)
      : socket_(std::move(socket)), side_(proof::DpuHandshake::Side::dpu), secret_(secret) {}
  [[nodiscard]] static NodeConnection call(const KeeperPlace::Address& address, std::uint16_t port,
                                           const Secret& secret);

  [[nodiscard]] int fd() const { return socket_.get(); }
  // Does everything that is possible without blocking.
  void work();
  [[nodiscard]] bool connected() const { return !connecting_ && !over(); }
  [[nodiscard]] bool ready() const { return handshake_ && handshake_->done(); }
  [[nodiscard]] bool wants_to_write() const { return connecting_ || !outgoing_.empty(); }
  // Why the connection has failed; nullopt: it works.
  [[nodiscard]] const std::optional<std::string>& problem() const { return problem_; }
  [[nodiscard]] bool over() const { return problem_.has_value(); }

  // Needs ready().
  void send(const NodeNews& news);
  // The next message of the other end.
  [[nodiscard]] std::optional<NodeNews> next();
  void end(std::string problem) { problem_ = std::move(problem); }

 private:
  [[nodiscard]] bool is_connected();
  void flush();
  void take_in();

  UniqueFd socket_;
  proof::DpuHandshake::Side side_;
  Secret secret_;
  bool connecting_ = false;
  std::optional<proof::DpuHandshakeSocket> handshake_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
  std::optional<std::string> problem_;
};

}  // namespace outrigger::service
