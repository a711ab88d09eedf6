#include "sim/model/model_service.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "copy/policy.hpp"

namespace outrigger::sim::model {
namespace {

// Events per turn, before the engine runs.
constexpr std::size_t kEventsATurn = 16;
// A request or an acknowledgement of bytes.
constexpr std::uint64_t kSignalBytes = 64;
// Per peer, for blocks it has not asked for yet; the same value as in outriggerd (fabric/ucx/wire_options.hpp).
constexpr std::uint64_t kEagerRoomBytes = 256U << 10U;
// Shorter blocks are part of their notice; the same value as in outriggerd (fabric/ucx/eager.cpp). The model charges
// longer ones for their bytes only, which suits short chunks: these join the messages of their turn.
constexpr std::uint64_t kBytesWithNotice = 4096;
constexpr std::uint64_t kUntilComputes_ns = std::chrono::nanoseconds(copy::kUntilComputes).count();

}  // namespace

// Bytes of one rank on their way to another rank's memory, or to a reduction.
class Service::Transfer final : public Receiver {
 public:
  Transfer(Service& mover, std::uint32_t source_rank, Place target, std::uint64_t bytes)
      : mover_(mover), source_rank_(source_rank), target_(target), bytes_(bytes), second_leg_(*this) {}

  // The target is this rank's memory, served by service process `by` there.
  void for_rank(WorldRank rank) { target_rank_ = rank; }
  void when_done(std::function<void()> done) { done_ = std::move(done); }
  fabric::MoveCompletion* completion = nullptr;

  // Parts of a reduction, or of a block that was sent eagerly: after all parts, there may be bytes to reduce.
  std::vector<std::unique_ptr<Transfer>> parts;
  std::optional<std::uint64_t> reduced_bytes;

  void start();
  // Before the other side has asked for it.
  void start_eagerly() { give_to(source_service(), Part::socket_out, bytes_); }
  void chunk_arrived(std::uint64_t bytes, bool last) override;
  void came_with_messages();
  // A core has finished such a piece.
  void did(Part part, std::uint64_t bytes);
  void part_done() {
    if (++parts_done_ == parts.size()) put_together();
  }
  // Once all parts are known.
  void count_what_is_here() {
    const auto is_here = [](const std::unique_ptr<Transfer>& part) { return part->is_here(); };
    for (auto here = std::ranges::count_if(parts, is_here); here != 0; --here) part_done();
  }
  [[nodiscard]] bool start_anywhere();
  [[nodiscard]] bool is_here() const { return placed_bytes_ == bytes_ && !done_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  // From memory beside the service process to the rank's.
  class SecondLeg final : public Receiver {
   public:
    explicit SecondLeg(Transfer& transfer) : transfer_(transfer) {}
    void chunk_arrived(std::uint64_t bytes, bool /*last*/) override { transfer_.placed(bytes); }

   private:
    Transfer& transfer_;
  };

  [[nodiscard]] Machine& machine() const { return mover_.machine_; }
  [[nodiscard]] Place source() const { return machine().place_of_rank(source_rank_); }
  [[nodiscard]] bool on_one_node() const { return source().node == target_.node; }
  [[nodiscard]] bool by_processors() const {
    return machine().cluster.network.wire == WireKind::processor && !on_one_node();
  }
  [[nodiscard]] bool is_staged() const {
    return mover_.costs_.reach == ServiceReach::staged && target_rank_.has_value();
  }
  [[nodiscard]] Service& source_service() const {
    return mover_.world_.service(SpId{machine().places.service_of(source_rank_)});
  }
  [[nodiscard]] Service& target_service() const {
    if (!target_rank_) return mover_;
    return mover_.world_.service(SpId{machine().places.service_of(target_rank_->value())});
  }
  void start_within_host();
  void start_from_dpu();
  void copy_by_service();
  void start_by_cards();
  void start_by_processors();
  void give_to(Service& service, Part part, std::uint64_t bytes);
  void put_together();
  // Bytes are in place.
  void placed(std::uint64_t bytes);
  void finished();

  Service& mover_;
  std::uint32_t source_rank_;
  Place target_;
  std::uint64_t bytes_;
  std::optional<WorldRank> target_rank_;
  SecondLeg second_leg_;
  std::function<void()> done_;
  std::uint64_t placed_bytes_ = 0;
  std::size_t parts_done_ = 0;
  bool copied_itself_ = false;
  std::uint64_t held_ns_ = 0;  // since then it waits for a rank or the card
  bool by_card_ = false;       // counted in card_bytes_
};

void Service::Transfer::start() {
  if (by_processors()) return start_by_processors();
  return on_one_node() ? start_within_host() : start_by_cards();
}

void Service::Transfer::start_within_host() {
  if (mover_.costs_.placement == Placement::dpu) return start_from_dpu();
  if (!target_rank_) return placed(bytes_);  // it is read in place
  const auto copied = [this] { placed(bytes_); };
  if (!mover_.world_.copy_by_rank(*target_rank_, bytes_, copied, [this] { copy_by_service(); })) copy_by_service();
}

void Service::Transfer::start_from_dpu() {
  if (!target_rank_ || !mover_.costs_.ranks_copy || bytes_ < copy::kLeastBytesToLend) return start_by_cards();
  held_ns_ = machine().time.now_ns();
  mover_.held_.push_back(this);
  mover_.share_out();
  machine().time.after(kUntilComputes_ns, [&mover = mover_] { mover.share_out(); });
}

// False: it still waits.
bool Service::Transfer::start_anywhere() {
  const WorldRank from{source_rank_};
  const ServiceWorld::Lender source = mover_.lender(from);
  const ServiceWorld::Lender target = mover_.lender(*target_rank_);
  const bool is_young = machine().time.now_ns() < held_ns_ + kUntilComputes_ns;
  const bool may_wait = source.waits || target.waits || is_young;
  const copy::HostMover mover = copy::host_mover_of(target.offer, source.offer, may_wait, mover_.card_bytes_);
  if (mover == copy::HostMover::none) return false;
  if (mover == copy::HostMover::card) {
    by_card_ = true;
    mover_.card_bytes_ += bytes_;
    start_by_cards();
    return true;
  }
  const auto left = [this] {
    mover_.held_.push_front(this);
    mover_.share_out();
  };
  const WorldRank rank = mover == copy::HostMover::destination ? *target_rank_ : from;
  return mover_.world_.copy_by_rank(
      rank, bytes_, [this] { placed(bytes_); }, left);
}

void Service::Transfer::copy_by_service() {
  copied_itself_ = true;
  give_to(mover_, mover_.costs_.relays() ? Part::relay : Part::copy, bytes_);
}

void Service::Transfer::start_by_cards() {
  const Place first_target = is_staged() ? mover_.place_ : target_;
  const Route way = machine().topology.route(source(), first_target);
  // The source's card needs a request, unless it is the service process's own.
  std::uint64_t asked_ns = 0;
  if (source().node != mover_.place_.node) {
    asked_ns = machine().network.control_ns(machine().topology.route(mover_.place_, source()), kSignalBytes);
    mover_.world_.asked_for_block();
  }
  machine().time.after(asked_ns, [this, way] { machine().network.send(way, bytes_, *this); });
}

void Service::Transfer::start_by_processors() {
  Service& sender = source_service();
  if (&sender == &mover_) return give_to(sender, Part::socket_out, bytes_);
  machine().time.after(mover_.control_ns_to(sender), [this, &sender] {
    sender.take(sender.costs_.event_ns, [this, &sender] { give_to(sender, Part::socket_out, bytes_); });
  });
}

void Service::Transfer::give_to(Service& service, Part part, std::uint64_t bytes) {
  service.core_jobs_.push_back(CoreJob{this, part, bytes});
  service.wake();
}

void Service::Transfer::chunk_arrived(std::uint64_t bytes, bool /*last*/) {
  if (by_processors()) return give_to(target_service(), Part::socket_in, bytes);
  if (!is_staged()) return placed(bytes);
  mover_.take(mover_.costs_.move_ns, [this, bytes] {
    const Route way = machine().topology.route(mover_.place_, target_);
    mover_.burst_.then([this, way, bytes] { machine().network.send(way, bytes, second_leg_); });
  });
}

void Service::Transfer::did(Part part, std::uint64_t bytes) {
  switch (part) {
    case Part::socket_out: return machine().network.send(machine().topology.route(source(), target_), bytes, *this);
    case Part::copy:
    case Part::relay:
    case Part::socket_in: return placed(bytes);
    case Part::reduce: break;
  }
  if (target_.memory == Memory::host && mover_.place_.memory == Memory::dpu) {
    return machine().network.send(machine().topology.route(mover_.place_, target_), bytes_, second_leg_);
  }
  placed(bytes_);
}

void Service::Transfer::put_together() {
  reduced_bytes ? give_to(mover_, Part::reduce, *reduced_bytes) : placed(bytes_);
}

void Service::Transfer::placed(std::uint64_t bytes) {
  placed_bytes_ += bytes;
  if (placed_bytes_ == bytes_) finished();
}

void Service::Transfer::came_with_messages() {
  placed_bytes_ = bytes_;
  const std::function<void()> done = std::move(done_);  // may end this transfer
  done();
}

void Service::Transfer::finished() {
  if (std::exchange(by_card_, false)) {
    mover_.card_bytes_ -= bytes_;
    mover_.share_out();
  }
  // A push ends with a message from the other side.
  const bool far = target_.node != mover_.place_.node;
  const Place other{target_.node, mover_.place_.memory};
  const Topology& topology = machine().topology;
  const std::uint64_t told_ns =
      far ? machine().network.control_ns(topology.route(other, mover_.place_), kSignalBytes) : 0;
  // It needs no event for its own core's copy.
  const std::uint64_t event_ns = copied_itself_ ? 0 : mover_.costs_.event_ns;
  machine().time.after(told_ns, [this, event_ns] {
    mover_.take(event_ns, [this] {
      const std::function<void()> done = std::move(done_);  // may end this transfer
      done();
    });
  });
}

Service::Service(Machine& machine, ServiceWorld& world, const engine::EngineConfig& config)
    : machine_(machine),
      world_(world),
      costs_(machine.cluster.service),
      self_(config.self),
      place_(machine.place_of_service(config.self.value())),
      processor_(machine.processors.of_services(place_.node)),
      process_(machine.process_of_service(config.self.value())),
      burst_(processor_, process_),
      copy_(machine, processor_, process_),
      engine_(std::make_unique<engine::Engine>(config, fabric::Seams{*this, *this, *this})) {
  for (std::uint32_t rank = 0; rank < machine.places.ranks(); ++rank) {
    if (machine.places.service_of(rank) == config.self.value()) own_ranks_.emplace_back(rank);
  }
  processor_.has_short_slices(process_);  // as outriggerd requests (docs/inside/algorithms.md)
}

Service::~Service() {
  engine_.reset();  // cancels its active moves
}

void Service::take(std::uint64_t cost_ns, std::function<void()> what) {
  inbox_.push_back(Event{cost_ns, std::move(what)});
  wake();
}

void Service::wake() {
  if (busy_) return;
  busy_ = true;
  machine_.time.after(0, [this] { turn(); });
}

void Service::turn() {
  burst_.begin();
  for (std::size_t taken = 0; taken < kEventsATurn && !inbox_.empty(); ++taken) {
    const Event event = std::move(inbox_.front());
    inbox_.pop_front();
    burst_.spend(event.cost_ns);
    event.what();
  }
  engine_->run();
  send_all();
  machine_.service_busy_ns[place_.node] += burst_.spent_ns();
  burst_.then([this] { core_jobs_.empty() ? end_turn() : do_core_job(); });
}

// Those that cannot be given away keep their order.
void Service::share_out() {
  bool open = somebody_can_take();
  std::erase_if(held_, [&](Transfer* transfer) {
    if (!open || !transfer->start_anywhere()) return false;
    open = somebody_can_take();
    return true;
  });
}

// Each held transfer has one of the own ranks at one end.
bool Service::somebody_can_take() const {
  const bool card_has_room = card_bytes_ < copy::kMostBytesByCard;
  return std::ranges::any_of(own_ranks_, [&](WorldRank rank) {
    const ServiceWorld::Lender state = lender(rank);
    return state.offer != copy::Offer::none || (card_has_room && !state.waits);
  });
}

void Service::end_turn() {
  busy_ = false;
  if (!inbox_.empty() || !core_jobs_.empty()) wake();
}

// One chunk of the oldest job; the rest goes to the back of the queue.
void Service::do_core_job() {
  CoreJob job = core_jobs_.front();
  core_jobs_.pop_front();
  const std::uint64_t bytes = std::min(job.bytes, machine_.cluster.network.chunk_bytes);
  job.bytes -= bytes;
  if (job.bytes != 0) core_jobs_.push_back(job);
  const auto done = [this, job, bytes] {
    job.transfer->did(job.part, bytes);
    end_turn();
  };
  const std::uint64_t core_ns = core_job_ns(job.part, bytes);
  machine_.service_busy_ns[place_.node] += core_ns;
  if (job.part == Part::copy || job.part == Part::relay) return copy_.begin(place_.node, bytes, core_ns, done);
  if (job.part != Part::reduce) return processor_.run(process_, core_ns, done);
  // The whole cost is charged at the end; only the last piece reports.
  processor_.run(process_, core_ns, [this, job, done] {
    if (job.bytes == 0) return done();
    end_turn();
  });
}

std::uint64_t Service::core_job_ns(Part part, std::uint64_t bytes) const {
  switch (part) {
    case Part::copy: return service_copy_ns(machine_, bytes);
    case Part::relay: return 2 * service_copy_ns(machine_, bytes);
    case Part::socket_out:
    case Part::socket_in: return bytes_ns(bytes, machine_.cluster.host.socket_bytes_per_s);
    case Part::reduce: break;
  }
  return bytes_ns(bytes, costs_.reduce_bytes_per_s);
}

// A rank lends to the service process that serves it.
ServiceWorld::Lender Service::lender(WorldRank rank) const {
  return machine_.places.service_of(rank.value()) == self_.value() ? world_.lender(rank) : ServiceWorld::Lender();
}

void Service::post(engine::PostedOperation operation) {
  take(costs_.event_ns, [this, posted = std::make_shared<engine::PostedOperation>(std::move(operation))] {
    engine_->post(std::move(*posted));
  });
}

Service::Transfer& Service::begin(const Block& from, const Block& to, fabric::MoveCompletion* completion) {
  burst_.spend(costs_.move_ns);
  auto made = std::make_unique<Transfer>(*this, from.memory.owner.value(),
                                         machine_.place_of_rank(to.memory.owner.value()), from.bytes);
  Transfer& transfer = *made;
  transfer.completion = completion;
  transfer.for_rank(to.memory.owner);
  transfer.when_done([this, &transfer] { ended(transfer); });
  const bool added = transfers_.emplace(completion, std::move(made)).second;
  assert(added);
  static_cast<void>(added);
  return transfer;
}

void Service::move(const Block& from, const Block& to, const BlockId* name, fabric::MoveCompletion& completion) {
  Transfer& whole = begin(from, to, &completion);
  if (name == nullptr || !eager_.contains(*name)) return burst_.then([&whole] { whole.start(); });
  const std::uint64_t came_bytes = take_eager(*name, whole);
  if (came_bytes < from.bytes) {
    auto rest = std::make_unique<Transfer>(*this, from.memory.owner.value(),
                                           machine_.place_of_rank(to.memory.owner.value()), from.bytes - came_bytes);
    rest->for_rank(to.memory.owner);
    add_part(whole, std::move(rest));
  }
  whole.count_what_is_here();
}

void Service::reduce(const Reduction& /*reduction*/, std::span<const Block> operands, std::span<const BlockId> names,
                     const Block& into, fabric::MoveCompletion& completion) {
  Transfer& whole = begin(into, into, &completion);
  whole.reduced_bytes = into.bytes * (operands.size() - 1);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Block& operand = operands[i];
    const std::uint64_t came_bytes = i < names.size() ? take_eager(names[i], whole) : 0;
    if (came_bytes == operand.bytes) continue;
    add_part(whole,
             std::make_unique<Transfer>(*this, operand.memory.owner.value(), place_, operand.bytes - came_bytes));
    burst_.spend(costs_.move_ns);
  }
  whole.count_what_is_here();
}

void Service::add_part(Transfer& whole, std::unique_ptr<Transfer> part) {
  part->when_done([&whole] { whole.part_done(); });
  burst_.then([&transfer = *part] { transfer.start(); });
  whole.parts.push_back(std::move(part));
}

// Bytes of the block that have arrived eagerly, or are on their way.
std::uint64_t Service::take_eager(const BlockId& id, Transfer& whole) {
  const auto found = eager_.find(id);
  if (found == eager_.end()) return 0;
  std::unique_ptr<Transfer> part = std::move(found->second);
  eager_.erase(found);
  if (!part->is_here()) part->when_done([&whole] { whole.part_done(); });
  whole.parts.push_back(std::move(part));
  return whole.parts.back()->bytes();
}

// If processors carry the bytes, sends as many as the other side has room for.
void Service::send_eager(const BlockId& id, const Block& from, SpId reader) {
  if (machine_.cluster.network.wire != WireKind::processor) return;
  if (machine_.place_of_service(reader.value()).node == place_.node) return;
  Service& to = world_.service(reader);
  std::uint64_t& room_bytes = eager_room_bytes_.try_emplace(reader, kEagerRoomBytes).first->second;
  const std::uint64_t chunk_bytes = machine_.cluster.network.chunk_bytes;
  const std::uint64_t bytes = from.bytes <= room_bytes ? from.bytes : room_bytes - room_bytes % chunk_bytes;
  if (bytes == 0) return;
  room_bytes -= bytes;
  sent_eagerly_.emplace(id, SentEagerly{reader, bytes});
  auto made = std::make_unique<Transfer>(to, from.memory.owner.value(), to.place_, bytes);
  made->when_done([] {});
  burst_.spend(costs_.move_ns);
  if (bytes <= kBytesWithNotice) {
    Batch& batch = batch_for(reader);
    batch.blocks.push_back(id);
    batch.bytes += bytes;
  } else {
    burst_.then([&transfer = *made] { transfer.start_eagerly(); });
  }
  const bool added = to.eager_.emplace(id, std::move(made)).second;
  assert(added && "a block is sent to each reader once");
  static_cast<void>(added);
}

void Service::withdraw_eager(const BlockId& id) {
  const auto found = sent_eagerly_.find(id);
  if (found == sent_eagerly_.end()) return;
  eager_room_bytes_.at(found->second.reader) += found->second.bytes;
  sent_eagerly_.erase(found);
}

// Bytes on their way still arrive.
void Service::forget_eager(const BlockId& id, SpId /*source*/) {
  const auto found = eager_.find(id);
  if (found == eager_.end()) return;
  if (found->second->is_here()) {
    eager_.erase(found);
  } else {
    found->second->when_done([this, id] { eager_.erase(id); });
  }
}

void Service::ended(Transfer& transfer) {
  const auto found = transfers_.find(transfer.completion);
  assert(found != transfers_.end());
  fabric::MoveCompletion* const completion = found->first;
  transfers_.erase(found);
  fabric::MoveOutcome outcome;
  outcome.reach = Reach::mapped;
  completion->moved(outcome);
}

// Only at an early end of a run: time stands still, so nothing on its way arrives any more.
void Service::cancel(fabric::MoveCompletion& completion) {
  const auto found = transfers_.find(&completion);
  if (found == transfers_.end()) return;
  std::erase(held_, found->second.get());
  transfers_.erase(found);
}

std::uint64_t Service::control_ns_to(const Service& peer) const {
  if (peer.place_.node == place_.node) return costs_.notice_ns;
  return machine_.network.control_ns(machine_.topology.route(place_, peer.place_), kSignalBytes);
}

Batch& Service::batch_for(SpId to) {
  const auto batch = std::ranges::find(batches_, to, &Batch::to);
  return batch != batches_.end() ? *batch : batches_.emplace_back(Batch{self_, to, {}, {}, 0});
}

void Service::send(SpId to, std::span<const std::byte> message) {
  Batch& batch = batch_for(to);
  batch.messages.emplace_back(message.begin(), message.end());
  batch.bytes += message.size();
}

void Service::send_all() {
  for (Batch& batch : std::exchange(batches_, {})) {
    burst_.spend(costs_.message_ns);
    const Place peer = machine_.place_of_service(batch.to.value());
    std::uint64_t way_ns = costs_.notice_ns;
    if (peer.node != place_.node) {
      way_ns = machine_.network.control_ns(machine_.topology.route(place_, peer), batch.bytes);
    }
    burst_.then([this, way_ns, said = std::make_shared<const Batch>(std::move(batch))] {
      std::uint64_t& arrival_ns = arrivals_[said->to];
      arrival_ns = std::max(arrival_ns, machine_.time.now_ns() + way_ns);  // in order
      machine_.time.at(arrival_ns, [this, said] { world_.deliver(said); });
    });
  }
}

void Service::receive(const std::shared_ptr<const Batch>& batch) {
  const std::size_t parts = batch->messages.size() + batch->blocks.size();
  take(costs_.event_ns * parts, [this, batch] {
    for (const BlockId& block : batch->blocks) {
      const auto found = eager_.find(block);
      if (found != eager_.end()) found->second->came_with_messages();
    }
    for (const std::vector<std::byte>& message : batch->messages) {
      const bool well_formed = engine_->receive(batch->from, message);
      assert(well_formed && "the engine's messages are well-formed");
      static_cast<void>(well_formed);
    }
  });
}

void Service::mark_block(WorldRank /*destination*/, SlotIndex /*slot*/, GroupRank /*source*/, BlockMark /*mark*/) {
  burst_.spend(costs_.mark_ns);
}

void Service::complete(WorldRank rank, SlotIndex slot, const fabric::CompletionRecord& record) {
  burst_.spend(costs_.mark_ns);
  const bool ok = record.status == CompletionStatus::ok;
  burst_.then([this, rank, slot, ok] {
    machine_.time.after(costs_.notice_ns, [this, rank, slot, ok] { world_.completed(rank, slot, ok); });
  });
}

}  // namespace outrigger::sim::model
