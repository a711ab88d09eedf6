// A peer of a wire that does by hand what it does, as it should or not.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fabric/ucx/network.hpp"
#include "fabric/ucx/worker.hpp"
#include "proof/handshake.hpp"
#include "wires.hpp"

namespace outrigger::testing {

// A service process in the job map that speaks UCX by hand. It receives headers, and never accepts a rendezvous.
class RawPeer final : private fabric::ucx::WorkerEvents {
 public:
  RawPeer() {
    auto context = fabric::ucx::Context::open(transports());
    EXPECT_TRUE(context) << context.error();
    context_.emplace(std::move(context).value());
    for (auto* place : {&worker_, &data_worker_}) {
      auto worker = fabric::ucx::Worker::open(*context_, *this);
      EXPECT_TRUE(worker) << worker.error();
      place->emplace(std::move(worker).value());
    }
  }
  // As a wire's.
  [[nodiscard]] std::vector<std::byte> address() const {
    return encoded(fabric::ucx::ChannelAddresses{worker_->address(), data_worker_->address()});
  }
  void connect(const std::vector<std::byte>& address) {
    const auto both = decoded<fabric::ucx::ChannelAddresses>(address);
    ASSERT_TRUE(both);
    open(*worker_, control_, both->control);
    open(*data_worker_, data_, both->data);
  }
  // One of its connections has been.
  [[nodiscard]] bool broken() const { return broken_; }
  enum class Channel { control, data };
  void send(Channel channel, std::span<const std::byte> header, std::span<const std::byte> data = {},
            bool rendezvous = false) {
    const fabric::ucx::Endpoint& endpoint = channel == Channel::control ? control_ : data_;
    kept_.emplace_back(header.begin(), header.end());
    const auto& kept_header = kept_.back();
    kept_.emplace_back(data.begin(), data.end());
    const auto& kept_data = kept_.back();
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = rendezvous ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
    const ucs_status_ptr_t request =
        ucp_am_send_nbx(endpoint.get(), fabric::ucx::kMessageId, kept_header.data(), kept_header.size(),
                        kept_data.data(), kept_data.size(), &parameters);
    ASSERT_FALSE(UCS_PTR_IS_ERR(request)) << ucs_status_string(UCS_PTR_STATUS(request));
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  }
  void progress() {
    (void)worker_->progress();
    if (data_worker_) (void)data_worker_->progress();
  }
  void drop_data_line() {
    data_ = {};
    data_worker_.reset();
  }
  [[nodiscard]] std::size_t count(wire::Kind kind) const {
    return static_cast<std::size_t>(std::ranges::count(headers, kind, &wire::Header::kind));
  }

  // That have come.
  std::vector<wire::Header> headers;
  std::vector<wire::Token> tokens;
  std::deque<proof::HandshakeMessage> handshakes;

 private:
  void open(const fabric::ucx::Worker& worker, fabric::ucx::Endpoint& endpoint, std::span<const std::byte> address) {
    auto opened = fabric::ucx::Endpoint::open(worker, address, broken_);
    ASSERT_TRUE(opened) << opened.error();
    endpoint = std::move(opened).value();
  }
  ucs_status_t arrived(std::span<const std::byte> header, void* data, std::size_t bytes, bool /*rendezvous*/) override {
    if (proof::looks_like_handshake(header)) {
      const auto handshake = decoded<proof::HandshakeMessage>(header);
      EXPECT_TRUE(handshake);
      if (handshake) handshakes.push_back(*handshake);
      return UCS_OK;
    }
    const auto shown = decoded<wire::Shown>(header);
    EXPECT_TRUE(shown);
    if (shown) tokens.push_back(shown->token);
    if (shown && shown->header.kind == wire::Kind::batch) {
      std::span<const std::byte> rest(static_cast<const std::byte*>(data), bytes);
      while (const auto framed = take_first<wire::Framed>(rest)) headers.push_back(framed->header);
      EXPECT_TRUE(rest.empty());
    } else if (shown) {
      headers.push_back(shown->header);
    }
    return UCS_OK;
  }

  std::deque<std::vector<std::byte>> kept_;
  bool broken_ = false;
  std::optional<fabric::ucx::Context> context_;
  std::optional<fabric::ucx::Worker> worker_;
  std::optional<fabric::ucx::Worker> data_worker_;
  fabric::ucx::Endpoint control_;
  fabric::ucx::Endpoint data_;
};

// Wire 0, and service process 1 by hand.
class RawPeers : public Wires {
 protected:
  void SetUp() override { start_raw({}); }
  void start_raw(const fabric::ucx::WireOptions& options) {
    start_unknown(options);
    shake_hands();
    wire(0).tick(false);  // what it has heard is of the past
  }
  [[nodiscard]] virtual std::vector<std::byte> called() const { return addresses_[0]; }
  // It is in the job map and has not completed a handshake.
  void start_unknown(const fabric::ucx::WireOptions& options) {
    settle();
    raw_.reset();
    wires_.clear();
    memories_.clear();
    addresses_.clear();
    open(1, options);
    raw_.emplace();
    addresses_.push_back(raw_->address());
    introduce();
    raw_->connect(called());
    job_ = proof::identity_of(job_map_, {});
    handshake_ = proof::Handshake(job_, SpId{1}, SpId{0});
    answers_handshakes_ = false;
  }
  void shake_hands() {
    answers_handshakes_ = true;
    send_handshake(handshake_.call().value());
    ASSERT_TRUE(run([&] { return handshake_.is_open(); }));
  }
  void send_handshake(const proof::HandshakeMessage& message) {
    said_.push_back(encoded(message));
    raw_->send(RawPeer::Channel::control, said_.back());
  }
  void progress_all() override {
    Wires::progress_all();
    if (!raw_) return;
    raw_->progress();
    while (answers_handshakes_ && !raw_->handshakes.empty()) {
      const auto reply = handshake_.receive(raw_->handshakes.front());
      raw_->handshakes.pop_front();
      if (reply) send_handshake(*reply);
    }
  }
  [[nodiscard]] wire::Header header(wire::Kind kind) const {
    wire::Header header;
    header.kind = kind;
    header.from = SpId{1};
    return header;
  }
  [[nodiscard]] std::vector<std::byte> shown(const wire::Header& header) const {
    return encoded(wire::Shown{header, handshake_.token_out()});
  }
  void say(const wire::Header& header, const std::string& data = {}) {
    raw_->send(RawPeer::Channel::control, shown(header), std::as_bytes(std::span(data)));
  }
  void say_message(std::uint64_t number, const std::string& text) {
    wire::Header message = header(wire::Kind::message);
    message.move = number;
    say(message, text);
  }
  bool run(const std::function<bool()>& done, std::chrono::milliseconds at_most = std::chrono::seconds(20)) {
    return run_until(done, at_most);
  }
  void run_a_while() {
    (void)run([] { return false; }, std::chrono::milliseconds(60));
  }
  // All that comes until a message that is right, number `number`.
  std::vector<std::string> heard_until(const std::string& last, std::uint64_t number) {
    say_message(number, last);
    std::vector<std::string> heard;
    EXPECT_TRUE(run([&] {
      for (auto& [from, text] : messages(0)) heard.push_back(std::move(text));
      return !heard.empty() && heard.back() == last;
    }));
    return heard;
  }
  // Looks until the wire says so or `turns` are over.
  std::optional<std::string> failure_within(int turns) {
    for (int i = 0; i < turns && !wire(0).failure(); ++i) {
      run_a_while();
      wire(0).tick(true);
    }
    const fabric::PortFailure* failure = wire(0).failure();
    return failure != nullptr ? std::optional(failure->reason) : std::nullopt;
  }
  std::optional<RawPeer> raw_;
  proof::JobIdentity job_;
  proof::Handshake handshake_;                // of service process 1 with wire 0
  std::vector<std::vector<std::byte>> said_;  // service process 1's handshakes, as received here
  bool answers_handshakes_ = false;
};

}  // namespace outrigger::testing
