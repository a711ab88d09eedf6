#include "service/loop/keeper_link.hpp"

#include "service/notices/log.hpp"

namespace outrigger::service {

std::optional<ControlMessage> KeeperLink::next() {
  if (ended() || closed_) return std::nullopt;
  ControlSocket::Received received = control_.receive(0);
  switch (received.event) {
    case ControlSocket::Event::nothing: break;
    case ControlSocket::Event::closed: closed_ = true; break;
    case ControlSocket::Event::malformed: fail("malformed message from the keeper: " + received.problem); break;
    case ControlSocket::Event::no_descriptors: fail("a service process has " + received.problem); break;
    case ControlSocket::Event::message:
      if (received.message->kind() != ControlKind::goodbye) return std::move(received.message);
      lose();
      break;
  }
  return std::nullopt;
}

void KeeperLink::report_fault(WorldRank rank, const std::string& reason) {
  spdlog::error("rank {}: {}", rank.value(), reason);
  tell(ControlKind::fault_report, make_fault_report(rank.value(), reason));
}

void KeeperLink::fail(const std::string& reason, std::uint32_t about) {
  if (ended()) return;
  spdlog::log(about == kBeginAnew ? spdlog::level::warn : spdlog::level::critical, "{}", reason);
  (void)control_.send(ControlKind::fault_report, make_fault_report(about, reason));
  end_ = End::failed;
  failure_ = reason;
}

}  // namespace outrigger::service
