// The network of this service process: a UCX worker for each of the two channels, and one address for both.
//
// Thread rule: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabric/ucx/worker.hpp"
#include "protocol/wire/job_map.hpp"
#include "protocol/wire/message_io.hpp"

namespace outrigger::fabric::ucx {

// Two connections per pair of service processes, so that control never queues behind data.
enum class Channel : std::uint8_t { control, data };
inline constexpr std::size_t kChannels = 2;

// `Network::address()`, taken apart.
struct ChannelAddresses {
  std::vector<std::byte> control;
  std::vector<std::byte> data;
  static constexpr void fields(auto& io, auto& addresses) {
    io.list(addresses.control, kMaxWireAddressBytes);
    io.list(addresses.data, kMaxWireAddressBytes);
    io.require(!addresses.control.empty() && !addresses.data.empty());
  }
};

class Network {
 public:
  explicit Network(Context context) : context_(std::move(context)) {}
  // `control` and `data` are called from progress() only; they must outlive this, or close().
  [[nodiscard]] Status open(WorkerEvents& control, WorkerEvents& data);
  // No more callbacks after this.
  void close();

  // UCX knows only devices that existed when it was opened.
  [[nodiscard]] bool has_missed_devices() const;

  // For peers, in the job map.
  [[nodiscard]] std::vector<std::byte> address() const;

  [[nodiscard]] const Worker& control() const { return *control_; }
  [[nodiscard]] const Worker& data() const { return *data_; }
  [[nodiscard]] const Worker& worker(Channel channel) const { return channel == Channel::control ? *control_ : *data_; }
  [[nodiscard]] bool progress() const;

  // For sleeping, as in Worker.
  [[nodiscard]] std::vector<int> event_fds() const { return {control_->event_fd(), data_->event_fd()}; }
  [[nodiscard]] bool arm() const { return control_->arm() && data_->arm(); }

  // Starts to send what is still in UCX's own buffers.
  void flush();
  [[nodiscard]] bool flushed() const { return flushes_ == 0; }

 private:
  static void on_flushed(void* request, ucs_status_t status, void* network);

  std::size_t flushes_ = 0;
  Context context_;
  std::vector<std::string> devices_;  // when it was opened
  std::optional<Worker> control_;
  std::optional<Worker> data_;
};

}  // namespace outrigger::fabric::ucx
