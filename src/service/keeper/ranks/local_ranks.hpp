// The ranks of this node between hello and their end, with their memory that must outlive service processes.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "base/shared_memory.hpp"
#include "base/unique_fd.hpp"
#include "protocol/wire/control.hpp"
#include "service/keeper/events.hpp"
#include "service/keeper/ranks/rank_listener.hpp"

namespace outrigger::service {

using ServiceSet = std::bitset<kMaxServices>;

// The regions of one rank. Every service process of the node must map a region before the rank is told that it is
// ready. They are kept for service processes that are started again.
class RankRegions {
 public:
  struct Region {
    UniqueFd fd;
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    ServiceSet answered;
    bool ok = true;
  };

  // Ids ascend and are never reused. Error: this one is reserved or not new.
  [[nodiscard]] Status take_id(std::uint32_t region);
  // For memory that service processes on a DPU knew before (keyed_region). Error: no such id, or not new.
  [[nodiscard]] Status take_keyed_id(std::uint32_t region) const;
  [[nodiscard]] bool has_been(std::uint32_t region) const { return region <= highest_; }
  [[nodiscard]] Status add(const RegionBody& body, UniqueFd fd);
  // False: it was not accepted, or has been dropped.
  [[nodiscard]] bool drop(std::uint32_t region) { return regions_.erase(region) != 0; }
  // Service process `sp` has mapped the region, or failed. Returns the region when the last of them has answered.
  [[nodiscard]] const Region* answer(std::uint32_t region, std::uint32_t sp, std::uint32_t services, bool ok);
  [[nodiscard]] const std::unordered_map<std::uint32_t, Region>& all() const { return regions_; }

 private:
  std::unordered_map<std::uint32_t, Region> regions_;
  std::uint32_t highest_ = 0;
};

struct LocalRank {
  bool present = false;  // from hello until it has left
  ControlSocket socket;  // closed when it has misbehaved or closed its side
  HelloBody hello;
  pid_t pid = 0;
  UniqueFd exit_event;
  UniqueFd segment_fd;
  Mapping segment;
  RankRegions regions;
  UniqueFd trace_fd;                // for its service process, if there is a trace
  std::uint32_t sp = 0;             // the service process that serves it
  ServiceSet attached_by;           // those that have mapped, or reached, its memory
  std::uint32_t reach = kReachAll;  // common to all of these

  // A rank whose socket is full is not waited for.
  template <class T>
  [[nodiscard]] bool tell(ControlKind kind, const T& body, std::span<const int> fds = {}) {
    return socket.send_packet(encode_control(kind, body), fds, 0);
  }
};

class LocalRanks {
 public:
  LocalRanks(Events& events, std::uint32_t world_size, std::uint32_t local_size);

  // Why this rank cannot be admitted; nullopt: it can.
  [[nodiscard]] std::optional<std::string> problem_of(const HelloBody& hello) const;
  // Only if problem_of() returned nullopt.
  void admit(NewRank new_rank);
  [[nodiscard]] Status make_segments();
  // Releases everything of the rank, and notes it in left().
  void leave(std::uint32_t local_rank);
  // The rank may continue, but its messages are not read any more.
  void close(std::uint32_t local_rank);

  // For service processes that start later.
  [[nodiscard]] const std::vector<RankLeftBody>& left() const { return left_; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  [[nodiscard]] std::uint32_t present() const;
  // The local rank of a present rank.
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint32_t world_rank) const;
  [[nodiscard]] LocalRank& operator[](std::uint32_t local_rank) { return ranks_[local_rank]; }
  // True if every service process has attached every rank.
  [[nodiscard]] bool all_attached_by(std::uint32_t services) const {
    return std::ranges::all_of(ranks_, [=](const LocalRank& rank) { return rank.attached_by.count() == services; });
  }
  [[nodiscard]] auto begin() { return ranks_.begin(); }
  [[nodiscard]] auto end() { return ranks_.end(); }
  [[nodiscard]] auto begin() const { return ranks_.begin(); }
  [[nodiscard]] auto end() const { return ranks_.end(); }

 private:
  Events& events_;
  std::uint32_t world_size_;
  std::vector<LocalRank> ranks_;
  std::vector<RankLeftBody> left_;
  std::unordered_map<std::uint32_t, std::uint32_t> local_of_world_;
};

}  // namespace outrigger::service
