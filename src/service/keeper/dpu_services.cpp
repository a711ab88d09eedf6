#include "service/keeper/dpu_services.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/shared_memory.hpp"
#include "proof/dpu_greeting.hpp"
#include "protocol/rank_address.hpp"
#include "service/dpu/dpu_control.hpp"
#include "service/job_protest.hpp"
#include "service/log.hpp"
#include "service/transports.hpp"

namespace outrigger::service {
namespace {

// Of the time that ranks wait for their service processes: for the connection, the greeting and the start of these; and
// then for reaching the ranks' memory.
constexpr double kCallShare = 0.3;
constexpr double kAttachShare = 0.2;
constexpr std::chrono::milliseconds kBetweenLooks{2};
constexpr std::chrono::milliseconds kLookAtDpu{500};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

DpuServices::DpuServices(const KeeperConfig& config, LocalRanks& ranks, Events& events)
    : Services(config, ranks, events), wired_(config.local_size) {}

std::string DpuServices::name() const {
  return host_.empty() ? "DPU " + config_.dpu : "DPU " + host_ + " (" + config_.dpu + ")";
}

std::chrono::milliseconds DpuServices::call_limit() const {
  return std::chrono::milliseconds(static_cast<std::int64_t>(config_.init_timeout_ms * kCallShare));
}

std::chrono::milliseconds DpuServices::attach_limit() const {
  return std::chrono::milliseconds(static_cast<std::int64_t>(config_.init_timeout_ms * kAttachShare));
}

Status DpuServices::start() {
  if (const std::size_t length = allowed_transports().size(); length >= kTransportsBytes) {
    return Error{
        fmt::format("OUTRIGGER_UCX_TLS has {} characters, of which {} reach a DPU; name fewer, or set it there", length,
                    kTransportsBytes - 1)};
  }
  if (const Status called = call(); !called) return Error{name() + ": " + called.error()};
  // Neighbours share a service process.
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].sp = rank * count() / ranks_.size();
  for (std::uint32_t sp = 0; sp < count(); ++sp) {
    ConfigureBody body = configuration(sp);
    body.elsewhere = 1;
    body.attach_limit_ms = static_cast<std::uint32_t>(attach_limit().count());
    send(sp, encode_control(ControlKind::configure, body), {});
  }
  events_.watch(link_.fd(), {Source::dpu_link, 0});
  return offer_segments();
}

// Nobody has been served yet: the keeper has time to wait.
Status DpuServices::call() {
  const Clock::time_point deadline = Clock::now() + call_limit();
  Result<DpuLink> link = DpuLink::connect(config_.dpu, deadline);
  if (!link) return Error{link.error()};
  link_ = std::move(link).value();
  const auto host = proof::DpuGreeting::Side::host;
  if (Status greeted = proof::greet_dpu(link_.fd(), host, config_.dpu_secret, deadline); !greeted) return greeted;
  link_.allow_silence(attach_limit());
  const DpuJob job{config_.local_size, config_.services, static_cast<std::uint32_t>(attach_limit().count())};
  link_.send(DpuFrameKind::job, 0, std::as_bytes(std::span(&job, 1)));
  return wait_until_ready(deadline);
}

Status DpuServices::wait_until_ready(Clock::time_point deadline) {
  while (Clock::now() < deadline) {
    link_.work(Clock::now());
    const std::optional<DpuFrame> frame = link_.next();
    if (!frame && !link_.open()) return Error{link_.problem()};
    if (!frame) std::this_thread::sleep_for(kBetweenLooks);
    if (frame && frame->kind == DpuFrameKind::failed) return Error{text_of(frame->packet)};
    if (!frame || frame->kind != DpuFrameKind::ready) continue;
    std::optional<DpuReady> ready = dpu_packet_as<DpuReady>(*frame);
    if (!ready || ready->services == 0 || ready->services > kMaxServices) break;
    ready->name.back() = '\0';
    host_ = ready->name.data();
    places_.assign(ready->services, ServicePlace{-1, copy::CoreShare::own});
    spdlog::info("{}: {} service process(es)", name(), count());
    return Done{};
  }
  return Error{"it did not start its service processes in time"};
}

Status DpuServices::offer_segments() {
  if (Status made = ranks_.make_segments(); !made) return made;
  for (LocalRank& rank : ranks_) {
    const int fd = rank.segment_fd.get();
    if (!rank.tell(ControlKind::segment_offer, RankBody{rank.hello.world_rank, 0}, std::span(&fd, 1))) {
      return Error{"rank " + std::to_string(rank.hello.world_rank) + " takes no messages"};
    }
  }
  return Done{};
}

Status DpuServices::pass_rank_address(const LocalRank& rank, const SharedBytesBody& body, const UniqueFd& fd) {
  const Result<std::vector<std::byte>> bytes = read_shared_bytes(fd.get(), body.bytes, kMaxRankAddressBytes);
  if (!bytes) return Error{bytes.error()};
  const int shared = fd.get();
  tell_all(ControlKind::rank_remote, RankRemoteBody{rank.hello.world_rank, rank.sp, bytes.value().size()},
           std::span(&shared, 1));
  return Done{};
}

// Once all are connected to all ranks, these have to leave their networks alone.
void DpuServices::rank_wired(std::uint32_t sp, const RankWiredBody& body) {
  const auto local_rank = ranks_.find(body.world_rank);
  if (attached_ || !local_rank) return;
  if (body.ok == 0) {
    std::array<char, kReasonBytes> reason = body.reason;
    reason.back() = '\0';
    return fail(fmt::format("{} does not reach rank {}: {}", name(), body.world_rank, reason.data()));
  }
  wired_[*local_rank].set(sp);
  if (!std::ranges::all_of(wired_, [this](const ServiceSet& wired) { return wired.count() == count(); })) return;
  for (LocalRank& rank : ranks_) {
    if (rank.tell(ControlKind::be_quiet, RankBody{rank.hello.world_rank, 0})) continue;
    return fail("rank " + std::to_string(rank.hello.world_rank) + " takes no messages");
  }
}

void DpuServices::attached() {
  attached_ = true;
  link_.allow_silence(kDpuSilence);
}

std::vector<ServiceMessage> DpuServices::receive(const Event&) {
  std::vector<ServiceMessage> messages;
  if (link_.open()) {
    const Clock::time_point now = Clock::now();
    link_.work(now);
    while (const std::optional<DpuFrame> frame = link_.next()) take(*frame, messages);
    link_.tick(now);
  }
  if (link_.open()) {
    events_.watch(link_.fd(), {Source::dpu_link, 0}, link_.wants_to_write());
  } else if (!link_.problem().empty()) {
    fail(name() + " is lost: " + link_.problem());
  }
  return messages;
}

void DpuServices::take(const DpuFrame& frame, std::vector<ServiceMessage>& messages) {
  if (frame.sp >= count()) return;
  if (frame.kind == DpuFrameKind::lost) {
    return fail(fmt::format("service process {} on {} {}", frame.sp, name(), text_of(frame.packet)));
  }
  if (frame.kind != DpuFrameKind::control) return;
  Result<ControlMessage> message = control_of(frame);
  if (!message) return spdlog::error("{}: {}", name(), message.error());
  if (message.value().kind() == ControlKind::rank_wired) {
    return rank_wired(frame.sp, message.value().body<RankWiredBody>());
  }
  messages.push_back({frame.sp, std::move(message).value()});
}

std::optional<Services::Clock::time_point> DpuServices::next_look() const {
  if (!link_.open()) return std::nullopt;
  return Clock::now() + kLookAtDpu;
}

void DpuServices::send(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds) {
  send_control(link_, sp, packet, fds);
}

Status DpuServices::take_regions() const {
  return Error{"no memory is mapped where service processes run on a DPU"};
}

}  // namespace outrigger::service
