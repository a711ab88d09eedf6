// The keeper's side of its ranks: hello, regions, goodbye.
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "service/keeper/keeper.hpp"
#include "service/log.hpp"
#include "service/loop/job_protest.hpp"

namespace outrigger::service {
namespace {

constexpr std::chrono::seconds kStrangerPatience{5};
constexpr std::size_t kMaxStrangers = std::size_t{2} * kMaxLocalRanks;
constexpr std::uint64_t kPageBytes = 4096;
// Kept free of regions, so that further messages with descriptors can be received and answered.
constexpr rlim_t kSpareDescriptors = 64;

// New descriptors are the lowest that are free: this one tells how many there are.
bool near_descriptor_limit(int fd) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && static_cast<rlim_t>(fd) + kSpareDescriptors >= limit.rlim_cur;
}

// A rank that takes no messages is not waited for.
template <class T>
bool tell(ControlSocket& socket, ControlKind kind, const T& body, std::span<const int> fds = {}) {
  return socket.send_packet(encode_control(kind, body), fds, 0);
}

// Takes as long for a wrong secret as for a right one.
bool same_secret(const Secret& left, const Secret& right) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i) difference |= static_cast<unsigned>(left[i] ^ right[i]);
  return difference == 0;
}

}  // namespace

void Keeper::accept_strangers() {
  while (true) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) return;
    ucred peer{};
    socklen_t bytes = sizeof(peer);
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.uid != ::geteuid() ||
        strangers_.size() >= kMaxStrangers) {
      spdlog::warn("a connection by user {} was closed", peer.uid);
      continue;
    }
    const std::uint32_t index = next_stranger_++;
    watch(fd.get(), Watched::stranger, index);
    strangers_.emplace(index, Stranger{ControlSocket(std::move(fd)), peer.pid, Clock::now() + kStrangerPatience});
  }
}

void Keeper::read_stranger(std::uint32_t index) {
  const auto found = strangers_.find(index);
  if (found == strangers_.end()) return;
  ControlSocket::Received received = found->second.socket.receive(0);
  if (received.event == ControlSocket::Event::nothing) return;
  Stranger stranger = std::move(found->second);
  strangers_.erase(found);
  if (received.event == ControlSocket::Event::closed) return;
  if (received.event == ControlSocket::Event::malformed) return refuse(stranger.socket, received.problem);
  if (received.message->kind() != ControlKind::hello) return refuse(stranger.socket, "the first message is not hello");
  const auto hello = received.message->body<HelloBody>();
  if (const auto problem = problem_of_hello(hello)) return refuse(stranger.socket, *problem);
  admit(std::move(stranger), hello);
}

std::optional<std::string> Keeper::problem_of_hello(const HelloBody& hello) const {
  if (!same_secret(hello.secret, config_.secret)) return "wrong secret: this keeper belongs to another job";
  if (phase_ != Phase::gathering) return "the ranks of this node have gathered already";
  if (hello.world_size != config_.world_size || hello.local_size != config_.local_size) {
    return "the job has " + std::to_string(config_.world_size) + " ranks, not " + std::to_string(hello.world_size);
  }
  if (hello.world_rank >= config_.world_size || hello.local_rank >= config_.local_size) return "rank out of range";
  if (ranks_[hello.local_rank].present) return "local rank " + std::to_string(hello.local_rank) + " is here already";
  if (local_of_world_.contains(hello.world_rank))
    return "rank " + std::to_string(hello.world_rank) + " is here already";
  return std::nullopt;
}

void Keeper::refuse(ControlSocket& socket, const std::string& reason) {
  (void)tell(socket, ControlKind::refused, make_refusal(reason));
  unwatch(socket.fd());
  socket.close();
}

void Keeper::admit(Stranger stranger, const HelloBody& hello) {
  Rank& rank = ranks_[hello.local_rank];
  rank.present = true;
  rank.socket = std::move(stranger.socket);
  rank.hello = hello;
  rank.pid = stranger.pid;
  watch(rank.socket.fd(), Watched::rank, hello.local_rank);
  if (rank.pid > 0) rank.exit_event.reset(static_cast<int>(::syscall(SYS_pidfd_open, rank.pid, 0)));
  if (rank.exit_event.valid()) watch(rank.exit_event.get(), Watched::rank_exit, hello.local_rank);
  local_of_world_.emplace(hello.world_rank, hello.local_rank);
  if (ranks_present() == config_.local_size) start_services();
}

void Keeper::read_rank(std::uint32_t local_rank) {
  Rank& rank = ranks_[local_rank];
  // A few messages at a time, so that one rank cannot hold up the others.
  for (int i = 0; i < 16 && rank.present && rank.socket.open() && phase_ != Phase::over; ++i) {
    ControlSocket::Received received = rank.socket.receive(0);
    if (received.event == ControlSocket::Event::nothing) return;
    if (received.event == ControlSocket::Event::closed) {
      if (phase_ == Phase::ending && config_.end_ranks && rank.exit_event.valid()) {
        unwatch(rank.socket.fd());
        return rank.socket.close();  // wait for the process itself to end
      }
      return rank_left(local_rank, "closed its connection");
    }
    if (received.event == ControlSocket::Event::malformed) return disconnect_rank(local_rank, received.problem);
    ControlMessage& message = *received.message;
    if (message.kind() == ControlKind::goodbye) return rank_left(local_rank, "said goodbye");
    if (message.kind() == ControlKind::rank_address && phase_ == Phase::attaching) {
      pass_rank_address(local_rank, message.body<SharedBytesBody>(), message.fds()[0]);
      continue;
    }
    if (phase_ != Phase::running && phase_ != Phase::ending) {
      return disconnect_rank(local_rank, "a message before the welcome");
    }
    switch (message.kind()) {
      case ControlKind::region_add: add_region(local_rank, message.body<RegionBody>(), message.fds()); break;
      case ControlKind::region_drop: drop_region(local_rank, message.body<RegionBody>()); break;
      case ControlKind::job_map: pass_job_map(local_rank, message.body<SharedBytesBody>(), message.fds()[0]); break;
      default: return disconnect_rank(local_rank, "a message that ranks do not send");
    }
  }
}

void Keeper::add_region(std::uint32_t local_rank, const RegionBody& body, std::vector<UniqueFd>& fds) {
  Rank& rank = ranks_[local_rank];
  if (RegionId{body.region} < kFirstAddedRegion || body.region <= rank.highest_region) {
    return disconnect_rank(local_rank, "region " + std::to_string(body.region) + " is reserved or not new");
  }
  rank.highest_region = body.region;
  std::string problem;
  std::uint64_t end = 0;
  if (!config_.dpu.empty()) {
    problem = "no memory is mapped where service processes run on a DPU";
  } else if (body.base % kPageBytes != 0 || body.bytes == 0 || __builtin_add_overflow(body.base, body.bytes, &end)) {
    problem = "its range is not one of whole pages";
  } else if (rank.regions.size() >= kMaxRegionsPerRank) {
    problem = "the rank has too many regions";
  } else if (near_descriptor_limit(fds[0].get())) {
    problem = "the keeper has hardly any descriptors left (ulimit -Hn)";
  } else if (services_backlogged()) {
    problem = "a service process does not take its messages";
  } else if (const Status sealed = check_sealed_memory(fds[0].get(), body.bytes); !sealed) {
    problem = sealed.error();
  }
  if (!problem.empty()) {
    spdlog::warn("rank {}, region {}: {}", rank.hello.world_rank, body.region, problem);
    return answer_region(rank, body.region, false);
  }
  RegionBody forwarded = body;
  forwarded.world_rank = rank.hello.world_rank;
  const int fd = fds[0].get();
  rank.regions.emplace(body.region, Region{std::move(fds[0]), body.base, body.bytes, 0, true});
  tell_services(ControlKind::region_add, forwarded, std::span(&fd, 1));
}

void Keeper::drop_region(std::uint32_t local_rank, const RegionBody& body) {
  Rank& rank = ranks_[local_rank];
  if (body.region > rank.highest_region) return disconnect_rank(local_rank, "it dropped a region that it never added");
  if (rank.regions.erase(body.region) == 0) return;  // one that was not accepted
  RegionBody forwarded = body;
  forwarded.world_rank = rank.hello.world_rank;
  tell_services(ControlKind::region_drop, forwarded);
}

// The service processes look at what is in it.
void Keeper::pass_job_map(std::uint32_t local_rank, const SharedBytesBody& body, const UniqueFd& fd) {
  if (local_rank != 0 || config_.nodes == 1 || std::exchange(job_map_passed_, true)) {
    return disconnect_rank(local_rank, "a job map that was not asked for");
  }
  const int shared = fd.get();
  tell_services(ControlKind::job_map, body, std::span(&shared, 1));
}

void Keeper::answer_region(Rank& rank, std::uint32_t region, bool ok) {
  const RegionAddedBody answer{rank.hello.world_rank, region, ok ? 1U : 0U, 0};
  if (rank.socket.open() && !tell(rank.socket, ControlKind::region_added, answer)) {
    disconnect_rank(rank.hello.local_rank, "it takes no messages");
  }
}

// The rank's process goes on; it learns from the closed socket that it is not served any more.
void Keeper::disconnect_rank(std::uint32_t local_rank, const std::string& reason) {
  Rank& rank = ranks_[local_rank];
  spdlog::error("rank {} was disconnected: {}", rank.hello.world_rank, reason);
  if (rank.socket.open()) refuse(rank.socket, reason);
  rank_left(local_rank, "was disconnected");
}

void Keeper::rank_left(std::uint32_t local_rank, const std::string& how) {
  Rank& rank = ranks_[local_rank];
  if (!rank.present) return;
  const std::uint32_t world_rank = rank.hello.world_rank;
  spdlog::info("rank {} (pid {}) {}", world_rank, rank.pid, how);
  unwatch(rank.socket.fd());
  unwatch(rank.exit_event.get());
  rank = Rank{};
  local_of_world_.erase(world_rank);
  if (phase_ == Phase::gathering || phase_ == Phase::attaching) {
    return refuse_everybody("rank " + std::to_string(world_rank) + " " + how + " before all ranks were served");
  }
  if (phase_ == Phase::running) tell_services(ControlKind::rank_left, RankBody{world_rank, 0});
  end_when_empty();
}

std::optional<std::uint32_t> Keeper::local_rank_of(std::uint32_t world_rank) const {
  const auto found = local_of_world_.find(world_rank);
  if (found == local_of_world_.end()) return std::nullopt;
  return found->second;
}

}  // namespace outrigger::service
