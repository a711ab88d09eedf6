#include "fake_node.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/futex.hpp"
#include "client/start/abstract_socket.hpp"

namespace outrigger::client::test {
namespace {

std::byte* map_shared(int fd, std::uint64_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return base == MAP_FAILED ? nullptr : static_cast<std::byte*>(base);
}

void ring(const UniqueFd& fd) {
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(fd.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

}  // namespace

FakeNode::FakeNode(FakeNodeOptions options) : options_(std::move(options)) {
  static std::atomic<int> counter{0};
  const std::string name = "outrigger-test-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
  std::copy(name.begin(), name.end(), address_.name.begin());
  address_.secret.fill(0x5A);
  auto listening = listen_at(name);
  if (!listening) throw std::runtime_error(listening.error());
  listener_ = std::move(listening).value();
  stop_.reset(::eventfd(0, EFD_CLOEXEC));
  doorbell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  segment_fd_.reset(::memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (::ftruncate(segment_fd_.get(), static_cast<off_t>(options_.segment_bytes)) != 0) throw std::runtime_error("size");
  segment_ = SegmentView(map_shared(segment_fd_.get(), std::max(options_.segment_bytes, SegmentView::segment_bytes())));
  segment_.initialize(WorldRank(options_.segment_rank), 8);
  if (options_.seal_segment) ::fcntl(segment_fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  keeper_ = std::thread([this] { keep(); });
}

FakeNode::~FakeNode() {
  stop_serving();
  ring(stop_);
  keeper_.join();
  for (auto& [id, region] : regions_) ::munmap(region.mapping, region.bytes);
  ::munmap(segment_.base(), std::max(options_.segment_bytes, SegmentView::segment_bytes()));
  EXPECT_TRUE(problems_.empty()) << problems_.front();
}

AttachOptions FakeNode::attach_options(std::uint32_t timeout_ms) const {
  AttachOptions options;
  options.keeper = address_;
  options.world_rank = WorldRank(3);
  options.world_size = 8;
  options.local_rank = 3;
  options.local_size = 8;
  options.init_timeout_ms = timeout_ms;
  return options;
}

AttachedEndpoint FakeNode::attach() const {
  auto client = client::attach(attach_options());
  EXPECT_TRUE(client.ok()) << client.error();
  return client ? std::move(client).value() : nullptr;
}

std::optional<SlotIndex> FakeNode::take_post(std::chrono::milliseconds at_most) {
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  while (!anything_posted()) {
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::yield();
  }
  if (header().ring_tail.load(std::memory_order_seq_cst) == head_) return take_record();
  const SlotIndex slot(segment_.ring_entry(head_).load(std::memory_order_relaxed));
  ++head_;
  header().ring_head.store(head_, std::memory_order_release);
  EXPECT_EQ(segment_.slot(slot).state.load(std::memory_order_acquire), static_cast<std::uint32_t>(SlotState::posted));
  return slot;
}

bool FakeNode::anything_posted() const {
  const std::uint32_t appended = header().overflow_tail.load(std::memory_order_seq_cst);
  return appended != records_.size() || header().ring_tail.load(std::memory_order_seq_cst) != head_;
}

SlotIndex FakeNode::take_record() {
  LocalRef next{header().overflow_first_region.load(), 0, header().overflow_first_address.load()};
  if (!records_.empty())
    next = reinterpret_cast<const OverflowRecord*>(at(records_.back(), sizeof(OverflowRecord)))->next;
  const auto* record = reinterpret_cast<const OverflowRecord*>(at(next, sizeof(OverflowRecord)));
  if (record == nullptr) throw std::runtime_error("an overflow record outside of the rank's memory");
  EXPECT_EQ(record->number, records_.size());
  EXPECT_EQ(record->operation.state.load(std::memory_order_acquire), static_cast<std::uint32_t>(SlotState::posted));
  records_.push_back(next);
  header().overflow_taken.store(static_cast<std::uint32_t>(records_.size()), std::memory_order_release);
  return SlotIndex(kSlotCount + static_cast<std::uint32_t>(records_.size()) - 1);
}

OperationSlot& FakeNode::place(SlotIndex slot) const {
  if (slot.value() < kSlotCount) return segment_.slot(slot);
  return reinterpret_cast<OverflowRecord*>(at(records_[slot.value() - kSlotCount], sizeof(OverflowRecord)))->operation;
}

bool FakeNode::doorbell_was_rung() const {
  std::uint64_t count = 0;
  return ::read(doorbell_.get(), &count, sizeof(count)) > 0;
}

void FakeNode::complete(SlotIndex index, CompletionStatus status, std::uint32_t late) {
  OperationSlot& slot = place(index);
  slot.result.status = static_cast<std::uint32_t>(status);
  slot.result.late_announcements = late;
  slot.result.bytes_by_reach = {1, 2, 3};
  slot.state.store(static_cast<std::uint32_t>(SlotState::done), std::memory_order_release);
  header().completions.fetch_add(1, std::memory_order_seq_cst);
  if (header().rank_sleeping.load(std::memory_order_seq_cst) != 0) futex_wake_all(header().completions);
}

void FakeNode::start_serving(bool sleepy) {
  serving_ = true;
  service_ = std::thread([this, sleepy] { serve(sleepy); });
}

void FakeNode::stop_serving() {
  if (!service_.joinable()) return;
  serving_ = false;
  ring(doorbell_);
  service_.join();
}

void FakeNode::serve(bool sleepy) {
  while (serving_.load()) {
    if (const auto slot = take_post(std::chrono::milliseconds(0))) {
      complete(*slot);
      ++served_;
      continue;
    }
    if (!sleepy) {
      std::this_thread::yield();
      continue;
    }
    header().service_sleeping.store(1, std::memory_order_seq_cst);
    if (!anything_posted() && serving_.load()) {
      pollfd waiting{doorbell_.get(), POLLIN, 0};
      ::poll(&waiting, 1, -1);
      std::uint64_t count = 0;
      if (::read(doorbell_.get(), &count, sizeof(count)) > 0) doorbells_ += count;
    }
    header().service_sleeping.store(0, std::memory_order_seq_cst);
  }
}

std::byte* FakeNode::at(LocalRef ref, std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  if (ref.region == kArenaRegion.value()) {
    const std::uint64_t offset = ref.address - header().rank_base_address.load();
    const bool inside = offset >= SegmentView::arena_offset() && offset + bytes <= SegmentView::segment_bytes();
    return inside ? segment_.base() + offset : nullptr;
  }
  const auto found = regions_.find(ref.region);
  if (found == regions_.end()) return nullptr;
  const std::uint64_t offset = ref.address - found->second.base;
  return offset <= found->second.bytes && bytes <= found->second.bytes - offset ? found->second.mapping + offset
                                                                                : nullptr;
}

void FakeNode::set_fatal(const std::string& text) {
  text.copy(header().fatal_text.data(), header().fatal_text.size());
  header().fatal.store(1, std::memory_order_release);
}

void FakeNode::hang_up() {
  const std::lock_guard lock(mutex_);
  // The keeper's thread closes it when it sees the end.
  ::shutdown(socket_.fd(), SHUT_RDWR);
}

void FakeNode::set_accept_regions(bool accept) {
  const std::lock_guard lock(mutex_);
  options_.accept_regions = accept;
}

void FakeNode::send(ControlKind kind, std::span<const std::byte> body) {
  const std::lock_guard lock(mutex_);
  EXPECT_TRUE(socket_.send_packet(encode_control(kind, body), {}));
}

std::optional<HelloBody> FakeNode::hello() const {
  const std::lock_guard lock(mutex_);
  return hello_;
}

std::size_t FakeNode::regions() const {
  const std::lock_guard lock(mutex_);
  return regions_.size();
}

void FakeNode::keep() {
  while (true) {
    std::array<pollfd, 3> watched{};
    {
      const std::lock_guard lock(mutex_);
      watched = {pollfd{stop_.get(), POLLIN, 0}, pollfd{listener_.get(), POLLIN, 0}, pollfd{socket_.fd(), POLLIN, 0}};
    }
    ::poll(watched.data(), watched.size(), -1);
    if (watched[0].revents != 0) return;
    const std::lock_guard lock(mutex_);
    if (watched[1].revents != 0) {
      UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (fd.valid()) socket_ = ControlSocket(std::move(fd));
      continue;
    }
    ControlSocket::Received received = socket_.receive(0);
    if (received.event == ControlSocket::Event::closed) socket_.close();
    if (received.event == ControlSocket::Event::malformed) problems_.push_back(received.problem);
    if (received.event == ControlSocket::Event::message) handle(std::move(*received.message));
  }
}

void FakeNode::handle(ControlMessage message) {
  switch (message.kind()) {
    case ControlKind::hello: return welcome(message.body<HelloBody>());
    case ControlKind::region_add: return add_region(message.body<RegionBody>(), message.fds()[0]);
    case ControlKind::region_drop: {
      const auto found = regions_.find(message.body<RegionBody>().region);
      if (message.body<RegionBody>().region > highest_region_) problems_.emplace_back("dropped what was never added");
      if (found == regions_.end()) return;
      ::munmap(found->second.mapping, found->second.bytes);
      regions_.erase(found);
      return;
    }
    case ControlKind::goodbye: goodbye_ = true; return;
    default: problems_.emplace_back("a message that ranks do not send");
  }
}

void FakeNode::welcome(const HelloBody& hello) {
  hello_ = hello;
  if (!options_.answer_hello) return;
  std::string refusal = options_.refusal;
  if (hello.secret != address_.secret) refusal = "wrong secret: this keeper belongs to another job";
  if (!refusal.empty()) {
    RefusedBody body;
    refusal.copy(body.reason.data(), body.reason.size() - 1);
    EXPECT_TRUE(socket_.send(ControlKind::refused, body));
    return;
  }
  if (options_.touch_probe) reinterpret_cast<std::atomic<std::uint64_t>*>(hello.probe_address)->fetch_add(1);
  WelcomeBody body;
  body.sp_count = 1;
  body.reach = options_.reach;
  body.cpu = options_.cpu;
  body.core_share = options_.core_share.value_or(options_.cpu < 0 ? copy::CoreShare::none : copy::CoreShare::own);
  const std::array<int, 2> fds{segment_fd_.get(), doorbell_.get()};
  EXPECT_TRUE(socket_.send(ControlKind::welcome, body, fds));
}

void FakeNode::add_region(const RegionBody& body, const UniqueFd& fd) {
  ++regions_ever_;
  if (body.region <= highest_region_) problems_.emplace_back("region ids must go up");
  highest_region_ = std::max(highest_region_, body.region);
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  if ((::fcntl(fd.get(), F_GET_SEALS) & kSeals) != kSeals) problems_.emplace_back("region is not sealed");
  if (body.base % 4096 != 0 || body.bytes % 4096 != 0) problems_.emplace_back("region is not whole pages");
  if (options_.accept_regions) {
    regions_.emplace(body.region, Region{body.base, body.bytes, map_shared(fd.get(), body.bytes)});
  }
  if (!options_.answer_regions) return;
  const RegionAddedBody answer{body.world_rank, body.region, options_.accept_regions ? 1U : 0U, 0};
  static_cast<void>(socket_.send(ControlKind::region_added, answer));
}

bool finish(RankEndpoint& client, PendingOperation& operation, std::chrono::milliseconds at_most) {
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  while (!client.poll(operation)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

std::vector<WorldRank> world(std::uint32_t size) {
  std::vector<WorldRank> members;
  for (std::uint32_t rank = 0; rank < size; ++rank) members.emplace_back(rank);
  return members;
}

int allowed_cpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  (void)::sched_getaffinity(0, sizeof(set), &set);
  int cpu = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(cpu), &set)) ++cpu;
  return cpu;
}

}  // namespace outrigger::client::test
