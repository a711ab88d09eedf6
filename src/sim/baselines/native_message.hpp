// One message between two ranks' MPIs, from the send to completion at both ends.
#pragma once

#include <cstdint>

#include "engine/core/scheduler.hpp"
#include "sim/baselines/host.hpp"
#include "sim/model/model_network.hpp"

namespace outrigger::sim::baselines {

class Message final : public model::Receiver {
 public:
  explicit Message(Hosts& hosts) : hosts_(hosts) {}

  // Within a turn of the source.
  void send(Host& source, Host& target, std::uint64_t bytes, const Tag& tag, engine::Countdown& done);
  // The target has the message and a receive for it. Within a turn of the target.
  void matched(engine::Countdown& done);
  // A core at one end has carried a piece of it.
  void carried(bool out, std::uint64_t bytes);
  // This many bytes are on the network now.
  void set_out(std::uint64_t bytes);
  void chunk_arrived(std::uint64_t bytes, bool last) override;

  [[nodiscard]] const Host& source() const { return *source_; }
  [[nodiscard]] const Tag& tag() const { return tag_; }

 private:
  [[nodiscard]] bool within_node() const;
  [[nodiscard]] bool by_processors() const;
  [[nodiscard]] model::Route way() const;
  void announce();
  // The MPI of `to` sees it after the signal has arrived, at its next look.
  void signal(Host& from, Host& to, void (Message::*seen)());
  void seen_by_target();
  void asked_for();
  void source_done();
  void received();
  void end_of_one();

  Hosts& hosts_;
  Host* source_ = nullptr;
  Host* target_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t carried_in_ = 0;
  std::uint64_t carried_out_ = 0;
  Tag tag_;
  bool eager_ = false;
  std::uint32_t ends_left_ = 0;
  engine::Countdown* send_done_ = nullptr;
  engine::Countdown* receive_done_ = nullptr;
};

}  // namespace outrigger::sim::baselines
