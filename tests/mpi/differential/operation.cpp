#include "operation.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <sstream>

#include "../programs/persistent_calls.hpp"

namespace differential {
namespace {

constexpr std::int64_t most_pieces = 20'000;  // layouts with more small pieces take too long to check

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
  plan.call = static_cast<Call>(random.below(calls));
  plan.in_place = random.chance(15) && plan.call != Call::bcast;
  plan.unit = static_cast<UnitKind>(random.below(unit_kinds));
  plan.typed = random.chance(60);
  // In place, Open MPI 4.1's Ialltoallv moves wrong bytes, and so do MPICH 4.0's nonblocking calls with structs and
  // pairs.
  if (careful && (plan.call == Call::alltoallv || plan.call == Call::alltoallw)) plan.in_place = false;
  if (careful && plan.in_place && plan.unit >= UnitKind::pair) plan.unit = UnitKind::integer;
  if (careful && plan.in_place) plan.typed = false;
  // If ranks describe the same blocks by different types, Allgatherv and Bcast choose differently on each.
  if (careful && (plan.gathers() || plan.call == Call::bcast || plan.rooted())) plan.typed = false;
  if (careful && plan.rooted()) plan.in_place = false;
  constexpr std::array<int, 9> quanta = {1, 1, 2, 3, 4, 6, 8, 12, 24};
  plan.quantum = plan.typed ? quanta[static_cast<std::size_t>(random.below(static_cast<int>(quanta.size())))] : 1;
  const std::int64_t limit = random.chance(4) ? max_bytes : std::min<std::int64_t>(max_bytes, 384 << 10);
  const std::int64_t bytes = random.log_uniform(std::max<std::int64_t>(1, limit / group_size));
  plan.longest = std::max<std::int64_t>(1, bytes / (plan.quantum * unit_bytes(plan.unit)));
  if (careful && plan.typed) plan.keep_small();
  if (random.chance(4)) plan.longest = 0;
  plan.empty_percent = random.chance(50) ? 0 : random.below(90);
  // Open MPI 4.1's Ialltoallw crashes if there is nothing to send or receive.
  if (careful && plan.call == Call::alltoallw) {
    plan.longest = std::max<std::int64_t>(1, plan.longest);
    plan.empty_percent = 0;
    plan.shortest = 1;
  }
  plan.coarse = plan.longest * plan.quantum * group_size > most_pieces;
  return plan;
}

// Open MPI 4.1's Ialltoallw also crashes in a group of one, and on a communicator with a topology.
void Plan::keep_native_right() {
  keep_small();
  if (call == Call::alltoallw) call = Call::alltoallv;
}

void Plan::keep_small() {
  constexpr std::int64_t most_bytes = 60'000;
  longest = std::min(longest, std::max<std::int64_t>(1, most_bytes / (quantum * unit_bytes(unit))));
}

std::int64_t Plan::block(int from, int to) const {
  if (longest == 0 || regular()) return longest;
  if (gathers()) to = from;
  const int low = in_place ? std::min(from, to) : from;  // in place: both directions have the same length
  const int high = in_place ? std::max(from, to) : to;
  Random random(mix({seed, 77, static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high)}));
  if (random.chance(empty_percent)) return 0;
  if (random.chance(30)) return longest;
  return std::max(shortest, static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(longest + 1)));
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
  receive_absolute_ = types_at(receive_side_, received_);
  if (sends_in_place()) {
    send_ = Buffer(receive_side_.low, receive_side_.high, false, 0, receive_content_);
    send_absolute_ = types_at(receive_side_, send_);
    send_content_ = receive_content_;
    return;
  }
  send_side_ = make_side(random, true);
  send_ = make_buffer(random, send_side_.low, send_side_.high, send_content_);
  send_absolute_ = types_at(send_side_, send_);
}

int Operation::root() const {
  return static_cast<int>(mix({plan_.seed, 102}) % static_cast<std::uint64_t>(communicator_->size));
}

bool Operation::is_idle(bool sending) const {
  if (plan_.call == Call::bcast) return sending != is_root();
  if (plan_.gathers_at_root()) return !sending && !is_root();
  return plan_.scatters() && (sending ? !is_root() : receives_in_place());
}

Operation::Side Operation::make_side(Random& random, bool sending) const {
  const int me = communicator_->rank;
  std::vector<std::int64_t> quanta;
  for (int peer = 0; peer < communicator_->size; ++peer) {
    const bool with_root = sending ? plan_.gathers_at_root() : plan_.scatters();
    const bool one = (sending && plan_.gathers()) || plan_.call == Call::bcast || with_root;
    if ((one && peer > 0) || is_idle(sending)) break;
    const int other = with_root ? root() : peer;
    quanta.push_back(sending ? plan_.block(me, other) : plan_.block(other, me));
  }
  const bool typed_each = plan_.call == Call::alltoallw;
  if (plan_.typed && !typed_each && !plan_.coarse && random.chance(15)) return make_columns(random, quanta);

  Side side;
  for (std::size_t i = 0; i < (typed_each ? quanta.size() : 1); ++i) {
    // One item of the type has `units`, a divisor of the quantum or, if all blocks have the same length, of a block.
    int units = any_divisor(random, plan_.quantum);
    if (plan_.typed && plan_.regular() && random.chance(25)) {
      units = any_divisor(random, static_cast<int>(std::max<std::int64_t>(1, plan_.longest) * plan_.quantum));
    }
    if (!plan_.typed) units = 1;
    side.types.push_back(make_type(random, plan_.unit, units, plan_.coarse));
    const auto items = [&](std::int64_t blocks) { return static_cast<int>(blocks * plan_.quantum / units); };
    if (typed_each) {
      side.counts.push_back(items(quanta[i]));
    } else {
      for (std::int64_t blocks : quanta) side.counts.push_back(items(blocks));
    }
  }
  place_blocks(random, sending, side);
  return side;
}

// As in a transpose: every item is a column of one matrix.
Operation::Side Operation::make_columns(Random& random, const std::vector<std::int64_t>& quanta) const {
  Side side;
  const int units = any_divisor(random, plan_.quantum);
  int width = 1;
  for (std::int64_t blocks : quanta) {
    side.counts.push_back(static_cast<int>(blocks * plan_.quantum / units));
    side.displacements.push_back(width - 1);
    width += side.counts.back();
  }
  side.types.push_back(make_column(random, plan_.unit, units, width + random.below(3)));
  const Datatype::Span span = side.type(0).span();
  side.low = std::min<MPI_Aint>(0, span.true_lower);
  side.high = span.true_lower + span.true_extent + width * span.extent;
  side.bottom = random.chance(15);
  return side;
}

// Displacements with gaps and in any order; send blocks may also overlap. Regular blocks are contiguous.
void Operation::place_blocks(Random& random, bool sending, Side& side) const {
  const bool regular = plan_.regular() || side.counts.size() == 1;
  const bool in_bytes = plan_.call == Call::alltoallw;
  const bool gaps = !regular && random.chance(60);
  const bool overlap = sending && !regular && random.chance(15);
  side.displacements.assign(side.counts.size(), 0);
  int at = regular ? 0 : random.between(-20, 20);
  if (in_bytes) at *= 16;  // every predefined type is aligned there
  for (int peer : permutation(random, side.counts.size(), gaps)) {
    const auto i = static_cast<std::size_t>(peer);
    side.displacements[i] = at;
    if (overlap) continue;
    if (!in_bytes) {
      at += side.counts[i] + (gaps ? random.below(4) : 0);
      continue;
    }
    // Items may reach below the displacement: the block begins where the last one ended.
    const Datatype::Span span = side.type(i).span();
    const MPI_Aint below = std::min<MPI_Aint>(0, std::min(span.lower, span.true_lower));
    side.displacements[i] = at + static_cast<int>((-below + 15) / 16 * 16);
    const MPI_Aint above = std::max<MPI_Aint>(span.lower + span.extent, span.true_lower + span.true_extent);
    const MPI_Aint end = side.displacements[i] + std::max<MPI_Aint>(0, above + (side.counts[i] - 1) * span.extent);
    at = static_cast<int>((end + 15) / 16 * 16) + (gaps ? 16 * random.below(4) : 0);
  }
  bool first = true;
  for (std::size_t i = 0; i < side.counts.size(); ++i) {
    if (side.counts[i] == 0) continue;
    const Datatype::Span span = side.type(i).span();
    const MPI_Aint low = offset_of(side, i) + span.true_lower;
    const MPI_Aint high = low + (side.counts[i] - 1) * span.extent + span.true_extent;
    side.low = first ? low : std::min(side.low, low);
    side.high = first ? high : std::max(side.high, high);
    first = false;
  }
  side.bottom = random.chance(10);
}

MPI_Aint Operation::offset_of(const Side& side, std::size_t block) const {
  if (plan_.call == Call::alltoallw) return side.displacements[block];
  const MPI_Aint extent = side.type(block).span().extent;
  return (plan_.regular() ? static_cast<MPI_Aint>(block) * side.counts[block] : side.displacements[block]) * extent;
}

std::vector<Datatype> Operation::types_at(const Side& side, const Buffer& buffer) const {
  std::vector<Datatype> absolute;
  if (!side.bottom) return absolute;
  for (const Datatype& type : side.types) absolute.push_back(at_address(type, buffer.base()));
  return absolute;
}

Operation::Place Operation::place_in(const Side& side, void* base, const std::vector<Datatype>& absolute) {
  Place place;
  place.side = &side;
  place.address = absolute.empty() ? base : MPI_BOTTOM;
  for (const Datatype& type : absolute.empty() ? side.types : absolute) place.types.push_back(type.get());
  return place;
}

void Operation::start_large(const Place& from, const Place& to, MPI_Comm communicator, MPI_Request* request) {
  if (plan_.rooted()) return start_rooted_large(from, to, communicator, request);
#if MPI_VERSION >= 4
  for (std::size_t i = 0; i < 2; ++i) {
    const Side& side = i == 0 ? *from.side : *to.side;
    large_counts_[i].assign(side.counts.begin(), side.counts.end());
    large_displacements_[i].assign(side.displacements.begin(), side.displacements.end());
  }
  const MPI_Count* counts = large_counts_[0].data();
  const MPI_Count* to_counts = large_counts_[1].data();
  const MPI_Aint* displacements = large_displacements_[0].data();
  const MPI_Aint* to_displacements = large_displacements_[1].data();
  const MPI_Count count = large_counts_[0].empty() ? 0 : counts[from.block];
  const MPI_Datatype* types = handles_[0].data();
  const MPI_Datatype* to_types = handles_[1].data();
  switch (plan_.call) {
    case Call::alltoall:
      MPI_Ialltoall_c(from.address, count, types[0], to.address, to_counts[0], to_types[0], communicator, request);
      break;
    case Call::alltoallv:
      MPI_Ialltoallv_c(from.address, counts, displacements, types[0], to.address, to_counts, to_displacements,
                       to_types[0], communicator, request);
      break;
    case Call::alltoallw:
      MPI_Ialltoallw_c(from.address, counts, displacements, types, to.address, to_counts, to_displacements, to_types,
                       communicator, request);
      break;
    case Call::allgather:
      MPI_Iallgather_c(from.address, count, types[0], to.address, to_counts[0], to_types[0], communicator, request);
      break;
    case Call::bcast: {
      const bool sends = is_root();
      MPI_Ibcast_c(end(from, to).address, sends ? count : to_counts[0], sends ? types[0] : to_types[0], root(),
                   communicator, request);
      break;
    }
    case Call::allgatherv:
      MPI_Iallgatherv_c(from.address, count, types[0], to.address, to_counts, to_displacements, to_types[0],
                        communicator, request);
      break;
    default: break;
  }
#else
  start(from, to, false, communicator, request);  // this MPI has no large-count forms
#endif
}

void Operation::start(const Place& from, const Place& to, bool large, MPI_Comm communicator, MPI_Request* request) {
  handles_[0] = from.types;
  handles_[1] = to.types;
  if (large) return start_large(from, to, communicator, request);
  if (plan_.rooted()) return start_rooted(from, to, communicator, request);
  const int* counts = from.side->counts.data();
  const int* to_counts = to.side->counts.data();
  const int* displacements = from.side->displacements.data();
  const int* to_displacements = to.side->displacements.data();
  const int count = from.side->counts.empty() ? 0 : counts[from.block];
  const MPI_Datatype* types = handles_[0].data();
  const MPI_Datatype* to_types = handles_[1].data();
  switch (plan_.call) {
    case Call::alltoall:
      MPI_Ialltoall(from.address, count, types[0], to.address, to_counts[0], to_types[0], communicator, request);
      break;
    case Call::alltoallv:
      MPI_Ialltoallv(from.address, counts, displacements, types[0], to.address, to_counts, to_displacements,
                     to_types[0], communicator, request);
      break;
    case Call::alltoallw:
      MPI_Ialltoallw(from.address, counts, displacements, types, to.address, to_counts, to_displacements, to_types,
                     communicator, request);
      break;
    case Call::allgather:
      MPI_Iallgather(from.address, count, types[0], to.address, to_counts[0], to_types[0], communicator, request);
      break;
    case Call::bcast: {
      const Place& here = end(from, to);
      MPI_Ibcast(here.address, here.side->counts[0], here.types[0], root(), communicator, request);
      break;
    }
    case Call::allgatherv:
      MPI_Iallgatherv(from.address, count, types[0], to.address, to_counts, to_displacements, to_types[0], communicator,
                      request);
      break;
    default: break;
  }
}

void Operation::run_blocking(MPI_Comm communicator, const Place& from, const Place& to) {
  if (plan_.rooted()) return run_blocking_rooted(communicator, from, to);
  const int* counts = from.side->counts.data();
  const int* to_counts = to.side->counts.data();
  const int* displacements = from.side->displacements.data();
  const int* to_displacements = to.side->displacements.data();
  const int count = from.side->counts.empty() ? 0 : counts[from.block];
  const MPI_Datatype* types = from.types.data();
  const MPI_Datatype* to_types = to.types.data();
  switch (plan_.call) {
    case Call::alltoall:
      MPI_Alltoall(from.address, count, types[0], to.address, to_counts[0], to_types[0], communicator);
      break;
    case Call::alltoallv:
      MPI_Alltoallv(from.address, counts, displacements, types[0], to.address, to_counts, to_displacements, to_types[0],
                    communicator);
      break;
    case Call::alltoallw:
      MPI_Alltoallw(from.address, counts, displacements, types, to.address, to_counts, to_displacements, to_types,
                    communicator);
      break;
    case Call::allgather:
      MPI_Allgather(from.address, count, types[0], to.address, to_counts[0], to_types[0], communicator);
      break;
    case Call::bcast: {
      const Place& here = end(from, to);
      MPI_Bcast(here.address, here.side->counts[0], here.types[0], root(), communicator);
      break;
    }
    case Call::allgatherv:
      MPI_Allgatherv(from.address, count, types[0], to.address, to_counts, to_displacements, to_types[0], communicator);
      break;
    default: break;
  }
}

// Arguments of the offloaded call.
Operation::Place Operation::sent_from() const {
  if (!sends_in_place()) return place_in(send_side_, send_.base(), send_absolute_);
  Place ignored = place_in(receive_side_, received_.base(), receive_absolute_);  // but it must be readable
  ignored.address = MPI_IN_PLACE;
  // Open MPI 4.1 reads the types of Ialltoallw nevertheless.
  if (plan_.call != Call::alltoallw) std::fill(ignored.types.begin(), ignored.types.end(), MPI_DATATYPE_NULL);
  return ignored;
}

void Operation::post(MPI_Request* request) {
  const Place to = place_in(receive_side_, received_.base(), receive_absolute_);
  start(sent_from(), to, large_form_, communicator_->offloaded, request);
}

void Operation::make_persistent(const Place& from, const Place& to, MPI_Comm communicator) {
  handles_[0] = from.types;
  handles_[1] = to.types;
  if (plan_.rooted()) return make_persistent_rooted(from, to, communicator);
  const persistent::Calls& of_mpi = persistent::calls();
  const int* counts = from.side->counts.data();
  const int* to_counts = to.side->counts.data();
  const int* displacements = from.side->displacements.data();
  const int* to_displacements = to.side->displacements.data();
  const int count = from.side->counts.empty() ? 0 : counts[from.block];
  const MPI_Datatype* types = handles_[0].data();
  const MPI_Datatype* to_types = handles_[1].data();
  const MPI_Info info = MPI_INFO_NULL;
  switch (plan_.call) {
    case Call::alltoall:
      of_mpi.alltoall(from.address, count, types[0], to.address, to_counts[0], to_types[0], communicator, info,
                      &persistent_);
      break;
    case Call::alltoallv:
      of_mpi.alltoallv(from.address, counts, displacements, types[0], to.address, to_counts, to_displacements,
                       to_types[0], communicator, info, &persistent_);
      break;
    case Call::alltoallw:
      of_mpi.alltoallw(from.address, counts, displacements, types, to.address, to_counts, to_displacements, to_types,
                       communicator, info, &persistent_);
      break;
    case Call::allgather:
      of_mpi.allgather(from.address, count, types[0], to.address, to_counts[0], to_types[0], communicator, info,
                       &persistent_);
      break;
    case Call::bcast: {
      const Place& here = end(from, to);
      of_mpi.bcast(here.address, here.side->counts[0], here.types[0], root(), communicator, info, &persistent_);
      break;
    }
    case Call::allgatherv:
      of_mpi.allgatherv(from.address, count, types[0], to.address, to_counts, to_displacements, to_types[0],
                        communicator, info, &persistent_);
      break;
    default: break;
  }
}

void Operation::post_persistent(MPI_Request* request) {
  if (communicator_->size == 1) return post(request);
  make_persistent(sent_from(), place_in(receive_side_, received_.base(), receive_absolute_), communicator_->offloaded);
  MPI_Start(&persistent_);
  *request = persistent_;
}

void Operation::run_again() {
  received_.fill(receive_content_);
  MPI_Start(&persistent_);
  MPI_Wait(&persistent_, MPI_STATUS_IGNORE);
}

void Operation::free_persistent() {
  MPI_Request_free(&persistent_);
}

void Operation::run_blocking_form() {
  received_.fill(receive_content_);
  run_blocking(communicator_->offloaded, sent_from(), place_in(receive_side_, received_.base(), receive_absolute_));
}

void Operation::run_native() {
  if (plan_.gathers_at_root()) return gather_at_root_packed();
  if (plan_.scatters()) return scatter_packed();
  // In place equals sending from a copy of the receive buffer, which all MPIs do correctly.
  const Side& side = plan_.in_place ? receive_side_ : send_side_;
  Place from = place_in(side, send_.base(), send_absolute_);
  if (plan_.in_place && plan_.gathers()) {
    from = place_in(side, send_.base(), {});
    from.block = static_cast<std::size_t>(communicator_->rank);
    from.address = send_.base() + offset_of(side, from.block);
  }
  // Open MPI 4.1 misplaces a rank's own block beyond 64 KiB if it receives by absolute addresses: no MPI_BOTTOM here.
  const Place to = place_in(receive_side_, expected_.base(), {});
  if (plan_.call == Call::bcast) return broadcast_packed();
  if (plan_.gathers()) {
    if (!plan_.in_place) from = place_in(side, send_.base(), {});  // MPICH 4.0 packs nothing from MPI_BOTTOM
    gather_packed(from);
  } else if (blocking_reference_ || plan_.call == Call::alltoallw) {  // see Plan::make
    run_blocking(communicator_->native, from, to);
  } else {
    run_native_patiently(from, to);
  }
  correct_own_block();
}

// If ranks describe the same blocks by types of different sizes and extents, Open MPI 4.1's Allgatherv and MPICH 4.0's
// Iallgatherv choose differently on different ranks and hang or mix blocks. With bytes all ranks use the same type.
void Operation::gather_packed(const Place& from) {
  const MPI_Comm communicator = communicator_->native;
  int length = 0;
  MPI_Pack_size(from.side->counts[from.block], from.types[0], communicator, &length);
  std::vector<char> mine(static_cast<std::size_t>(length) + 1);
  int packed = 0;
  MPI_Pack(from.address, from.side->counts[from.block], from.types[0], mine.data(), length, &packed, communicator);
  std::vector<int> counts;
  std::vector<int> places{0};
  for (int source = 0; source < communicator_->size; ++source) {
    counts.push_back(static_cast<int>(plan_.block(source, 0) * plan_.quantum) * unit_bytes(plan_.unit));
    places.push_back(places.back() + counts.back());
  }
  std::vector<char> all(static_cast<std::size_t>(places.back()) + 1);
  MPI_Request request;
  int done = 0;
  MPI_Iallgatherv(mine.data(), packed, MPI_PACKED, all.data(), counts.data(), places.data(), MPI_PACKED, communicator,
                  &request);
  while (done == 0) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) sched_yield();
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    int position = places[i];
    MPI_Unpack(all.data(), places.back(), &position, expected_.base() + offset_of(receive_side_, i),
               receive_side_.counts[i], receive_side_.type(i).get(), communicator);
  }
}

void Operation::broadcast_packed() {
  const MPI_Comm communicator = communicator_->native;
  int bytes = static_cast<int>(plan_.block(0, 0) * plan_.quantum) * unit_bytes(plan_.unit);
  std::vector<char> packed(static_cast<std::size_t>(bytes) + 1);
  int position = 0;
  if (is_root()) {
    MPI_Pack(send_.base(), send_side_.counts[0], send_side_.type(0).get(), packed.data(), bytes, &position,
             communicator);
  }
  MPI_Request request;
  int done = 0;
  MPI_Ibcast(packed.data(), bytes, MPI_PACKED, root(), communicator, &request);
  while (done == 0) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) sched_yield();
  }
  if (is_root()) return;
  MPI_Unpack(packed.data(), bytes, &position, expected_.base(), receive_side_.counts[0], receive_side_.type(0).get(),
             communicator);
}

// Open MPI 4.1 misplaces a rank's own block beyond 64 KiB if types with gaps are involved; packing is correct.
void Operation::correct_own_block() {
  const auto me = static_cast<std::size_t>(communicator_->rank);
  const Side& from = plan_.in_place ? receive_side_ : send_side_;
  const std::size_t block = from.counts.size() == 1 ? 0 : me;
  int bytes = 0;
  MPI_Pack_size(from.counts[block], from.type(block).get(), communicator_->native, &bytes);
  if (bytes == 0) return;
  std::vector<char> packed(static_cast<std::size_t>(bytes));
  int position = 0;
  MPI_Pack(send_.base() + offset_of(from, block), from.counts[block], from.type(block).get(), packed.data(), bytes,
           &position, communicator_->native);
  const int length = position;
  position = 0;
  MPI_Unpack(packed.data(), length, &position, expected_.base() + offset_of(receive_side_, me),
             receive_side_.counts[me], receive_side_.type(me).get(), communicator_->native);
}

// If ranks share a core, an MPI whose blocking calls never yield takes a time slice per message; this does not.
void Operation::run_native_patiently(const Place& from, const Place& to) {
  MPI_Request request;
  int done = 0;
  start(from, to, false, communicator_->native, &request);
  while (done == 0) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) sched_yield();
  }
}

// The block that this rank sends to another.
std::vector<char> Operation::packed_for(int receiver) const {
  const bool in_place = sends_in_place();
  const Side& side = in_place ? receive_side_ : send_side_;
  const bool sends_own = in_place && (plan_.gathers() || plan_.gathers_at_root());
  const auto block = static_cast<std::size_t>(side.counts.size() == 1 ? 0 : sends_own ? communicator_->rank : receiver);
  int bytes = 0;
  int position = 0;
  MPI_Pack_size(side.counts[block], side.type(block).get(), MPI_COMM_SELF, &bytes);
  std::vector<char> packed(static_cast<std::size_t>(bytes) + 1);  // MPIs refuse a null address
  MPI_Pack(send_.base() + offset_of(side, block), side.counts[block], side.type(block).get(), packed.data(), bytes,
           &position, MPI_COMM_SELF);
  packed.resize(static_cast<std::size_t>(position) + 1);
  return packed;
}

Buffer Operation::due() const {
  Buffer due(receive_side_.low, receive_side_.high, false, 0, receive_content_);
  const bool from_root = plan_.call == Call::bcast || plan_.scatters();
  for (std::size_t i = 0; i < receive_side_.counts.size(); ++i) {
    Communicator seen_there = *communicator_;
    seen_there.rank = from_root ? root() : static_cast<int>(i);
    const std::vector<char> packed = Operation(plan_, seen_there).packed_for(communicator_->rank);
    int position = 0;
    MPI_Unpack(packed.data(), static_cast<int>(packed.size()) - 1, &position, due.base() + offset_of(receive_side_, i),
               receive_side_.counts[i], receive_side_.type(i).get(), MPI_COMM_SELF);
  }
  return due;
}

std::optional<Operation::Difference> Operation::difference() const {
  std::ostringstream text;
  const std::ptrdiff_t at = received_.first_difference(expected_);
  if (at != Buffer::none) {
    const Buffer right = due();
    text << "receive buffer differs first at byte " << at << " from its base: got " << received_.at(at)
         << ", native gives " << expected_.at(at) << ", right is " << right.at(at);
    for (std::size_t i = 0; i < receive_side_.counts.size(); ++i) {
      const Datatype::Span span = receive_side_.type(i).span();
      const MPI_Aint low = offset_of(receive_side_, i);
      const MPI_Aint high = low + receive_side_.counts[i] * span.extent;
      if (at >= low + span.lower && at < high + span.lower) text << " (block from rank " << i << ")";
    }
    return Difference{text.str(), received_.first_difference(right) == Buffer::none};
  }
  if (!send_.untouched(send_content_)) return Difference{"the send buffer was written to", false};
  return std::nullopt;
}

std::string Operation::describe() const {
  std::ostringstream text;
  constexpr std::array<const char*, calls> names = {
      "MPI_Ialltoall", "MPI_Ialltoallv", "MPI_Ialltoallw", "MPI_Iallgather", "MPI_Iallgatherv",
      "MPI_Ibcast",    "MPI_Igather",    "MPI_Igatherv",   "MPI_Iscatter",   "MPI_Iscatterv"};
  text << names[static_cast<std::size_t>(plan_.call)];
#if MPI_VERSION >= 4
  if (large_form_) text << "_c";
#endif
  text << " on '" << communicator_->name << "' (rank " << communicator_->rank << " of " << communicator_->size << ")";
  const auto say = [&](const char* name, const Side& side) {
    text << ", " << name << ":";
    for (const Datatype& type : side.types) text << " [" << type.name() << "]";
    text << " counts";
    const std::size_t shown = plan_.regular() ? std::min<std::size_t>(1, side.counts.size()) : side.counts.size();
    for (std::size_t i = 0; i < shown; ++i) text << " " << side.counts[i];
    if (!plan_.regular()) {
      text << " displacements";
      for (int displacement : side.displacements) text << " " << displacement;
    }
    if (side.bottom) text << " from MPI_BOTTOM";
  };
  if (sends_in_place() || receives_in_place()) text << ", in place";
  if (!sends_in_place()) say("send", send_side_);
  say("receive", receive_side_);
  return text.str();
}

}  // namespace differential
