// The keeper's side of service processes that run on a DPU: the connection, and the steps by which they reach the
// ranks.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "protocol/rank_address.hpp"
#include "service/keeper/keeper.hpp"
#include "service/log.hpp"
#include "service/loop/job_protest.hpp"
#include "service/loop/transports.hpp"

namespace outrigger::service {
namespace {

// Of the time that ranks wait for their service processes: for the connection, the greeting and the start of these.
// What is left is for reaching the ranks' memory.
constexpr double kCallShare = 0.6;
constexpr std::chrono::milliseconds kBetweenLooks{2};

}  // namespace

std::string Keeper::dpu_name() const {
  return dpu_host_.empty() ? "DPU " + config_.dpu : "DPU " + dpu_host_ + " (" + config_.dpu + ")";
}

std::chrono::milliseconds Keeper::dpu_call_limit() const {
  return std::chrono::milliseconds(static_cast<std::int64_t>(config_.attach_timeout_ms * kCallShare));
}

std::chrono::milliseconds Keeper::dpu_attach_limit() const {
  return std::chrono::milliseconds(config_.attach_timeout_ms) - dpu_call_limit();
}

void Keeper::start_dpu() {
  if (const std::size_t length = allowed_transports().size(); length >= kTransportsBytes) {
    return refuse_everybody(
        fmt::format("OUTRIGGER_UCX_TLS has {} characters, of which {} reach a DPU; name fewer, or set it there", length,
                    kTransportsBytes - 1));
  }
  if (const Status called = call_dpu(); !called) return refuse_everybody(dpu_name() + ": " + called.error());
  phase_began_ = Clock::now();
  // Neighbours share a service process.
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].sp = static_cast<std::uint32_t>(rank * services_.size() / ranks_.size());
  }
  for (std::uint32_t sp = 0; sp < services_.size(); ++sp) configure_service(sp, Topology{});
  watch(dpu_.fd(), Watched::dpu, 0);
  if (const Status offered = offer_segments(); !offered) return refuse_everybody(offered.error());
}

// Nobody has been served yet: the keeper has time to wait.
Status Keeper::call_dpu() {
  const Clock::time_point deadline = Clock::now() + dpu_call_limit();
  Result<DpuLink> link = DpuLink::connect(config_.dpu, deadline);
  if (!link) return Error{link.error()};
  dpu_ = std::move(link).value();
  if (Status greeted = dpu_.greet(DpuLink::Side::host, config_.dpu_secret, deadline); !greeted) return greeted;
  const auto attach_limit = dpu_attach_limit();
  dpu_.allow_silence(attach_limit);
  const DpuJob job{config_.local_size, config_.services, static_cast<std::uint32_t>(attach_limit.count())};
  dpu_.send(DpuFrameKind::job, 0, std::as_bytes(std::span(&job, 1)));
  while (Clock::now() < deadline) {
    dpu_.work(Clock::now());
    std::optional<DpuFrame> frame = dpu_.next();
    if (!frame && !dpu_.open()) return Error{dpu_.problem()};
    if (!frame) {
      ::usleep(std::chrono::microseconds(kBetweenLooks).count());
      continue;
    }
    if (frame->kind == DpuFrameKind::failed) {
      return Error{std::string(reinterpret_cast<const char*>(frame->packet.data()), frame->packet.size())};
    }
    if (frame->kind != DpuFrameKind::ready) continue;
    std::optional<DpuReady> ready = dpu_packet_as<DpuReady>(*frame);
    if (!ready || ready->services == 0 || ready->services > kMaxServices) break;
    ready->name.back() = '\0';
    dpu_host_ = ready->name.data();
    for (std::uint32_t sp = 0; sp < ready->services; ++sp) {
      ServiceProcess service;
      service.place.cpu = -1;
      service.place.core_share = copy::CoreShare::own;
      services_.push_back(std::move(service));
    }
    spdlog::info("{}: {} service process(es)", dpu_name(), ready->services);
    return Done{};
  }
  return Error{"it did not start its service processes in time"};
}

Status Keeper::offer_segments() {
  for (Rank& rank : ranks_) {
    if (Status made = make_segment(rank); !made) return made;
    const int fd = rank.segment_fd.get();
    const RankBody body{rank.hello.world_rank, 0};
    if (!rank.socket.send_packet(encode_control(ControlKind::segment_offer, body), std::span(&fd, 1), 0)) {
      return Error{"rank " + std::to_string(rank.hello.world_rank) + " takes no messages"};
    }
  }
  return Done{};
}

void Keeper::pass_rank_address(std::uint32_t local_rank, const SharedBytesBody& body, const UniqueFd& fd) {
  if (config_.dpu.empty()) return disconnect_rank(local_rank, "an address that was not asked for");
  const Result<std::vector<std::byte>> bytes = read_shared_bytes(fd.get(), body.bytes, kMaxRankAddressBytes);
  if (!bytes) return disconnect_rank(local_rank, bytes.error());
  const Rank& rank = ranks_[local_rank];
  const RankRemoteBody remote{rank.hello.world_rank, rank.sp, bytes.value().size()};
  const int shared = fd.get();
  tell_services(ControlKind::rank_remote, remote, std::span(&shared, 1));
}

void Keeper::rank_wired(const RankWiredBody& body) {
  const auto local_rank = local_rank_of(body.world_rank);
  if (phase_ != Phase::attaching || !local_rank) return;
  if (body.ok == 0) {
    std::array<char, kReasonBytes> reason = body.reason;
    reason.back() = '\0';
    return refuse_everybody(fmt::format("{} does not reach rank {}: {}", dpu_name(), body.world_rank, reason.data()));
  }
  ++ranks_[*local_rank].wired;
  const bool all = std::ranges::all_of(ranks_, [&](const Rank& rank) { return rank.wired == services_.size(); });
  if (!all) return;
  for (Rank& rank : ranks_) {
    const RankBody quiet{rank.hello.world_rank, 0};
    if (!rank.socket.send_packet(encode_control(ControlKind::be_quiet, quiet), {}, 0)) {
      return refuse_everybody("rank " + std::to_string(rank.hello.world_rank) + " takes no messages");
    }
  }
}

void Keeper::work_on_dpu() {
  if (!dpu_.open()) return;
  const int fd = dpu_.fd();
  const Clock::time_point now = Clock::now();
  dpu_.work(now);
  while (phase_ != Phase::over) {
    std::optional<DpuFrame> frame = dpu_.next();
    if (!frame) break;
    take_dpu_frame(*frame);
  }
  dpu_.tick(now);
  if (!dpu_.open()) return dpu_lost();
  watch(fd, Watched::dpu, 0, dpu_.wants_to_write());
}

void Keeper::take_dpu_frame(DpuFrame& frame) {
  if (frame.sp >= services_.size()) return;
  if (frame.kind == DpuFrameKind::lost) {
    const std::string how(reinterpret_cast<const char*>(frame.packet.data()), frame.packet.size());
    std::string name = "service process " + std::to_string(frame.sp) + " on " + dpu_name() + " " + how;
    if (const std::string& words = services_[frame.sp].last_words; !words.empty()) name += " (" + words + ")";
    if (phase_ == Phase::attaching) return refuse_everybody(name);
    if (phase_ == Phase::running) end_job("outrigger: " + name + "; the job cannot go on");
    return;
  }
  if (frame.kind != DpuFrameKind::control) return;
  std::vector<UniqueFd> fds;
  if (!frame.attached.empty()) {
    Result<UniqueFd> shared = share_bytes("outrigger-attached", frame.attached);
    if (shared) fds.push_back(std::move(shared).value());
  }
  Result<ControlMessage> message = decode_control(frame.packet, std::move(fds));
  if (!message) return spdlog::error("{}: {}", dpu_name(), message.error());
  handle_service(frame.sp, message.value());
}

void Keeper::dpu_lost() {
  const std::string text = dpu_name() + " is lost: " + dpu_.problem();
  if (phase_ == Phase::attaching) return refuse_everybody(text);
  if (phase_ == Phase::running) end_job("outrigger: " + text + "; the job cannot go on");
}

}  // namespace outrigger::service
