#include "exchange.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "../programs/persistent_calls.hpp"

namespace neighbors {
namespace {

using differential::Buffer;
using differential::Datatype;
using differential::mix;
using differential::Random;

constexpr std::int64_t most_pieces = 20'000;
constexpr const char* call_names[] = {"alltoall", "alltoallv", "alltoallw", "allgather", "allgatherv"};
constexpr const char* form_names[] = {"nonblocking", "blocking", "persistent", "nonblocking, large counts"};

int any_divisor(Random& random, int number) {
  int candidate = random.between(1, number);
  while (number % candidate != 0) --candidate;
  return candidate;
}

}  // namespace

Plan Plan::make(std::uint64_t seed, std::int64_t max_bytes, bool careful) {
  Random random(seed);
  Plan plan;
  plan.seed = seed;
  plan.call = static_cast<Call>(random.below(calls));
  if (careful && plan.call == Call::alltoallw) plan.call = Call::alltoallv;
  plan.unit = static_cast<differential::UnitKind>(random.below(differential::unit_kinds));
  plan.typed = random.chance(60);
  constexpr std::array<int, 8> quanta = {1, 1, 2, 3, 4, 6, 8, 12};
  if (plan.typed) plan.quantum = quanta[static_cast<std::size_t>(random.below(static_cast<int>(quanta.size())))];
  const std::int64_t bytes =
      random.log_uniform(random.chance(10) ? max_bytes : std::min<std::int64_t>(max_bytes, 20'000));
  plan.longest = std::max<std::int64_t>(1, bytes / (plan.quantum * differential::unit_bytes(plan.unit)));
  if (plan.typed) plan.longest = std::min(plan.longest, most_pieces / plan.quantum);
  if (random.chance(4)) plan.longest = 0;
  plan.empty_percent = random.chance(50) ? 0 : random.below(90);
  return plan;
}

std::int64_t Plan::block(int from, int to) const {
  if (longest == 0 || regular()) return longest;
  if (call == Call::allgatherv) to = from;
  Random random(mix({seed, 77, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to)}));
  if (random.chance(empty_percent)) return 0;
  if (random.chance(30)) return longest;
  return static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(longest + 1));
}

Exchange::Exchange(const Plan& plan, const Topology& topology) : plan_(plan), topology_(&topology) {
  const auto rank = static_cast<std::uint64_t>(topology.rank);
  Random random(mix({plan.seed, 88, rank}));
  receive_content_ = mix({plan.seed, 100, rank});
  receive_side_ = make_side(random, false);
  send_side_ = make_side(random, true);
  received_ = Buffer(receive_side_.low, receive_side_.high, random.chance(50), 0, receive_content_);
  expected_ = Buffer(receive_side_.low, receive_side_.high, false, 0, receive_content_);
  send_ = Buffer(send_side_.low, send_side_.high, random.chance(50), 0, mix({plan.seed, 99, rank}));
}

Exchange::Side Exchange::make_side(Random& random, bool sending) const {
  const std::vector<int>& list = sending ? topology_->destinations : topology_->sources;
  const bool one = sending && plan_.gathers();
  std::vector<std::int64_t> quanta;
  for (const int other : list) {
    // Values for MPI_PROC_NULL are ignored.
    const bool nobody = other == MPI_PROC_NULL;
    if (nobody) quanta.push_back(plan_.regular() ? plan_.longest : random.below(3));
    if (!nobody) quanta.push_back(sending ? plan_.block(topology_->rank, other) : plan_.block(other, topology_->rank));
  }
  if (one) quanta.assign(1, plan_.block(topology_->rank, topology_->rank));
  const bool alike = plan_.regular() && !one;
  if (alike && quanta.empty()) quanta.push_back(plan_.longest);  // a count is needed nevertheless
  Side side;
  const bool typed_each = plan_.call == Call::alltoallw;
  for (std::size_t i = 0; i < (typed_each ? quanta.size() : 1); ++i) {
    const int units = plan_.typed ? any_divisor(random, plan_.quantum) : 1;
    side.types.push_back(differential::make_type(random, plan_.unit, units, false));
    const auto items = [&](std::int64_t blocks) { return static_cast<int>(blocks * plan_.quantum / units); };
    if (typed_each) {
      side.counts.push_back(items(quanta[i]));
    } else {
      for (const std::int64_t blocks : quanta) side.counts.push_back(items(blocks));
    }
  }
  place(random, sending, side);
  for (const Datatype& type : side.types) side.handles.push_back(type.get());
  // MPICH 4.0 reads as many send entries as there are receive entries, and vice versa.
  side.counts.resize(std::max({side.counts.size(), topology_->sources.size(), topology_->destinations.size()}) + 1);
  side.displacements.resize(side.counts.size());
  side.offsets.resize(side.counts.size());
  side.handles.resize(side.counts.size(), MPI_BYTE);
  return side;
}

// Equal blocks are contiguous; others are anywhere.
void Exchange::place(Random& random, bool sending, Side& side) const {
  const bool in_bytes = plan_.call == Call::alltoallw;
  const bool gaps = !plan_.regular() && random.chance(60);
  std::vector<std::size_t> order(side.counts.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); gaps && i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(static_cast<int>(i)))]);
  }
  side.displacements.assign(side.counts.size(), 0);
  side.offsets.assign(side.counts.size(), 0);
  const bool overlap = sending && !plan_.regular() && random.chance(15);
  int at = 0;
  for (const std::size_t i : order) {
    const Datatype::Span span = side.types[in_bytes ? i : 0].span();
    if (!in_bytes) {
      side.displacements[i] = at;
      if (!overlap) at += side.counts[i] + (gaps ? random.below(4) : 0);
      continue;
    }
    // Items may reach below the displacement: the block begins where the last one ended.
    const MPI_Aint below = std::min<MPI_Aint>(0, std::min(span.lower, span.true_lower));
    side.offsets[i] = at + (-below + 15) / 16 * 16;
    const MPI_Aint above = std::max<MPI_Aint>(span.lower + span.extent, span.true_lower + span.true_extent);
    const MPI_Aint end = side.offsets[i] + std::max<MPI_Aint>(0, above + (side.counts[i] - 1) * span.extent);
    if (!overlap) at = static_cast<int>((end + 15) / 16 * 16) + (gaps ? 16 * random.below(4) : 0);
  }
  for (std::size_t i = 0; i < side.counts.size(); ++i) {
    if (side.counts[i] == 0) continue;
    const Datatype::Span span = side.types[in_bytes ? i : 0].span();
    const MPI_Aint low = offset_in(side, i, in_bytes) + span.true_lower;
    side.low = std::min(side.low, low);
    side.high = std::max(side.high, low + (side.counts[i] - 1) * span.extent + span.true_extent);
  }
}

MPI_Aint Exchange::offset_in(const Side& side, std::size_t block, bool in_bytes) {
  return in_bytes ? side.offsets[block] : side.displacements[block] * side.types[0].span().extent;
}

void Exchange::start_nonblocking(MPI_Comm on, void* to, MPI_Request* request) {
  Side& a = send_side_;
  Side& b = receive_side_;
  const void* from = send_.base();
  switch (plan_.call) {
    case Call::alltoall:
      MPI_Ineighbor_alltoall(from, a.counts[0], a.handles[0], to, b.counts[0], b.handles[0], on, request);
      break;
    case Call::alltoallv:
      MPI_Ineighbor_alltoallv(from, a.counts.data(), a.displacements.data(), a.handles[0], to, b.counts.data(),
                              b.displacements.data(), b.handles[0], on, request);
      break;
    case Call::alltoallw:
      MPI_Ineighbor_alltoallw(from, a.counts.data(), a.offsets.data(), a.handles.data(), to, b.counts.data(),
                              b.offsets.data(), b.handles.data(), on, request);
      break;
    case Call::allgather:
      MPI_Ineighbor_allgather(from, a.counts[0], a.handles[0], to, b.counts[0], b.handles[0], on, request);
      break;
    case Call::allgatherv:
      MPI_Ineighbor_allgatherv(from, a.counts[0], a.handles[0], to, b.counts.data(), b.displacements.data(),
                               b.handles[0], on, request);
      break;
  }
}

void Exchange::run_blocking(MPI_Comm on, void* to) {
  Side& a = send_side_;
  Side& b = receive_side_;
  const void* from = send_.base();
  switch (plan_.call) {
    case Call::alltoall:
      MPI_Neighbor_alltoall(from, a.counts[0], a.handles[0], to, b.counts[0], b.handles[0], on);
      break;
    case Call::alltoallv:
      MPI_Neighbor_alltoallv(from, a.counts.data(), a.displacements.data(), a.handles[0], to, b.counts.data(),
                             b.displacements.data(), b.handles[0], on);
      break;
    case Call::alltoallw:
      MPI_Neighbor_alltoallw(from, a.counts.data(), a.offsets.data(), a.handles.data(), to, b.counts.data(),
                             b.offsets.data(), b.handles.data(), on);
      break;
    case Call::allgather:
      MPI_Neighbor_allgather(from, a.counts[0], a.handles[0], to, b.counts[0], b.handles[0], on);
      break;
    case Call::allgatherv:
      MPI_Neighbor_allgatherv(from, a.counts[0], a.handles[0], to, b.counts.data(), b.displacements.data(),
                              b.handles[0], on);
      break;
  }
}

void Exchange::start_persistent(MPI_Comm on, void* to, MPI_Request* request) {
  const persistent::Calls& of_mpi = persistent::calls();
  Side& a = send_side_;
  Side& b = receive_side_;
  const void* from = send_.base();
  const MPI_Info info = MPI_INFO_NULL;
  switch (plan_.call) {
    case Call::alltoall:
      of_mpi.neighbor_alltoall(from, a.counts[0], a.handles[0], to, b.counts[0], b.handles[0], on, info, request);
      break;
    case Call::alltoallv:
      of_mpi.neighbor_alltoallv(from, a.counts.data(), a.displacements.data(), a.handles[0], to, b.counts.data(),
                                b.displacements.data(), b.handles[0], on, info, request);
      break;
    case Call::alltoallw:
      of_mpi.neighbor_alltoallw(from, a.counts.data(), a.offsets.data(), a.handles.data(), to, b.counts.data(),
                                b.offsets.data(), b.handles.data(), on, info, request);
      break;
    case Call::allgather:
      of_mpi.neighbor_allgather(from, a.counts[0], a.handles[0], to, b.counts[0], b.handles[0], on, info, request);
      break;
    case Call::allgatherv:
      of_mpi.neighbor_allgatherv(from, a.counts[0], a.handles[0], to, b.counts.data(), b.displacements.data(),
                                 b.handles[0], on, info, request);
      break;
  }
  MPI_Start(request);
}

void Exchange::start_large(MPI_Comm on, void* to, MPI_Request* request) {
#if MPI_VERSION >= 4
  Side& a = send_side_;
  Side& b = receive_side_;
  const void* from = send_.base();
  for (std::size_t i = 0; i < 2; ++i) {
    const Side& side = i == 0 ? a : b;
    large_counts_[i].assign(side.counts.begin(), side.counts.end());
    large_displacements_[i].assign(side.displacements.begin(), side.displacements.end());
    if (plan_.call == Call::alltoallw) large_displacements_[i] = side.offsets;
  }
  const MPI_Count* counts = large_counts_[0].data();
  const MPI_Count* to_counts = large_counts_[1].data();
  const MPI_Aint* displacements = large_displacements_[0].data();
  const MPI_Aint* to_displacements = large_displacements_[1].data();
  switch (plan_.call) {
    case Call::alltoall:
      MPI_Ineighbor_alltoall_c(from, counts[0], a.handles[0], to, to_counts[0], b.handles[0], on, request);
      break;
    case Call::alltoallv:
      MPI_Ineighbor_alltoallv_c(from, counts, displacements, a.handles[0], to, to_counts, to_displacements,
                                b.handles[0], on, request);
      break;
    case Call::alltoallw:
      MPI_Ineighbor_alltoallw_c(from, counts, displacements, a.handles.data(), to, to_counts, to_displacements,
                                b.handles.data(), on, request);
      break;
    case Call::allgather:
      MPI_Ineighbor_allgather_c(from, counts[0], a.handles[0], to, to_counts[0], b.handles[0], on, request);
      break;
    case Call::allgatherv:
      MPI_Ineighbor_allgatherv_c(from, counts[0], a.handles[0], to, to_counts, to_displacements, b.handles[0], on,
                                 request);
      break;
  }
#else
  start_nonblocking(on, to, request);  // this MPI has no large-count forms
#endif
}

void Exchange::run(Form form, MPI_Request* request) {
  const MPI_Comm on = topology_->offloaded;
  switch (form) {
    case Form::nonblocking: return start_nonblocking(on, received_.base(), request);
    case Form::blocking: return run_blocking(on, received_.base());
    case Form::persistent: return start_persistent(on, received_.base(), request);
    case Form::large: return start_large(on, received_.base(), request);
  }
}

std::vector<int> Exchange::origins(bool blocking) const {
  const std::size_t most = std::max(topology_->sources.size(), topology_->destinations.size()) + 1;
  std::vector<int> sent(most);
  std::iota(sent.begin(), sent.end(), 0);
  std::vector<int> received = sent;
  const std::vector<int> ones(most, 1);
  const std::vector<int>& places = sent;
  const std::vector<int>& from = sent;
  const MPI_Comm on = topology_->native;
  MPI_Request request = MPI_REQUEST_NULL;
  switch (plan_.call) {
    case Call::alltoall:
      if (blocking) MPI_Neighbor_alltoall(from.data(), 1, MPI_INT, received.data(), 1, MPI_INT, on);
      if (!blocking) MPI_Ineighbor_alltoall(from.data(), 1, MPI_INT, received.data(), 1, MPI_INT, on, &request);
      break;
    case Call::alltoallv:
    case Call::alltoallw:  // the same, which MPICH 4.0 does correctly
      if (blocking) {
        MPI_Neighbor_alltoallv(from.data(), ones.data(), places.data(), MPI_INT, received.data(), ones.data(),
                               places.data(), MPI_INT, on);
      } else {
        MPI_Ineighbor_alltoallv(from.data(), ones.data(), places.data(), MPI_INT, received.data(), ones.data(),
                                places.data(), MPI_INT, on, &request);
      }
      break;
    default: break;  // all blocks of a source are the same
  }
  wait_patiently(&request);
  return received;
}

void Exchange::expect(Form form) {
  const MPI_Comm on = topology_->native;
  const bool in_bytes = plan_.call == Call::alltoallw;
  const std::vector<int> origin = plan_.gathers() ? std::vector<int>() : origins(form == Form::blocking);
  const auto packed_size = [&](const Side& side, std::size_t i) {
    int bytes = 0;
    MPI_Pack_size(side.counts[i], side.handles[in_bytes ? i : 0], on, &bytes);
    return static_cast<std::size_t>(bytes) + 1;
  };
  const auto base_of = [&](Buffer& buffer, const Side& side, std::size_t block, std::size_t place) {
    const MPI_Aint alike = static_cast<MPI_Aint>(place) * side.counts[block] * side.types[0].span().extent;
    return buffer.base() + (plan_.regular() ? alike : offset_in(side, block, in_bytes));
  };
  std::vector<MPI_Request> requests;
  std::vector<std::vector<char>> messages;
  messages.reserve(topology_->sources.size() + topology_->destinations.size());
  for (std::size_t place = 0; place < topology_->sources.size(); ++place) {
    const int source = topology_->sources[place];
    messages.emplace_back(packed_size(receive_side_, plan_.regular() ? 0 : place));
    if (source == MPI_PROC_NULL) continue;
    std::vector<char>& message = messages.back();
    MPI_Irecv(message.data(), static_cast<int>(message.size()), MPI_PACKED, source, plan_.gathers() ? 0 : origin[place],
              on, &requests.emplace_back());
  }
  for (std::size_t place = 0; place < topology_->destinations.size(); ++place) {
    const int destination = topology_->destinations[place];
    if (destination == MPI_PROC_NULL) continue;
    const std::size_t block = plan_.regular() || plan_.gathers() ? 0 : place;
    std::vector<char>& message = messages.emplace_back(packed_size(send_side_, block));
    int length = 0;
    MPI_Pack(base_of(send_, send_side_, block, plan_.gathers() ? 0 : place), send_side_.counts[block],
             send_side_.handles[in_bytes ? block : 0], message.data(), static_cast<int>(message.size()), &length, on);
    MPI_Isend(message.data(), length, MPI_PACKED, destination, plan_.gathers() ? 0 : static_cast<int>(place), on,
              &requests.emplace_back());
  }
  for (MPI_Request& request : requests) wait_patiently(&request);
  for (std::size_t place = 0; place < topology_->sources.size(); ++place) {
    if (topology_->sources[place] == MPI_PROC_NULL) continue;
    const std::size_t block = plan_.regular() ? 0 : place;
    int position = 0;
    MPI_Unpack(messages[place].data(), static_cast<int>(messages[place].size()), &position,
               base_of(expected_, receive_side_, block, place), receive_side_.counts[block],
               receive_side_.handles[in_bytes ? block : 0], on);
  }
}

std::optional<std::string> Exchange::difference() const {
  const std::ptrdiff_t at = received_.first_difference(expected_);
  if (at == Buffer::none) return std::nullopt;
  return "byte " + std::to_string(at) + " is " + std::to_string(received_.at(at)) + ", natively " +
         std::to_string(expected_.at(at));
}

std::string Exchange::describe(Form form) const {
  std::string text = std::string(call_names[static_cast<int>(plan_.call)]) + " (" + form_names[static_cast<int>(form)] +
                     ") on " + topology_->name + " of " + std::to_string(topology_->size) + ", unit " +
                     std::to_string(static_cast<int>(plan_.unit)) + ", quantum " + std::to_string(plan_.quantum) +
                     ", longest " + std::to_string(plan_.longest);
  const auto list = [&](const char* what, const std::vector<int>& ranks, const Side& side) {
    text += std::string("\n  ") + what;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      text += " " + std::to_string(ranks[i]) + "x" + std::to_string(side.counts[plan_.regular() ? 0 : i]);
    }
  };
  list("from", topology_->sources, receive_side_);
  list("to", topology_->destinations, send_side_);
  return text;
}

}  // namespace neighbors
