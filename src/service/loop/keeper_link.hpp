// The connection to the keeper, and how a service process ends.
//
// Thread rule: one thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/unique_fd.hpp"
#include "protocol/wire/control.hpp"
#include "service/notices/fault_report.hpp"

namespace outrigger::service {

class KeeperLink {
 public:
  // `control`: this end of the socket pair to the keeper.
  explicit KeeperLink(UniqueFd control) : control_(std::move(control)) {}

  [[nodiscard]] int fd() const { return control_.fd(); }
  // The next message; nullopt: none now, or the service process has ended.
  [[nodiscard]] std::optional<ControlMessage> next();
  template <class T>
  void tell(ControlKind kind, const T& body, std::span<const int> fds = {}) {
    if (!closed_ && !control_.send(kind, body, fds)) closed_ = true;
  }
  // Reports that the rank has broken the protocol.
  void report_fault(WorldRank rank, const std::string& reason);
  // Reports that this process cannot continue, or (kOtherNode) the job cannot, or (kBeginAnew) a replacement can; ends
  // it.
  void fail(const std::string& reason, std::uint32_t about = kWholeJob);

  // The keeper has died, or does not read any more. Work that needs the keeper fails then.
  [[nodiscard]] bool closed() const { return closed_; }
  void lose() {
    if (!ended()) end_ = End::keeper_lost;
  }

  [[nodiscard]] bool ended() const { return end_ != End::not_yet; }
  // The keeper has closed the connection or died: the normal end of a job.
  [[nodiscard]] bool lost() const { return end_ == End::keeper_lost; }
  [[nodiscard]] bool failed() const { return end_ == End::failed; }
  // The reason.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  enum class End { not_yet, keeper_lost, failed };

  ControlSocket control_;
  End end_ = End::not_yet;
  bool closed_ = false;
  std::string failure_;
};

}  // namespace outrigger::service
