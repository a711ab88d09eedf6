// The ranks of this node that have said hello and have not left, with the memory of theirs that must outlive service
// processes.
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
#include "service/keeper/ranks/door.hpp"

namespace outrigger::service {

using ServiceSet = std::bitset<kMaxServices>;

// The regions of one rank that are handed to every service process of the node, which all have to map one before the
// rank hears that it is there. Kept, so that a service process that is started again can be told of them.
class RankRegions {
 public:
  struct Region {
    UniqueFd fd;
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    ServiceSet answered;
    bool ok = true;
  };

  // Ids ascend and are never used again. Error: this one is reserved or not new, which is nonsense.
  [[nodiscard]] Status take_id(std::uint32_t region);
  // Of memory that service processes on a DPU knew before (keyed_region). Error: this is none, or not new.
  [[nodiscard]] Status take_keyed_id(std::uint32_t region) const;
  [[nodiscard]] bool has_been(std::uint32_t region) const { return region <= highest_; }
  // Error: it is not accepted.
  [[nodiscard]] Status add(const RegionBody& body, UniqueFd fd);
  // False: there is none, since it was not accepted or has been dropped.
  [[nodiscard]] bool drop(std::uint32_t region) { return regions_.erase(region) != 0; }
  // One of so many service processes has mapped it, or not. The region, once all have answered and not again.
  [[nodiscard]] const Region* answer(std::uint32_t region, std::uint32_t sp, std::uint32_t services, bool ok);
  [[nodiscard]] const std::unordered_map<std::uint32_t, Region>& all() const { return regions_; }

 private:
  std::unordered_map<std::uint32_t, Region> regions_;
  std::uint32_t highest_ = 0;
};

struct LocalRank {
  bool present = false;  // from hello until it has left
  ControlSocket socket;  // closed when it has misbehaved or ended its side
  HelloBody hello;
  pid_t pid = 0;
  UniqueFd exit_event;
  UniqueFd segment_fd;
  Mapping segment;
  RankRegions regions;
  UniqueFd trace_fd;                // for its service process, where there is to be a trace
  std::uint32_t sp = 0;             // the service process that serves it
  ServiceSet attached_by;           // those that have mapped, or reached, its memory
  std::uint32_t reach = kReachAll;  // of all of these

  // A rank that takes no messages is not waited for.
  template <class T>
  [[nodiscard]] bool tell(ControlKind kind, const T& body, std::span<const int> fds = {}) {
    return socket.send_packet(encode_control(kind, body), fds, 0);
  }
};

class LocalRanks {
 public:
  LocalRanks(Events& events, std::uint32_t world_size, std::uint32_t local_size);

  // Why this rank cannot be one of these.
  [[nodiscard]] std::optional<std::string> problem_of(const HelloBody& hello) const;
  // Only one without a problem.
  void admit(Visitor visitor);
  [[nodiscard]] Status make_segments();
  // Whatever was its is gone.
  void leave(std::uint32_t local_rank);
  // It may go on, but has nothing more to say.
  void close(std::uint32_t local_rank);

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  [[nodiscard]] std::uint32_t present() const;
  // The local rank of a rank that is present.
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint32_t world_rank) const;
  [[nodiscard]] LocalRank& operator[](std::uint32_t local_rank) { return ranks_[local_rank]; }
  // By each of so many service processes?
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
  std::unordered_map<std::uint32_t, std::uint32_t> local_of_world_;
};

}  // namespace outrigger::service
