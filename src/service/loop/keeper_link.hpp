// The keeper: what it says and is told, and how a service process ends.
//
// Thread rule: one thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/unique_fd.hpp"
#include "protocol/control.hpp"
#include "service/job_protest.hpp"

namespace outrigger::service {

class KeeperLink {
 public:
  // `control`: this end of the socket pair to the keeper.
  explicit KeeperLink(UniqueFd control) : control_(std::move(control)) {}

  [[nodiscard]] int fd() const { return control_.fd(); }
  // Nothing: it has said no more, or the service process has ended.
  [[nodiscard]] std::optional<ControlMessage> next();
  template <class T>
  void tell(ControlKind kind, const T& body, std::span<const int> fds = {}) {
    if (!control_.send(kind, body, fds)) lose();
  }
  // The rank has done what it must not.
  void protest(WorldRank rank, const std::string& reason);
  // This process cannot go on, or (kOtherNode) the job cannot. Ends it.
  void fail(const std::string& reason, std::uint32_t about = kWholeJob);

  [[nodiscard]] bool ended() const { return end_ != End::not_yet; }
  // The keeper is gone: as at the end of each job.
  [[nodiscard]] bool lost() const { return end_ == End::keeper_lost; }
  [[nodiscard]] bool failed() const { return end_ == End::failed; }

 private:
  enum class End { not_yet, keeper_lost, failed };

  void lose() {
    if (!ended()) end_ = End::keeper_lost;
  }

  ControlSocket control_;
  End end_ = End::not_yet;
};

}  // namespace outrigger::service
