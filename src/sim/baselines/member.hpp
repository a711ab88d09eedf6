// One rank's part in one operation, as an algorithm sees it: ranks are the communicator's.
#pragma once

#include <cstdint>
#include <span>

#include "engine/core/scheduler.hpp"
#include "protocol/ids.hpp"
#include "sim/baselines/host.hpp"

namespace outrigger::sim::baselines {

// Data of the workload that outlive the operation.
struct Role {
  std::span<const WorldRank> members;  // of the communicator, by its ranks
  std::uint32_t me = 0;                // index in `members`
  std::uint64_t operation = 0;         // unique, and the same on all members
  // only in a v-form: bytes for the rank at this distance, round the communicator
  std::span<const std::uint64_t> by_distance;
  std::span<const GroupRank> neighbors;  // only in neighborhood collectives; symmetric
};

class Member {
 public:
  Member(Host& host, const Role& role) : host_(host), role_(role) {}

  // Each counts `done` once, when the buffer may be reused. Tags separate messages of a pair. A v-form sends no empty
  // messages.
  void send(std::uint32_t to, std::uint64_t bytes, std::uint32_t tag, engine::Countdown& done) {
    if (leaves_out(bytes)) return done.count();
    host_.send(role_.members[to].value(), bytes, tag_of(tag), done);
  }
  void receive(std::uint32_t from, std::uint64_t bytes, std::uint32_t tag, engine::Countdown& done) {
    if (leaves_out(bytes)) return done.count();
    host_.receive(role_.members[from].value(), tag_of(tag), done);
  }
  void copy(std::uint64_t bytes) { host_.copy(bytes); }      // within the rank's memory: packing
  void reduce(std::uint64_t bytes) { host_.reduce(bytes); }  // two vectors of so many bytes
  [[nodiscard]] engine::Scheduler& scheduler() { return host_.scheduler(); }
  [[nodiscard]] std::uint32_t rank() const { return role_.me; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(role_.members.size()); }
  [[nodiscard]] std::span<const GroupRank> neighbors() const { return role_.neighbors; }

  // Bytes from this rank to a peer, and back; `regular` unless the operation has its own sizes.
  [[nodiscard]] std::uint64_t bytes_to(std::uint32_t peer, std::uint64_t regular) const {
    return distance_bytes(rank(), peer, regular);
  }
  [[nodiscard]] std::uint64_t bytes_from(std::uint32_t peer, std::uint64_t regular) const {
    return distance_bytes(peer, rank(), regular);
  }

 private:
  [[nodiscard]] bool leaves_out(std::uint64_t bytes) const { return bytes == 0 && !role_.by_distance.empty(); }
  [[nodiscard]] Tag tag_of(std::uint32_t tag) const { return Tag{role_.operation, tag}; }
  [[nodiscard]] std::uint64_t distance_bytes(std::uint32_t from, std::uint32_t to, std::uint64_t regular) const {
    return role_.by_distance.empty() ? regular : role_.by_distance[(to + size() - from) % size()];
  }

  Host& host_;
  Role role_;
};

}  // namespace outrigger::sim::baselines
