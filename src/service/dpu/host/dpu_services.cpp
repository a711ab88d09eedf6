#include "service/dpu/host/dpu_services.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/futex.hpp"
#include "base/shared_memory.hpp"
#include "protocol/options/transports.hpp"
#include "protocol/shared/segment.hpp"
#include "protocol/wire/rank_address.hpp"
#include "service/dpu/dpu_control.hpp"
#include "service/dpu/host/dpu_call.hpp"
#include "service/notices/fault_report.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

// Share of the ranks' attach time for connecting, the handshake and starting the processes; the rest is for reaching
// the ranks' memory.
constexpr double kCallShare = 0.3;
constexpr double kAttachShare = 0.2;
constexpr std::chrono::milliseconds kLookAtDpu{500};
// Limit for connecting the ranks to a process that had to take a place before it was connected.
constexpr std::chrono::seconds kConnectLimit{60};
// Time for the network to deliver what an ended process has sent. No rank learns of the replacement before that.
constexpr std::chrono::milliseconds kUntilAtRest{20};

// Longer than service processes on a DPU may work without their host; their clocks are read once a turn.
constexpr std::chrono::milliseconds kUntilAllRest{500};

std::chrono::milliseconds share_of(std::uint32_t time_ms, double share) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(time_ms * share));
}

std::chrono::milliseconds attach_limit(const KeeperConfig& config) {
  return share_of(config.init_timeout_ms, kAttachShare);
}

// The configuration of a host's service process, adapted to the DPU. `process`: its number among all started there.
ConfigureBody on_dpu(ConfigureBody body, std::uint32_t process, std::chrono::milliseconds attach_limit) {
  body.elsewhere = 1;
  body.attach_limit_ms = static_cast<std::uint32_t>(attach_limit.count());
  body.process = process;
  return body;
}

}  // namespace

DpuServices::DpuServices(const KeeperConfig& config, LocalRanks& ranks, Events& events, OtherNodes& nodes)
    : Services(config, ranks, events), nodes_(nodes), claims_(config.claims), addresses_(config.local_size) {}

std::string DpuServices::name() const {
  return host_.empty() ? "DPU " + config_.dpu : "DPU " + host_ + " (" + config_.dpu + ")";
}

Status DpuServices::start() {
  if (const std::size_t length = allowed_transports().size(); length >= kTransportsBytes) {
    return Error{
        fmt::format("OUTRIGGER_UCX_TLS has {} characters, of which {} reach a DPU; name fewer, or set it there", length,
                    kTransportsBytes - 1)};
  }
  if (const Status called = call(); !called) return Error{name() + ": " + called.error()};
  claim_copy_cores();
  // Neighbouring ranks share a service process.
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].sp = rank * count() / ranks_.size();
  for (std::uint32_t sp = 0; sp < count(); ++sp) {
    const ConfigureBody body = on_dpu(configuration(sp), next_process_++, attach_limit(config_));
    send(sp, encode_control(ControlKind::configure, body), {});
    Process& process = processes_[body.process];
    process.sp = sp;
    for (const LocalRank& rank : ranks_) process.unwired.insert(rank.hello.world_rank);
    process_of_.push_back(body.process);
    times_started_.push_back(1);
  }
  events_.watch(link_.fd(), {Source::dpu_link, 0});
  return offer_segments();
}

// No rank is served yet, so the keeper may block here.
Status DpuServices::call() {
  const Clock::time_point deadline = Clock::now() + share_of(config_.init_timeout_ms, kCallShare);
  const DpuJob job{config_.local_size, config_.services, static_cast<std::uint32_t>(attach_limit(config_).count())};
  Result<CalledDpu> called = call_dpu(config_.dpu, config_.dpu_secret, job, deadline);
  if (!called) return Error{called.error()};
  link_ = std::move(called.value().link);
  host_ = called.value().name;
  fetched_.name_dpu(host_.empty() ? config_.dpu : host_);
  places_.assign(called.value().services, ServicePlace{-1, copy::CoreShare::own});
  spdlog::info("{}: {} service process(es)", name(), count());
  return Done{};
}

// As cores of service processes: other jobs keep off them.
void DpuServices::claim_copy_cores() {
  if (config_.copy_cpus.empty()) return;
  const Result<Topology> topology = read_topology();
  if (!topology) return;
  for (const int cpu : config_.copy_cpus) {
    const std::vector<int> cpus = cpus_beside(topology.value(), cpu);
    if (!claims_.claim_service(cpus)) claims_.share_service(cpus);
  }
}

Status DpuServices::offer_segments() {
  if (Status made = ranks_.make_segments(); !made) return made;
  for (LocalRank& rank : ranks_) {
    const int fd = rank.segment_fd.get();
    SegmentView(rank.segment.base()).header().dpu_process.store(process_of_[rank.sp], std::memory_order_relaxed);
    if (!rank.tell(ControlKind::segment_offer, RankBody{rank.hello.world_rank, 0}, std::span(&fd, 1))) {
      return Error{"rank " + std::to_string(rank.hello.world_rank) + " takes no messages"};
    }
  }
  return Done{};
}

Status DpuServices::pass_rank_address(const LocalRank& rank, const SharedBytesBody& body, const UniqueFd& fd) {
  Result<std::vector<std::byte>> bytes = read_shared_bytes(fd.get(), body.bytes, kMaxRankAddressBytes);
  if (!bytes) return Error{bytes.error()};
  addresses_[rank.hello.local_rank] = std::move(bytes).value();
  for (std::uint32_t sp = 0; sp < count(); ++sp) send_rank(sp, rank);
  if (standby_) send_rank(dpu_standby(*standby_), rank);
  return Done{};
}

void DpuServices::send_rank(std::uint32_t called, const LocalRank& rank) {
  const std::vector<std::byte>& address = addresses_[rank.hello.local_rank];
  const RankRemoteBody body{rank.hello.world_rank, rank.sp, address.size()};
  link_.send(DpuFrameKind::control, called, encode_control(ControlKind::rank_remote, body), address);
}

void DpuServices::rank_wired(std::uint32_t number, const RankWiredBody& body) {
  const auto found = processes_.find(number);
  if (found == processes_.end()) return;
  Process& process = found->second;
  if (body.ok != 0) {
    process.unwired.erase(body.world_rank);
    if (!attached_) return be_quiet_when_all_are_wired();
    if (process.sp && process.unwired.empty()) processes_.erase(found);
    return call_ranks();
  }
  std::array<char, kReasonBytes> reason = body.reason;
  reason.back() = '\0';
  const std::string what = fmt::format("{} does not reach rank {}: {}", name(), body.world_rank, reason.data());
  if (!attached_) return fail(what);
  if (process.sp) return fail(process.instead_of + "; its replacement: " + what);
  spdlog::warn("{}; this is the standby service process", what);
  process.broken = what;
  call_ranks();
}

// Ranks stop using their networks once every service process is connected to every rank.
void DpuServices::be_quiet_when_all_are_wired() {
  const auto is_wired = [](const auto& item) { return item.second.unwired.empty(); };
  if (!std::ranges::all_of(processes_, is_wired) || std::exchange(quiet_, true)) return;
  for (LocalRank& rank : ranks_) {
    if (rank.tell(ControlKind::be_quiet, RankBody{rank.hello.world_rank, 0})) continue;
    return fail("rank " + std::to_string(rank.hello.world_rank) + " takes no messages");
  }
}

void DpuServices::attached() {
  attached_ = true;
  processes_.clear();  // until now each could still report an unreachable rank
  link_.allow_silence(kDpuSilence);
  start_standby();
}

void DpuServices::stop() {
  fetched_.trace.end();
  events_.unwatch(link_.fd());
  link_.close();
}

// If `outriggerd dpu` has ended, so have its service processes. If it is silent, it ends them after not receiving from
// this keeper for this long; a process that is stopped for longer finds no rank any more.
std::optional<std::chrono::milliseconds> DpuServices::replaceable_after() const {
  if (!attached_ || (config_.reach_allowed & kReachCma) == 0 || !nodes_.can_be_notified()) return std::nullopt;
  const std::chrono::milliseconds silent = link_.ended_by_other() ? std::chrono::milliseconds(0) : kDpuSilence;
  return silent + kDpuWorkAfterLook + kUntilAllRest;
}

std::vector<ServiceMessage> DpuServices::receive(const Event&) {
  std::vector<ServiceMessage> messages;
  if (link_.open()) {
    const Clock::time_point now = events_.now();
    link_.work(now);
    while (const std::optional<DpuFrame> frame = link_.next()) take(*frame, messages);
    fetched_.trace.work(now);
    link_.tick(now);
  }
  if (link_.open()) {
    events_.watch(link_.fd(), {Source::dpu_link, 0}, link_.wants_to_write());
  } else if (!link_.problem().empty()) {
    fail(name() + " is lost: " + link_.problem());
  }
  fill_places(events_.now());
  look_at_limits(events_.now());
  return messages;
}

void DpuServices::take(const DpuFrame& frame, std::vector<ServiceMessage>& messages) {
  if (frame.sp >= count() && frame.sp < dpu_standby(0)) return;
  if (frame.kind == DpuFrameKind::lost) return lost(frame.sp, frame);
  if (FetchedFromDpu::is_for(frame.kind)) {
    if (const Status taken = fetched_.take(frame, events_.now()); !taken) fail(name() + " says " + taken.error());
    return;
  }
  if (frame.kind != DpuFrameKind::control) return;
  Result<ControlMessage> message = control_of(frame);
  if (!message) return spdlog::error("{}: {}", name(), message.error());
  const bool has_place = frame.sp < count();
  if (message.value().kind() == ControlKind::rank_wired) {
    const std::uint32_t number = has_place ? process_of_[frame.sp] : frame.sp - dpu_standby(0);
    return rank_wired(number, message.value().body<RankWiredBody>());
  }
  if (has_place) messages.push_back({frame.sp, std::move(message).value()});
}

// ---------------------------------------------------------------- replacement

void DpuServices::start_standby() {
  const std::uint32_t number = next_process_++;
  const std::uint32_t called = dpu_standby(number);
  standby_ = number;
  Process& process = processes_[number];
  link_.send(DpuFrameKind::standby, called, {});
  ConfigureBody body = on_dpu(configuration(0), number, attach_limit(config_));
  body.sp = count();
  body.epoch = 0;
  link_.send(DpuFrameKind::control, called, encode_control(ControlKind::configure, body));
  for (const LocalRank& rank : ranks_) {
    if (!rank.present) continue;
    process.unwired.insert(rank.hello.world_rank);
    if (!addresses_[rank.hello.local_rank].empty()) send_rank(called, rank);
  }
  call_ranks();
}

void DpuServices::call_ranks() {
  for (LocalRank& rank : ranks_) {
    if (!rank.present) continue;
    const bool called = std::ranges::any_of(processes_, [&](const auto& item) {
      return item.second.broken.empty() && item.second.unwired.contains(rank.hello.world_rank);
    });
    std::atomic<std::uint32_t>& calls = SegmentView(rank.segment.base()).header().dpu_calls;
    if (!called) {
      calls.fetch_and(~kDpuCalls, std::memory_order_seq_cst);
    } else if ((calls.fetch_or(kDpuCalls, std::memory_order_seq_cst) & kDpuCalls) == 0) {
      futex_wake_all(calls);
    }
  }
}

void DpuServices::rank_left(const RankLeftBody& left) {
  Services::rank_left(left);
  if (standby_) {
    const std::uint32_t called = dpu_standby(*standby_);
    link_.send(DpuFrameKind::control, called, encode_control(ControlKind::rank_left, left));
  }
  for (auto& [number, process] : processes_) process.unwired.erase(left.world_rank);
  std::erase_if(processes_, [](const auto& item) { return item.second.sp && item.second.unwired.empty(); });
}

void DpuServices::lost(std::uint32_t called, const DpuFrame& frame) {
  std::optional<DpuLost> said = decoded<DpuLost>(frame.packet);
  if (!said) return fail(name() + " sent a malformed message");
  said->how.back() = '\0';
  if (called < count()) return lost_place(called, *said);
  // It may have been given a place while this message was on its way.
  const std::uint32_t number = called - dpu_standby(0);
  const auto place = std::ranges::find(process_of_, number);
  if (place != process_of_.end()) {
    return lost_place(static_cast<std::uint32_t>(place - process_of_.begin()), *said);
  }
  if (standby_ != number) return;
  spdlog::warn("the standby service process on {} {}", name(), said->how.data());
  processes_.erase(number);
  standby_.reset();
  standby_deaths_.note(0, std::nullopt, events_.now()) ? start_standby() : call_ranks();
}

void DpuServices::lost_place(std::uint32_t sp, const DpuLost& said) {
  const Clock::time_point now = events_.now();
  const std::string what = fmt::format("service process {} on {} {}", sp, name(), said.how.data());
  if (!attached_ || said.killed == 0 || !nodes_.can_be_notified()) return fail(what);
  std::optional<OperationId> last;
  if (said.has_taken != 0) last = OperationId{GroupId{said.group_high, said.group_low}, said.sequence};
  const bool was_degraded = deaths_.degraded();
  if (!deaths_.note(sp, last, now)) return fail(what + deaths_.how_many(sp));
  if (deaths_.degraded() && !was_degraded) {
    spdlog::warn("{}{}: degraded mode from now on", what, deaths_.how_many(sp));
    tell_all(ControlKind::degraded, RankBody{});
  }
  spdlog::warn("{}; it is replaced", what);
  processes_.erase(process_of_[sp]);
  nodes_.lost(sp, what);
  vacant_.push_back(Vacant{sp, what, now + kUntilAtRest});
}

void DpuServices::fill_places(Clock::time_point now) {
  while (!vacant_.empty() && now >= vacant_.front().from) {
    const Vacant vacant = std::move(vacant_.front());
    vacant_.pop_front();
    if (!standby_) return fail(vacant.what + "; there is no standby service process");
    const std::string& broken = processes_[*standby_].broken;
    if (!broken.empty()) return fail(vacant.what + "; the standby service process: " + broken);
    give_place(vacant.sp, vacant.what);
    start_standby();
  }
}

// Its ranks ring its doorbell from now on, which has no effect before it is connected: it stays awake until then.
void DpuServices::give_place(std::uint32_t sp, const std::string& instead_of) {
  const std::uint32_t number = *standby_;
  standby_.reset();
  process_of_[sp] = number;
  link_.send(DpuFrameKind::replace, sp, {});
  send(sp, encode_control(ControlKind::take_place, TakePlaceBody{sp, ++times_started_[sp], -1, 0}), {});
  if (deaths_.degraded()) send(sp, encode_control(ControlKind::degraded, RankBody{}), {});
  for (const RankLeftBody& left : ranks_.left()) send(sp, encode_control(ControlKind::rank_left, left), {});
  for (const OtherNodes::ForServices& news : nodes_.for_a_new_one()) {
    const int fd = news.attached.get();
    send(sp, news.packet, std::span(&fd, fd >= 0 ? 1 : 0));
  }
  send(sp, encode_control(ControlKind::introduced, IntroducedBody{1, 0}), {});
  for (LocalRank& rank : ranks_) {
    if (!rank.present || rank.sp != sp) continue;
    SegmentView(rank.segment.base()).header().dpu_process.store(number, std::memory_order_seq_cst);
  }
  Process& process = processes_[number];
  process.sp = sp;
  process.instead_of = instead_of;
  process.limit = events_.now() + kConnectLimit;
  if (process.unwired.empty()) processes_.erase(number);
}

void DpuServices::look_at_limits(Clock::time_point now) {
  for (const auto& [number, process] : processes_) {
    if (!process.limit || now < *process.limit) continue;
    return fail(fmt::format("{}; its replacement waits for a connection to rank {}, for {} s by now",
                            process.instead_of, *process.unwired.begin(), kConnectLimit.count()));
  }
}

std::optional<Services::Clock::time_point> DpuServices::next_look() const {
  if (!link_.open()) return std::nullopt;
  Clock::time_point next = events_.now() + kLookAtDpu;
  if (!vacant_.empty()) next = std::min(next, vacant_.front().from);
  return std::min(next, fetched_.trace.next_look().value_or(next));
}

void DpuServices::send(std::uint32_t sp, std::vector<std::byte> packet, std::span<const int> fds) {
  send_control(link_, sp, packet, fds);
}

Status DpuServices::take_regions() const {
  return Error{"no memory is mapped where service processes run on a DPU"};
}

}  // namespace outrigger::service
