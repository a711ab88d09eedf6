#include "mpi/intranode/team_arguments.hpp"

#include <algorithm>
#include <utility>

#include "mpi/job/job.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/types/reducible.hpp"

namespace outrigger::mpi {
namespace {

// Reads the arguments of a call one after the other.
class WordReader {
 public:
  WordReader(std::span<const Word> words, bool large) : words_(words), large_(large) {}

  template <class T>
  [[nodiscard]] T next() {
    return argument<T>(words_[place_++]);
  }
  [[nodiscard]] std::int64_t count() {
    const Word word = words_[place_++];
    return large_ ? static_cast<std::int64_t>(word) : static_cast<std::int64_t>(static_cast<int>(word));
  }
  // Buffer, count, type.
  void regular(TeamSide& side) {
    side.buffer = next<const void*>();
    side.count = count();
    side.type = next<MPI_Datatype>();
  }
  // Buffer, counts, displacements, type.
  void irregular(TeamSide& side) {
    side.buffer = next<const void*>();
    side.counts = words_[place_++];
    side.displacements = words_[place_++];
    side.type = next<MPI_Datatype>();
    side.listed = true;
  }
  // Buffer, counts, displacements in bytes, types.
  void typed(TeamSide& side) {
    side.buffer = next<const void*>();
    side.counts = words_[place_++];
    side.displacements = words_[place_++];
    side.types = words_[place_++];
    side.listed = true;
  }
  // Both buffers, count or counts, type, operation.
  void reduced(TeamArguments& arguments, bool counts) {
    arguments.send.buffer = next<const void*>();
    arguments.receive.buffer = next<const void*>();
    if (counts) {
      arguments.receive.counts = words_[place_++];
      arguments.receive.listed = true;
    } else {
      arguments.send.count = arguments.receive.count = count();
    }
    arguments.send.type = arguments.receive.type = next<MPI_Datatype>();
    arguments.operation = next<MPI_Op>();
  }

 private:
  std::span<const Word> words_;
  bool large_;
  std::size_t place_ = 0;
};

bool valid_blocks(const Job& job, const TeamArguments& arguments, const TeamSide& side, std::uint32_t members) {
  if (!side.listed) return valid_side(job, side.buffer, side.count, side.type);
  if (arguments.large) {
    return valid_sides(job, side.buffer, argument<const MPI_Count*>(side.counts),
                       argument<const MPI_Aint*>(side.displacements), side.type, members);
  }
  return valid_sides(job, side.buffer, argument<const int*>(side.counts), argument<const int*>(side.displacements),
                     side.type, members);
}

// reduce_scatter has a count for each member.
bool valid_counts(const TeamArguments& arguments, std::uint32_t members) {
  if (arguments.receive.counts == 0) return false;
  for (std::uint32_t member = 0; member < members; ++member) {
    if (arguments.count_at(arguments.receive, member) < 0) return false;
  }
  return true;
}

bool is_member(int root, const TeamPlace& team) {
  return root >= 0 && static_cast<std::uint32_t>(root) < team.size;
}

// `own`: where the member's own block is on the other side.
bool valid_apart(const TeamSide& one, const void* own, const TeamSide& other, bool same_counts) {
  return one.in_place() || !aliased(one.buffer, one.type, own, other.type, same_counts);
}

bool have_same_counts(const TeamArguments& arguments, const TeamSide& one, const TeamSide& other, std::uint32_t me) {
  const std::int64_t sent = arguments.count_at(one, me);
  const std::int64_t received = arguments.count_at(other, me);
  if (one.listed || other.listed) return sent != 0 && received != 0;
  return sent == received && sent != 0;
}

void look_at(const Job& job, TeamSide& side) {
  side.shape = shape_of(job, side.type);
}

bool valid_exchange(const Job& job, TeamArguments& call, const TeamPlace& team) {
  if (!valid_blocks(job, call, call.receive, team.size)) return false;
  look_at(job, call.receive);
  if (call.send.in_place()) return true;
  if (!valid_blocks(job, call, call.send, team.size)) return false;
  look_at(job, call.send);
  const bool same_counts = call.send.listed ? call.send.counts == call.receive.counts
                                            : call.send.count == call.receive.count && call.send.count != 0;
  return !aliased(call.send.buffer, call.send.type, call.receive.buffer, call.receive.type, same_counts);
}

bool valid_types(const Job& job, const TeamArguments& call, const TeamSide& side, std::uint32_t members) {
  const auto* types = argument<const MPI_Datatype*>(side.types);
  if (call.large) {
    return valid_typed_sides(job, side.buffer, argument<const MPI_Count*>(side.counts),
                             argument<const MPI_Aint*>(side.displacements), types, members);
  }
  return valid_typed_sides(job, side.buffer, argument<const int*>(side.counts),
                           argument<const int*>(side.displacements), types, members);
}

bool valid_typed_exchange(const Job& job, const TeamArguments& call, const TeamPlace& team) {
  if (!valid_types(job, call, call.receive, team.size)) return false;
  if (call.send.in_place()) return true;
  if (!valid_types(job, call, call.send, team.size)) return false;
  return !aliased_w(call.send.buffer, argument<const MPI_Datatype*>(call.send.types), call.receive.buffer,
                    argument<const MPI_Datatype*>(call.receive.types), call.send.counts == call.receive.counts);
}

// Without neighbors arguments mean nothing.
bool valid_of_neighbors(const Job& job, const TeamArguments& call, TeamSide& side) {
  if (side.neighbors == nullptr || side.in_place()) return false;
  const NeighborSide& neighbors = *side.neighbors;
  if (neighbors.places.empty()) return true;
  const bool typed = side.types != 0;
  if (!typed && (call.call == CollectiveCall::neighbor_alltoallw || !valid_type(job, side.type))) return false;
  if (!typed) look_at(job, side);
  if (!side.listed) return valid_side(job, side.buffer, side.count, side.type);
  if (side.counts == 0 || side.displacements == 0) return false;
  return std::ranges::all_of(neighbors.places, [&](std::uint32_t place) {
    const std::int64_t count = call.count_at(side, place);
    if (count <= 0) return count == 0;
    const MPI_Datatype type = call.type_at(side, place);
    return valid_type(job, type) && valid_buffer(job, side.buffer, type, call.offset_at(side, place) == 0);
  });
}

bool valid_allgather(const Job& job, TeamArguments& call, const TeamPlace& team) {
  if (!valid_blocks(job, call, call.receive, team.size)) return false;
  look_at(job, call.receive);
  if (call.send.in_place()) return true;
  if (!valid_side(job, call.send.buffer, call.send.count, call.send.type)) return false;
  look_at(job, call.send);
  return valid_apart(call.send, call.own_block(call.receive, team.rank), call.receive,
                     have_same_counts(call, call.send, call.receive, team.rank));
}

// `mine` is what each member has, `all` counts at the root.
bool valid_rooted(const Job& job, TeamArguments& call, const TeamPlace& team, TeamSide& mine, TeamSide& all) {
  if (!is_member(call.root, team)) return false;
  const bool is_root = std::cmp_equal(call.root, team.rank);
  if (mine.in_place() && !is_root) return false;
  if (!mine.in_place()) {
    if (!valid_side(job, mine.buffer, mine.count, mine.type)) return false;
    look_at(job, mine);
  }
  if (!is_root) return true;
  if (!valid_blocks(job, call, all, team.size)) return false;
  look_at(job, all);
  return valid_apart(mine, call.own_block(all, team.rank), all, have_same_counts(call, mine, all, team.rank));
}

bool valid_reduced_type(const Job& job, TeamArguments& call) {
  if (!valid_type(job, call.send.type)) return false;
  look_at(job, call.send);
  call.receive.shape = call.send.shape;
  call.reduction = reduction_of(call.operation, call.send.type, call.send.shape);
  if (call.reduction) call.order = order_for(*call.reduction, job.config.sums);
  return true;
}

bool valid_allreduce(const Job& job, TeamArguments& call) {
  if (!valid_side(job, call.receive.buffer, call.receive.count, call.receive.type)) return false;
  if (!call.send.in_place() && !valid_side(job, call.send.buffer, call.send.count, call.send.type)) return false;
  // Open MPI looks for that from two elements on; all others bear it nowhere.
  const bool refused =
      call.send.buffer == call.receive.buffer && call.send.count > (constants().rejects_aliases ? 0 : 1);
  return !refused && valid_reduced_type(job, call);
}

// The first rank gets nothing of an exscan, and may have no room for it.
bool valid_scan(const Job& job, TeamArguments& call, const TeamPlace& team) {
  const bool receives = call.call == CollectiveCall::scan || team.rank != 0 || call.send.in_place();
  if (receives && !valid_side(job, call.receive.buffer, call.receive.count, call.receive.type)) return false;
  if (!call.send.in_place()) {
    if (!valid_side(job, call.send.buffer, call.send.count, call.send.type)) return false;
    const bool has_data = receives && call.send.count != 0;
    if (aliased(call.send.buffer, call.send.type, call.receive.buffer, call.receive.type, has_data)) return false;
  }
  return valid_reduced_type(job, call);
}

bool valid_reduce(const Job& job, TeamArguments& call, const TeamPlace& team) {
  if (!is_member(call.root, team) || call.send.count < 0) return false;
  const bool is_root = std::cmp_equal(call.root, team.rank);
  if (call.send.in_place() && !is_root) return false;
  if (!call.send.in_place() && !valid_side(job, call.send.buffer, call.send.count, call.send.type)) return false;
  if (is_root) {
    if (!valid_side(job, call.receive.buffer, call.receive.count, call.receive.type)) return false;
    if (call.send.buffer == call.receive.buffer && call.send.count != 0) return false;
  }
  return valid_reduced_type(job, call);
}

bool valid_reduce_scatter(const Job& job, TeamArguments& call, const TeamPlace& team) {
  std::int64_t total = 0;
  if (call.receive.listed && !valid_counts(call, team.size)) return false;
  for (std::uint32_t member = 0; member < team.size; ++member) total += call.count_at(call.receive, member);
  const std::int64_t own = call.count_at(call.receive, team.rank);
  call.send.count = total;
  const bool in_place = call.send.in_place();
  if (!valid_side(job, call.receive.buffer, in_place ? total : own, call.receive.type)) return false;
  if (!in_place) {
    if (!valid_side(job, call.send.buffer, total, call.send.type)) return false;
    if (aliased(call.send.buffer, call.send.type, call.receive.buffer, call.receive.type, own != 0)) return false;
  }
  return valid_reduced_type(job, call);
}

}  // namespace

TeamArguments TeamArguments::of(CollectiveCall call, std::span<const Word> words, bool large) {
  TeamArguments arguments;
  arguments.call = call;
  arguments.large = large;
  WordReader reader(words, large);
  switch (call) {
    case CollectiveCall::bcast:
      reader.regular(arguments.send);
      arguments.root = reader.next<int>();
      break;
    case CollectiveCall::neighbor_allgather: arguments.send.shared = true; [[fallthrough]];
    case CollectiveCall::allgather:
    case CollectiveCall::alltoall:
    case CollectiveCall::neighbor_alltoall:
      reader.regular(arguments.send);
      reader.regular(arguments.receive);
      break;
    case CollectiveCall::neighbor_allgatherv: arguments.send.shared = true; [[fallthrough]];
    case CollectiveCall::allgatherv:
      reader.regular(arguments.send);
      reader.irregular(arguments.receive);
      break;
    case CollectiveCall::alltoallv:
    case CollectiveCall::neighbor_alltoallv:
      reader.irregular(arguments.send);
      reader.irregular(arguments.receive);
      break;
    case CollectiveCall::neighbor_alltoallw:
      arguments.send.addresses = arguments.receive.addresses = true;
      [[fallthrough]];
    case CollectiveCall::alltoallw:
      reader.typed(arguments.send);
      reader.typed(arguments.receive);
      break;
    case CollectiveCall::gather:
    case CollectiveCall::scatter:
      reader.regular(arguments.send);
      reader.regular(arguments.receive);
      arguments.root = reader.next<int>();
      break;
    case CollectiveCall::gatherv:
      reader.regular(arguments.send);
      reader.irregular(arguments.receive);
      arguments.root = reader.next<int>();
      break;
    case CollectiveCall::scatterv:
      reader.irregular(arguments.send);
      reader.regular(arguments.receive);
      arguments.root = reader.next<int>();
      break;
    case CollectiveCall::reduce:
      reader.reduced(arguments, false);
      arguments.root = reader.next<int>();
      break;
    case CollectiveCall::allreduce:
    case CollectiveCall::scan:
    case CollectiveCall::exscan:
    case CollectiveCall::reduce_scatter_block: reader.reduced(arguments, false); break;
    case CollectiveCall::reduce_scatter: reader.reduced(arguments, true); break;
    default: break;
  }
  return arguments;
}

bool TeamArguments::valid(const Job& job, const TeamPlace& team) {
  switch (call) {
    case CollectiveCall::barrier: return true;
    case CollectiveCall::bcast:
      if (!is_member(root, team) || !valid_side(job, send.buffer, send.count, send.type)) return false;
      look_at(job, send);
      return true;
    case CollectiveCall::allgather:
    case CollectiveCall::allgatherv: return valid_allgather(job, *this, team);
    case CollectiveCall::alltoall:
    case CollectiveCall::alltoallv: return valid_exchange(job, *this, team);
    case CollectiveCall::alltoallw: return valid_typed_exchange(job, *this, team);
    case CollectiveCall::neighbor_alltoall:
    case CollectiveCall::neighbor_alltoallv:
    case CollectiveCall::neighbor_alltoallw:
    case CollectiveCall::neighbor_allgather:
    case CollectiveCall::neighbor_allgatherv:
      return valid_of_neighbors(job, *this, send) && valid_of_neighbors(job, *this, receive);
    case CollectiveCall::gather:
    case CollectiveCall::gatherv: return valid_rooted(job, *this, team, send, receive);
    case CollectiveCall::scatter:
    case CollectiveCall::scatterv: return valid_rooted(job, *this, team, receive, send);
    case CollectiveCall::reduce: return valid_reduce(job, *this, team);
    case CollectiveCall::allreduce: return valid_allreduce(job, *this);
    case CollectiveCall::scan:
    case CollectiveCall::exscan: return valid_scan(job, *this, team);
    case CollectiveCall::reduce_scatter:
    case CollectiveCall::reduce_scatter_block: return valid_reduce_scatter(job, *this, team);
    default: return false;
  }
}

std::optional<PlainBytes> TeamArguments::plain(const TeamPlace& team) const {
  const auto is_plain = [&](const TeamSide& side) {
    return side.shape.first == 0 && side.count > 0 && side.shape.dense_for(side.count * team.size);
  };
  const auto is_plain_block = [](const TeamSide& side) {
    return !side.in_place() && side.shape.first == 0 && side.shape.dense_for(side.count);
  };
  const auto are_plain = [&](bool sends, bool receives) {
    return (!sends || (!send.in_place() && is_plain(send))) &&
           (!receives || (!receive.in_place() && is_plain(receive)));
  };
  const bool is_root = std::cmp_equal(root, team.rank);
  bool plain = false;
  switch (call) {
    case CollectiveCall::barrier: plain = true; break;
    case CollectiveCall::bcast: plain = are_plain(true, false); break;
    case CollectiveCall::scan:
    case CollectiveCall::exscan:
    case CollectiveCall::reduce_scatter_block:
    case CollectiveCall::allreduce: plain = reduction && are_plain(false, true); break;
    case CollectiveCall::reduce: plain = reduction && are_plain(!is_root, is_root); break;
    case CollectiveCall::allgather:
    case CollectiveCall::alltoall: plain = are_plain(true, true); break;
    case CollectiveCall::gather: plain = are_plain(true, is_root); break;
    case CollectiveCall::scatter: plain = are_plain(is_root, true); break;
    case CollectiveCall::allgatherv:
    case CollectiveCall::gatherv: plain = is_plain_block(send); break;
    case CollectiveCall::scatterv: plain = is_plain_block(receive); break;
    case CollectiveCall::alltoallv:
    case CollectiveCall::neighbor_allgather:
    case CollectiveCall::neighbor_allgatherv:
    case CollectiveCall::neighbor_alltoall:
    case CollectiveCall::neighbor_alltoallv: plain = !send.in_place(); break;
    default: break;
  }
  if (!plain) return std::nullopt;
  return PlainBytes{bytes_in(send.count, send.shape), bytes_in(receive.count, receive.shape)};
}

std::optional<std::uint64_t> TeamArguments::block_bytes() const {
  switch (call) {
    case CollectiveCall::barrier: return 0;
    case CollectiveCall::allgather:
    case CollectiveCall::alltoall: return bytes_in(receive.count, receive.shape);
    // The root's own block may be shorter than the others'.
    case CollectiveCall::gather:
      return receive.shape.committed ? bytes_in(receive.count, receive.shape) : bytes_in(send.count, send.shape);
    case CollectiveCall::scatter:
      return send.shape.committed ? bytes_in(send.count, send.shape) : bytes_in(receive.count, receive.shape);
    case CollectiveCall::bcast: return bytes_in(send.count, send.shape);
    default: return is_reduction(call) ? std::optional(bytes_in(send.count, send.shape)) : std::nullopt;
  }
}

// On a grid, a rank's neighbors receive what it sends and send what it receives. So the sum is alike, as all ranks are
// connected. MPI_Allgatherv has the same counts everywhere.
std::optional<std::uint64_t> TeamArguments::alike_bytes(std::uint32_t members) const {
  if (on_grid && !send.listed && !receive.listed) {
    return (bytes_in(send.count, send.shape) + bytes_in(receive.count, receive.shape)) / 2;
  }
  if (call != CollectiveCall::allgatherv) return block_bytes();
  std::uint64_t all = 0;
  for (std::uint32_t member = 0; member < members; ++member) {
    all += bytes_in(count_at(receive, member), receive.shape);
  }
  return all / members;
}

std::optional<TeamCallKey> TeamArguments::key(std::uint32_t members, std::uint64_t seen_bytes) const {
  const auto bytes = has_seen_sizes(call) ? std::optional(seen_bytes) : alike_bytes(members);
  const TeamCallKey key{steer::CallKey::of(*offloaded_as(call), true, bytes), reduction};
  if (!is_reduction(call)) return key;
  return reduction && order != RankOrder::none ? std::optional(key) : std::nullopt;
}

}  // namespace outrigger::mpi
