#include "service/dpu/host/dpu_call.hpp"

#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "proof/dpu_handshake.hpp"

namespace outrigger::service {
namespace {

using Clock = DpuLink::Clock;
constexpr std::chrono::milliseconds kBetweenLooks{2};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<DpuReady> wait_until_ready(DpuLink& link, Clock::time_point deadline) {
  while (Clock::now() < deadline) {
    link.work(Clock::now());
    const std::optional<DpuFrame> frame = link.next();
    if (!frame && !link.open()) return Error{link.problem()};
    if (!frame) std::this_thread::sleep_for(kBetweenLooks);
    if (frame && frame->kind == DpuFrameKind::failed) return Error{text_of(frame->packet)};
    if (!frame || frame->kind != DpuFrameKind::ready) continue;
    std::optional<DpuReady> ready = decoded<DpuReady>(frame->packet);
    if (!ready || ready->services == 0 || ready->services > kMaxServices) break;
    ready->name.back() = '\0';
    return *ready;
  }
  return Error{"it did not start its service processes in time"};
}

}  // namespace

Result<CalledDpu> call_dpu(const std::string& address, const Secret& secret, const DpuJob& job,
                           Clock::time_point deadline) {
  Result<DpuLink> connected = DpuLink::connect(address, deadline);
  if (!connected) return Error{connected.error()};
  DpuLink link = std::move(connected).value();
  const auto host = proof::DpuHandshake::Side::host;
  if (Status status = proof::run_dpu_handshake(link.fd(), host, secret, deadline); !status)
    return Error{status.error()};
  link.allow_silence(std::chrono::milliseconds(job.attach_limit_ms));
  link.send(DpuFrameKind::job, 0, encoded(job));
  const Result<DpuReady> ready = wait_until_ready(link, deadline);
  if (!ready) return Error{ready.error()};
  return CalledDpu{std::move(link), ready.value().services, ready.value().name.data()};
}

}  // namespace outrigger::service
