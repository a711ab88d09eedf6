#include "operation.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <sstream>

namespace differential {
namespace {

constexpr std::int64_t most_pieces = 20'000;  // more than this, and layouts of small pieces take too long to check

std::vector<int> permutation(Random& random, std::size_t size, bool shuffle) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = size; shuffle && i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(static_cast<int>(i)))]);
  }
  return order;
}

Buffer make_buffer(Random& random, MPI_Aint low, MPI_Aint high, std::uint64_t content) {
  const bool from_mpi = random.chance(50);
  const std::size_t skip = random.chance(40) ? 16 * static_cast<std::size_t>(random.below(600)) : 0;
  return Buffer(low, high, from_mpi, skip, content);
}

int any_divisor(Random& random, int number) {
  int candidate = random.between(1, number);
  while (number % candidate != 0) --candidate;
  return candidate;
}

}  // namespace

Plan Plan::make(std::uint64_t seed, int group_size, std::int64_t max_bytes, bool careful) {
  Random random(seed);
  Plan plan;
  plan.seed = seed;
  plan.call = random.chance(50) ? Call::alltoall : Call::alltoallv;
  plan.in_place = random.chance(15);
  plan.unit = static_cast<UnitKind>(random.below(unit_kinds));
  plan.typed = random.chance(60);
  // In place, Open MPI 4.1's Ialltoallv and, with structs and pairs, MPICH 4.0's nonblocking calls move wrong bytes.
  if (careful && plan.call == Call::alltoallv) plan.in_place = false;
  if (careful && plan.in_place && plan.unit >= UnitKind::pair) plan.unit = UnitKind::integer;
  if (careful && plan.in_place) plan.typed = false;
  constexpr std::array<int, 9> quanta = {1, 1, 2, 3, 4, 6, 8, 12, 24};
  plan.quantum = plan.typed ? quanta[static_cast<std::size_t>(random.below(static_cast<int>(quanta.size())))] : 1;
  const std::int64_t limit = random.chance(4) ? max_bytes : std::min<std::int64_t>(max_bytes, 384 << 10);
  const std::int64_t bytes = random.log_uniform(std::max<std::int64_t>(1, limit / group_size));
  plan.longest = std::max<std::int64_t>(1, bytes / (plan.quantum * unit_bytes(plan.unit)));
  if (careful && plan.typed) plan.keep_small();
  if (random.chance(4)) plan.longest = 0;
  plan.empty_percent = random.chance(50) ? 0 : random.below(90);
  plan.coarse = plan.longest * plan.quantum * group_size > most_pieces;
  return plan;
}

void Plan::keep_small() {
  constexpr std::int64_t most_bytes = 60'000;
  longest = std::min(longest, std::max<std::int64_t>(1, most_bytes / (quantum * unit_bytes(unit))));
}

std::int64_t Plan::block(int from, int to) const {
  if (longest == 0 || call == Call::alltoall) return longest;
  const int low = in_place ? std::min(from, to) : from;  // in place: as much goes there as comes back
  const int high = in_place ? std::max(from, to) : to;
  Random random(mix({seed, 77, static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high)}));
  if (random.chance(empty_percent)) return 0;
  return random.chance(30) ? longest
                           : static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(longest + 1));
}

Operation::Operation(const Plan& plan, const Communicator& communicator) : plan_(plan), communicator_(&communicator) {
  const auto rank = static_cast<std::uint64_t>(communicator.rank);
  Random random(mix({plan.seed, 88, rank}));
  send_content_ = mix({plan.seed, 99, rank});
  receive_content_ = mix({plan.seed, 100, rank});
  large_form_ = random.chance(30);
  blocking_reference_ = Random(mix({plan.seed, 101})).chance(25);

  receive_side_ = make_side(random, false);
  received_ = make_buffer(random, receive_side_.low, receive_side_.high, receive_content_);
  expected_ = Buffer(receive_side_.low, receive_side_.high, false, 0, receive_content_);
  receive_absolute_ = type_at(receive_side_, received_);
  if (plan.in_place) {
    send_ = Buffer(receive_side_.low, receive_side_.high, false, 0, receive_content_);
    send_absolute_ = type_at(receive_side_, send_);
    send_content_ = receive_content_;
    return;
  }
  send_side_ = make_side(random, true);
  send_ = make_buffer(random, send_side_.low, send_side_.high, send_content_);
  send_absolute_ = type_at(send_side_, send_);
}

Operation::Side Operation::make_side(Random& random, bool sending) const {
  const int me = communicator_->rank;
  std::vector<std::int64_t> quanta;
  for (int peer = 0; peer < communicator_->size; ++peer) {
    quanta.push_back(sending ? plan_.block(me, peer) : plan_.block(peer, me));
  }
  if (plan_.typed && !plan_.coarse && random.chance(15)) return make_columns(random, quanta);

  // One item of the type holds `units`, a divisor of the quantum or, where all blocks are as long, of a block.
  int units = any_divisor(random, plan_.quantum);
  if (plan_.typed && plan_.call == Call::alltoall && random.chance(25)) {
    units = any_divisor(random, static_cast<int>(std::max<std::int64_t>(1, plan_.longest) * plan_.quantum));
  }
  Side side;
  side.type = make_type(random, plan_.unit, plan_.typed ? units : 1, plan_.coarse);
  if (!plan_.typed) units = 1;
  for (std::int64_t blocks : quanta) side.counts.push_back(static_cast<int>(blocks * plan_.quantum / units));
  place_blocks(random, sending, side);
  return side;
}

// As a transpose has it: every item is a column of one matrix.
Operation::Side Operation::make_columns(Random& random, const std::vector<std::int64_t>& quanta) const {
  Side side;
  const int units = any_divisor(random, plan_.quantum);
  int width = 1;
  for (std::int64_t blocks : quanta) {
    side.counts.push_back(static_cast<int>(blocks * plan_.quantum / units));
    side.displacements.push_back(width - 1);
    width += side.counts.back();
  }
  side.type = make_column(random, plan_.unit, units, width + random.below(3));
  const Datatype::Span span = side.type.span();
  side.low = std::min<MPI_Aint>(0, span.true_lower);
  side.high = span.true_lower + span.true_extent + width * span.extent;
  side.bottom = random.chance(15);
  return side;
}

// Displacements with gaps and in any order; what is sent may also overlap. Regular blocks follow one another.
void Operation::place_blocks(Random& random, bool sending, Side& side) const {
  const bool regular = plan_.call == Call::alltoall;
  const bool gaps = !regular && random.chance(60);
  const bool overlap = sending && !regular && random.chance(15);
  side.displacements.assign(side.counts.size(), 0);
  int at = regular ? 0 : random.between(-20, 20);
  for (int peer : permutation(random, side.counts.size(), gaps)) {
    const auto i = static_cast<std::size_t>(peer);
    side.displacements[i] = at;
    if (!overlap) at += side.counts[i] + (gaps ? random.below(4) : 0);
  }
  const Datatype::Span span = side.type.span();
  bool first = true;
  for (std::size_t i = 0; i < side.counts.size(); ++i) {
    if (side.counts[i] == 0) continue;
    const MPI_Aint low = side.displacements[i] * span.extent + span.true_lower;
    const MPI_Aint high = low + (side.counts[i] - 1) * span.extent + span.true_extent;
    side.low = first ? low : std::min(side.low, low);
    side.high = first ? high : std::max(side.high, high);
    first = false;
  }
  side.bottom = random.chance(10);
}

Datatype Operation::type_at(const Side& side, const Buffer& buffer) const {
  return side.bottom ? at_address(side.type, buffer.base()) : Datatype();
}

void Operation::start(const Side& from, bool large, MPI_Comm communicator, const void* send, MPI_Datatype send_type,
                      void* receive, MPI_Datatype receive_type, MPI_Request* request) {
  const Side& to = receive_side_;
  const bool regular = plan_.call == Call::alltoall;
#if MPI_VERSION >= 4
  if (large) {
    for (std::size_t i = 0; i < 2; ++i) {
      const Side& side = i == 0 ? from : to;
      large_counts_[i].assign(side.counts.begin(), side.counts.end());
      large_displacements_[i].assign(side.displacements.begin(), side.displacements.end());
    }
    if (regular) {
      MPI_Ialltoall_c(send, large_counts_[0][0], send_type, receive, large_counts_[1][0], receive_type, communicator,
                      request);
    } else {
      MPI_Ialltoallv_c(send, large_counts_[0].data(), large_displacements_[0].data(), send_type, receive,
                       large_counts_[1].data(), large_displacements_[1].data(), receive_type, communicator, request);
    }
    return;
  }
#else
  static_cast<void>(large);  // this MPI has no large-count forms
#endif
  if (regular) {
    MPI_Ialltoall(send, from.counts[0], send_type, receive, to.counts[0], receive_type, communicator, request);
  } else {
    MPI_Ialltoallv(send, from.counts.data(), from.displacements.data(), send_type, receive, to.counts.data(),
                   to.displacements.data(), receive_type, communicator, request);
  }
}

void Operation::post(MPI_Request* request) {
  const void* send = plan_.in_place ? MPI_IN_PLACE : send_side_.bottom ? MPI_BOTTOM : send_.base();
  const MPI_Datatype send_type = plan_.in_place      ? MPI_DATATYPE_NULL
                                 : send_side_.bottom ? send_absolute_.get()
                                                     : send_side_.type.get();
  void* receive = receive_side_.bottom ? MPI_BOTTOM : received_.base();
  const MPI_Datatype receive_type = receive_side_.bottom ? receive_absolute_.get() : receive_side_.type.get();
  const Side& from = plan_.in_place ? receive_side_ : send_side_;  // in place: ignored, but must be readable
  start(from, large_form_, communicator_->offloaded, send, send_type, receive, receive_type, request);
}

void Operation::run_native() {
  // In place is the same as sending from a copy of the receive buffer, and that, unlike in place, all MPIs get right.
  const Side& from = plan_.in_place ? receive_side_ : send_side_;
  const Side& to = receive_side_;
  const void* send = from.bottom ? MPI_BOTTOM : send_.base();
  const MPI_Datatype send_type = from.bottom ? send_absolute_.get() : from.type.get();
  // Open MPI 4.1 puts a rank's own block wrong beyond 64 KiB when it receives by absolute addresses: no MPI_BOTTOM
  // here.
  void* receive = expected_.base();
  const MPI_Datatype receive_type = to.type.get();
  if (!blocking_reference_) {
    run_native_patiently(from, send, send_type, receive, receive_type);
  } else if (plan_.call == Call::alltoall) {
    MPI_Alltoall(send, from.counts[0], send_type, receive, to.counts[0], receive_type, communicator_->native);
  } else {
    MPI_Alltoallv(send, from.counts.data(), from.displacements.data(), send_type, receive, to.counts.data(),
                  to.displacements.data(), receive_type, communicator_->native);
  }
  correct_own_block(from);
}

// Open MPI 4.1 gets a rank's own block wrong beyond 64 KiB where types with gaps are involved; packing it is right.
void Operation::correct_own_block(const Side& from) {
  const auto me = static_cast<std::size_t>(communicator_->rank);
  const auto address = [me](const Side& side, const Buffer& buffer) {
    return buffer.base() + side.displacements[me] * side.type.span().extent;
  };
  int bytes = 0;
  MPI_Pack_size(from.counts[me], from.type.get(), communicator_->native, &bytes);
  if (bytes == 0) return;
  std::vector<char> packed(static_cast<std::size_t>(bytes));
  int position = 0;
  MPI_Pack(address(from, send_), from.counts[me], from.type.get(), packed.data(), bytes, &position,
           communicator_->native);
  const int length = position;
  position = 0;
  MPI_Unpack(packed.data(), length, &position, address(receive_side_, expected_), receive_side_.counts[me],
             receive_side_.type.get(), communicator_->native);
}

// An MPI whose blocking calls never yield takes a time slice for each message when ranks share a core; this does not.
void Operation::run_native_patiently(const Side& from, const void* send, MPI_Datatype send_type, void* receive,
                                     MPI_Datatype receive_type) {
  MPI_Request request;
  int done = 0;
  start(from, false, communicator_->native, send, send_type, receive, receive_type, &request);
  while (done == 0) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) sched_yield();
  }
}

std::optional<std::string> Operation::difference() const {
  std::ostringstream text;
  const std::ptrdiff_t at = received_.first_difference(expected_);
  if (at != Buffer::none) {
    text << "receive buffer differs first at byte " << at << " from its base: got " << received_.at(at)
         << ", native gives " << expected_.at(at);
    const Datatype::Span span = receive_side_.type.span();
    for (std::size_t i = 0; i < receive_side_.counts.size(); ++i) {
      const MPI_Aint low = plan_.call == Call::alltoall
                               ? static_cast<MPI_Aint>(i) * receive_side_.counts[i] * span.extent
                               : receive_side_.displacements[i] * span.extent;
      const MPI_Aint high = low + receive_side_.counts[i] * span.extent;
      if (at >= low + span.lower && at < high + span.lower) text << " (block from rank " << i << ")";
    }
    return text.str();
  }
  if (!send_.untouched(send_content_)) return "the send buffer was written to";
  return std::nullopt;
}

std::string Operation::describe() const {
  std::ostringstream text;
  text << (plan_.call == Call::alltoall ? "MPI_Ialltoall" : "MPI_Ialltoallv");
#if MPI_VERSION >= 4
  if (large_form_) text << "_c";
#endif
  text << " on '" << communicator_->name << "' (rank " << communicator_->rank << " of " << communicator_->size << ")";
  const auto say = [&](const char* name, const Side& side) {
    text << ", " << name << ": [" << side.type.name() << "] counts";
    const std::size_t shown = plan_.call == Call::alltoall ? 1 : side.counts.size();
    for (std::size_t i = 0; i < shown; ++i) text << " " << side.counts[i];
    if (plan_.call == Call::alltoallv) {
      text << " displacements";
      for (int displacement : side.displacements) text << " " << displacement;
    }
    if (side.bottom) text << " from MPI_BOTTOM";
  };
  if (plan_.in_place) {
    text << ", in place";
  } else {
    say("send", send_side_);
  }
  say("receive", receive_side_);
  return text.str();
}

}  // namespace differential
