#include "service/keeper/nodes/other_nodes.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/shared_memory.hpp"
#include "proof/hmac.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kMostIncomingNodes = 4096;  // when there are more, the oldest one is closed
constexpr seconds kTimeForHandshake{5};
constexpr milliseconds kTimeToConnect{400};  // per address, before the next one is tried
constexpr seconds kTimeToAnswer{2};          // a connection that takes longer is made again
constexpr milliseconds kBetweenTries{50};
// about a moved service process: if a node cannot be told in this time, the job ends
constexpr seconds kTimeToTell{15};
constexpr seconds kAskFor{3};  // nodes repeat a question every second
constexpr seconds kTellCountsFor{2};
constexpr seconds kIdleCall{30};  // before an idle connection is closed

OtherNodes::ForServices as_moved(const NodeNews& news) {
  OtherNodes::ForServices told;
  told.kind = ControlKind::peer_moved;
  told.packet = encode_control(told.kind, PeerMovedBody{news.sp.value(), news.epoch.value(), news.bytes.size()});
  if (Result<UniqueFd> shared = share_bytes("outrigger-address", news.bytes)) told.attached = std::move(shared).value();
  return told;
}

}  // namespace

KeeperPlace OtherNodes::listen() {
  NodeListener listener = listen_for_nodes();
  listener_ = std::move(listener.socket);
  if (!listener_.valid()) spdlog::warn("other nodes cannot reach this keeper: the system gives no port");
  return listener.place;
}

void OtherNodes::take_job_map(const SharedBytesBody& body, std::vector<std::byte> bytes) {
  Result<JobMap> job_map = decode_job_map(bytes, config_.world_size);
  if (job_map_ || !job_map || body.node >= job_map.value().nodes.size()) return;
  job_map_ = std::move(job_map).value();
  job_map_body_ = body;
  job_map_bytes_ = std::move(bytes);
  secret_ = proof::derived_secret(job_map_->secret(), "keepers");
  // Earlier callers wait: a handshake needs the secret.
  if (listener_.valid()) (void)events_.watch(listener_.get(), {Source::other_node, 0});
  for (const auto& [sp, own] : own_) {
    if (own.epoch > Epoch{0}) send_to_all_nodes(sp, events_.now());
  }
}

std::string OtherNodes::name_of(std::uint32_t node) const {
  return job_map_ && node < job_map_->nodes.size() ? job_map_->nodes[node].name : std::string();
}

bool OtherNodes::can_be_notified() const {
  if (!job_map_) return true;
  for (std::uint32_t node = 0; node < job_map_->nodes.size(); ++node) {
    const KeeperPlace& place = job_map_->nodes[node].keeper;
    if (node != job_map_body_.node && (place.port == 0 || place.addresses.empty())) return false;
  }
  return true;
}

void OtherNodes::lost(std::uint32_t sp, std::string how) {
  own_[sp] = Own{std::move(how), Epoch{0}, {}};
}

void OtherNodes::moved(std::uint32_t sp, Epoch epoch, std::vector<std::byte> address) {
  Own& own = own_[sp];
  own.epoch = epoch;
  own.address = std::move(address);
  if (job_map_) send_to_all_nodes(sp, events_.now());
}

void OtherNodes::send_to_all_nodes(std::uint32_t sp, Clock::time_point now) {
  const Own& own = own_.at(sp);
  for (std::uint32_t node = 0; node < job_map_->nodes.size(); ++node) {
    if (closed_ || node == job_map_body_.node) continue;
    const SpId in_job{job_map_->first_sp[job_map_body_.node] + sp};
    NodeNews news{NodeNewsKind::moved, node, in_job, own.epoch, own.address};
    calls_[node].moved[in_job] = Outgoing{std::move(news), now + kTimeToTell};
  }
}

void OtherNodes::ask(SpId sp, Clock::time_point now) {
  if (closed_ || !job_map_ || sp.value() >= job_map_->sp_count) return;
  const std::uint32_t node = job_map_->node_of(sp);
  if (node == job_map_body_.node || job_map_->nodes[node].keeper.port == 0) return;
  Outgoing& asked = calls_[node].asked[sp];
  asked.news = NodeNews{NodeNewsKind::ask, node, sp, Epoch{0}, {}};
  asked.deadline = now + kAskFor;
}

void OtherNodes::send_counts(std::vector<std::byte> counts, Clock::time_point now) {
  if (!job_map_) return;
  const std::uint32_t node = job_map_->node_of(job_map_->sp_of_rank[0]);
  if (node == job_map_body_.node || job_map_->nodes[node].keeper.port == 0) return;
  if (counts.size() > kMaxCountsBytes)
    return spdlog::warn("the ranks' counts are too large for a message to world rank 0's node");
  const SpId own{job_map_->first_sp[job_map_body_.node]};
  NodeNews news{NodeNewsKind::counts, node, own, Epoch{0}, std::move(counts)};
  calls_[node].counts[own] = Outgoing{std::move(news), now + kTellCountsFor};
}

bool OtherNodes::counts_are_sent() const {
  return std::ranges::all_of(calls_, [](const auto& call) { return call.second.counts.empty(); });
}

void OtherNodes::work(Clock::time_point now) {
  if (!job_map_) return;
  accept(now);
  for (auto incoming = incoming_.begin(); incoming != incoming_.end();) {
    read_from(*incoming);
    NodeConnection& connection = incoming->connection;
    if (!connection.over() && !connection.ready() && now - incoming->came > kTimeForHandshake)
      connection.end("says nothing");
    if (!connection.over()) {
      watch(connection);
      ++incoming;
      continue;
    }
    events_.unwatch(connection.fd());
    incoming = incoming_.erase(incoming);
  }
  for (auto& [node, call] : calls_) work_on(node, call, now);
  std::erase_if(calls_, [](const auto& call) { return !call.second.connection && !call.second.has_business(); });
}

void OtherNodes::accept(Clock::time_point now) {
  while (listener_.valid()) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    if (incoming_.size() >= kMostIncomingNodes) {
      events_.unwatch(incoming_.front().connection.fd());
      incoming_.pop_front();
    }
    incoming_.push_back(Incoming{NodeConnection(std::move(socket), secret_), now});
  }
}

// ---------------------------------------------------------------- accepted connections

void OtherNodes::read_from(Incoming& incoming) {
  NodeConnection& connection = incoming.connection;
  connection.work();
  if (!connection.ready()) return;
  while (std::optional<NodeNews> news = connection.next()) {
    const std::optional<NodeNews> answer = answer_to(std::move(*news));
    if (!answer) return connection.end("sent a message for another node");
    connection.send(*answer);
  }
}

std::optional<NodeNews> OtherNodes::answer_to(NodeNews news) {
  if (news.to_node != job_map_body_.node || news.sp.value() >= job_map_->sp_count) return std::nullopt;
  const std::uint32_t node = job_map_->node_of(news.sp);
  const bool ours = node == job_map_body_.node;
  if (news.kind == NodeNewsKind::counts && !ours) {
    counts_[node] = std::move(news.bytes);
    return NodeNews{NodeNewsKind::counted, news.to_node, news.sp, Epoch{0}, {}};
  }
  if (closed_) return std::nullopt;
  if (news.kind == NodeNewsKind::ask && ours) {
    // The caller may be any node of the job, and all may ask.
    const auto own = own_.find(news.sp.value() - job_map_->first_sp[node]);
    return NodeNews{NodeNewsKind::here, news.to_node, news.sp, own == own_.end() ? Epoch{1} : own->second.epoch, {}};
  }
  if (news.kind != NodeNewsKind::moved || ours) return std::nullopt;
  NodeNews& known = moved_[news.sp];
  if (known.epoch < news.epoch) {
    known = news;
    spdlog::info("service process {} of node {} has been replaced", news.sp.value(), job_map_->nodes[node].name);
    news_.push_back(as_moved(news));
  }
  return NodeNews{NodeNewsKind::taken, news.to_node, news.sp, news.epoch, {}};
}

// ---------------------------------------------------------------- outgoing connections

void OtherNodes::work_on(std::uint32_t node, Call& call, Clock::time_point now) {
  expire(node, call, now);
  if (!call.connection) {
    if (!call.has_business() || now < call.next_try) return;
    connect(node, call, now);
  }
  const bool was_connected = call.connection->connected();
  const bool was_ready = call.connection->ready();
  call.connection->work();
  if (call.connection->connected() && !was_connected) call.give_up = now + kTimeToAnswer;
  if (call.connection->ready()) {
    if (!was_ready) call.give_up = now + kTimeToAnswer;
    call.send_new(now);
    read_answers(call, now);
  }
  if (call.connection->over() || now > call.give_up) return hang_up(call, now);
  watch(*call.connection);
}

void OtherNodes::connect(std::uint32_t node, Call& call, Clock::time_point now) {
  const KeeperPlace& place = job_map_->nodes[node].keeper;
  if (call.address >= place.addresses.size()) call.address = 0;
  call.connection.emplace(NodeConnection::call(place.addresses[call.address], place.port, secret_));
  call.give_up = now + kTimeToConnect;
}

// The next address is tried, and unanswered messages are sent again.
void OtherNodes::hang_up(Call& call, Clock::time_point now) {
  if (call.has_business()) {
    spdlog::debug("another node's keeper cannot be reached: {}", call.connection->problem().value_or("no answer"));
    ++call.address;
  }
  if (call.connection->fd() >= 0) events_.unwatch(call.connection->fd());
  call.connection.reset();
  call.next_try = now + kBetweenTries;
  for (auto* all : call.all()) {
    for (auto& [sp, message] : *all) message.sent = false;
  }
}

void OtherNodes::Call::send_new(Clock::time_point now) {
  for (auto* messages : all()) {
    for (auto& [sp, message] : *messages) {
      if (std::exchange(message.sent, true)) continue;
      connection->send(message.news);
      give_up = now + kTimeToAnswer;
    }
  }
}

void OtherNodes::read_answers(Call& call, Clock::time_point now) {
  while (const std::optional<NodeNews> answer = call.connection->next()) {
    if (answer->kind == NodeNewsKind::taken) {
      const auto told = call.moved.find(answer->sp);
      if (told != call.moved.end() && told->second.news.epoch <= answer->epoch) call.moved.erase(told);
    } else if (answer->kind == NodeNewsKind::here) {
      if (call.asked.erase(answer->sp) == 0) continue;
      ForServices watched;
      watched.kind = ControlKind::peer_watched;
      watched.packet = encode_control(watched.kind, PeerBody{answer->sp.value(), answer->epoch.value()});
      news_.push_back(std::move(watched));
    } else if (answer->kind == NodeNewsKind::counted) {
      call.counts.erase(answer->sp);
    } else {
      return call.connection->end("sent an unexpected answer");
    }
    call.give_up = now + kTimeToAnswer;
  }
  if (!call.has_business()) call.give_up = std::max(call.give_up, now + kIdleCall);
}

void OtherNodes::expire(std::uint32_t node, Call& call, Clock::time_point now) {
  for (auto* all : {&call.asked, &call.counts}) {
    std::erase_if(*all, [now](const auto& message) { return now > message.second.deadline; });
  }
  for (const auto& [sp, message] : call.moved) {
    if (failure_ || now <= message.deadline) continue;
    const std::uint32_t number = sp.value() - job_map_->first_sp[job_map_body_.node];
    failure_ = own_.at(number).how + "; node " + job_map_->nodes[node].name + " could not be told of its replacement";
  }
}

// ----------------------------------------------------------------

void OtherNodes::watch(const NodeConnection& connection) {
  (void)events_.watch(connection.fd(), {Source::other_node, 0}, connection.wants_to_write());
}

std::optional<OtherNodes::Clock::time_point> OtherNodes::next_look() const {
  if (!job_map_) return std::nullopt;
  const bool business = std::ranges::any_of(calls_, [](const auto& call) { return call.second.has_business(); });
  if (business) return events_.now() + kBetweenTries;
  if (!calls_.empty() || !incoming_.empty()) return events_.now() + seconds(1);
  return std::nullopt;
}

std::vector<OtherNodes::ForServices> OtherNodes::take_news() {
  return std::exchange(news_, {});
}

std::vector<OtherNodes::ForServices> OtherNodes::for_a_new_one() const {
  std::vector<ForServices> all;
  if (!job_map_) return all;
  ForServices job_map;
  job_map.kind = ControlKind::job_map;
  job_map.packet = encode_control(job_map.kind, job_map_body_);
  if (Result<UniqueFd> shared = share_bytes("outrigger-job-map", job_map_bytes_)) {
    job_map.attached = std::move(shared).value();
  }
  all.push_back(std::move(job_map));
  for (const auto& [sp, news] : moved_) all.push_back(as_moved(news));
  return all;
}

void OtherNodes::close() {
  closed_ = true;
  for (auto& [node, call] : calls_) {
    call.moved.clear();
    call.asked.clear();
  }
}

}  // namespace outrigger::service
