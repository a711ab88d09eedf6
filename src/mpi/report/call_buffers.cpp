#include "mpi/report/call_buffers.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/types/datatype.hpp"

namespace outrigger::mpi {
namespace {

enum class SideRanks : std::uint8_t { none, all, root, others, not_first };
enum class SideBlocks : std::uint8_t { one, one_per_rank, listed, placed, own_of_listed };

// Indexes of arguments from 0, as in CallArguments.
struct Side {
  SideRanks ranks = SideRanks::none;  // that have this side
  SideBlocks blocks = SideBlocks::one;
  std::size_t buffer = 0;
  std::size_t count = 0;
  std::size_t type = 0;
  std::size_t displacements = 0;  // if `placed`
};
struct Sides {
  Side sent;
  Side received;
  std::size_t comm = 0;
  std::size_t root = 0;
};

Sides sides_of(CollectiveCall call) {
  using enum SideRanks;
  using enum SideBlocks;
  switch (call) {
    case CollectiveCall::alltoall: return {{all, one_per_rank, 0, 1, 2}, {all, one_per_rank, 3, 4, 5}, 6};
    case CollectiveCall::alltoallv: return {{all, placed, 0, 1, 3, 2}, {all, placed, 4, 5, 7, 6}, 8};
    case CollectiveCall::allgather: return {{all, one, 0, 1, 2}, {all, one_per_rank, 3, 4, 5}, 6};
    case CollectiveCall::allgatherv: return {{all, one, 0, 1, 2}, {all, placed, 3, 4, 6, 5}, 7};
    case CollectiveCall::bcast: return {{root, one, 0, 1, 2}, {others, one, 0, 1, 2}, 4, 3};
    case CollectiveCall::gather: return {{all, one, 0, 1, 2}, {root, one_per_rank, 3, 4, 5}, 7, 6};
    case CollectiveCall::gatherv: return {{all, one, 0, 1, 2}, {root, placed, 3, 4, 6, 5}, 8, 7};
    case CollectiveCall::scatter: return {{root, one_per_rank, 0, 1, 2}, {all, one, 3, 4, 5}, 7, 6};
    case CollectiveCall::scatterv: return {{root, placed, 0, 1, 3, 2}, {all, one, 4, 5, 6}, 8, 7};
    case CollectiveCall::reduce: return {{all, one, 0, 2, 3}, {root, one, 1, 2, 3}, 6, 5};
    case CollectiveCall::allreduce:
    case CollectiveCall::scan: return {{all, one, 0, 2, 3}, {all, one, 1, 2, 3}, 5};
    case CollectiveCall::exscan: return {{all, one, 0, 2, 3}, {not_first, one, 1, 2, 3}, 5};
    case CollectiveCall::reduce_scatter: return {{all, listed, 0, 2, 3}, {all, own_of_listed, 1, 2, 3}, 5};
    case CollectiveCall::reduce_scatter_block: return {{all, one_per_rank, 0, 2, 3}, {all, one, 1, 2, 3}, 5};
    default: return {};
  }
}

// Bytes of one element; 0: elements are not one dense piece.
std::int64_t dense_bytes(MPI_Datatype type) {
  const TypeShape* known = detail::predefined_shape(type);
  const TypeShape shape = known != nullptr ? *known : uncommitted_shape_of(type);
  return shape.dense && shape.first == 0 && shape.extent == shape.size ? shape.size : 0;
}

struct Member {
  std::size_t rank = 0;
  std::size_t size = 0;
};

// Elements, as offsets from the buffer.
struct Elements {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool has_gaps = false;
};

class Reading {
 public:
  Reading(std::span<const Word> words, bool large, const Member& me) : words_(words), large_(large), me_(me) {}

  [[nodiscard]] Elements elements(const Side& side) const {
    const Word count = words_[side.count];
    const auto size = static_cast<std::int64_t>(me_.size);
    switch (side.blocks) {
      case SideBlocks::one: return {0, single(count), false};
      case SideBlocks::one_per_rank: return {0, single(count) * size, false};
      case SideBlocks::own_of_listed: return {0, listed(count, me_.rank), false};
      case SideBlocks::listed: return {0, sum(count), false};
      case SideBlocks::placed: return placed(count, words_[side.displacements]);
    }
    return {};
  }

 private:
  [[nodiscard]] std::int64_t single(Word word) const {
    return large_ ? static_cast<std::int64_t>(word) : static_cast<std::int64_t>(static_cast<int>(word));
  }
  [[nodiscard]] std::int64_t listed(Word list, std::size_t i) const {
    return large_ ? static_cast<std::int64_t>(argument<const MPI_Count*>(list)[i]) : argument<const int*>(list)[i];
  }
  [[nodiscard]] std::int64_t place(Word list, std::size_t i) const {
    return large_ ? static_cast<std::int64_t>(argument<const MPI_Aint*>(list)[i]) : argument<const int*>(list)[i];
  }
  [[nodiscard]] std::int64_t sum(Word counts) const {
    std::int64_t total = 0;
    for (std::size_t i = 0; i < me_.size; ++i) total += listed(counts, i);
    return total;
  }
  // Each block must begin where the last one ended: blocks that overlap can hide a gap.
  [[nodiscard]] Elements placed(Word counts, Word places) const {
    Elements all;
    for (std::size_t i = 0; i < me_.size; ++i) {
      const std::int64_t count = listed(counts, i);
      if (count == 0) continue;
      if (all.begin == all.end) all.begin = all.end = place(places, i);
      all.has_gaps = all.has_gaps || place(places, i) != all.end;
      all.end += count;
    }
    return all;
  }

  std::span<const Word> words_;
  bool large_;
  Member me_;
};

bool takes_part(SideRanks ranks, const Member& me, std::size_t root) {
  switch (ranks) {
    case SideRanks::none: return false;
    case SideRanks::all: return true;
    case SideRanks::root: return me.rank == root;
    case SideRanks::others: return me.rank != root;
    case SideRanks::not_first: return me.rank != 0;
  }
  return false;
}

enum class Found : std::uint8_t { nothing, pages, unknown };

Found find_pages(const Side& side, std::span<const Word> words, const Reading& reading, GuardedPages& pages) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  if (argument<const void*>(words[side.buffer]) == MPI_IN_PLACE) return Found::nothing;
  const Elements elements = reading.elements(side);
  if (elements.begin >= elements.end) return Found::nothing;
  const std::int64_t bytes = dense_bytes(argument<MPI_Datatype>(words[side.type]));
  if (bytes == 0 || elements.has_gaps) return Found::unknown;
  const std::uintptr_t begin = words[side.buffer] + static_cast<std::uintptr_t>(elements.begin * bytes);
  const std::uintptr_t end = words[side.buffer] + static_cast<std::uintptr_t>(elements.end * bytes);
  pages.begin = (begin + page - 1) / page * page;
  pages.end = end / page * page;
  return pages.begin < pages.end ? Found::pages : Found::unknown;
}

}  // namespace

CallBuffers::CallBuffers(CollectiveCall call, std::span<const Word> words, bool large_counts) {
  const Sides sides = sides_of(call);
  if (sides.sent.ranks == SideRanks::none) {
    has_data_ = call != CollectiveCall::barrier;
    is_known_ = false;
    return;
  }
  const auto comm = argument<MPI_Comm>(words[sides.comm]);
  int inter = 0;
  int rank = 0;
  int size = 0;
  real().Comm_test_inter(comm, &inter);
  real().Comm_rank(comm, &rank);
  real().Comm_size(comm, &size);
  is_known_ = inter == 0;
  has_data_ = inter != 0;
  if (inter != 0 || size == 1) return;
  const Member me{static_cast<std::size_t>(rank), static_cast<std::size_t>(size)};
  const auto root = sides.root == 0 ? std::size_t{0} : static_cast<std::size_t>(argument<int>(words[sides.root]));
  const Reading reading(words, large_counts, me);
  for (const Side* side : {&sides.sent, &sides.received}) {
    if (!takes_part(side->ranks, me, root)) continue;
    GuardedPages pages{0, 0, side == &sides.sent};
    const Found found = find_pages(*side, words, reading, pages);
    has_data_ = has_data_ || found != Found::nothing;
    is_known_ = is_known_ && found != Found::unknown;
    if (found == Found::pages) pages_[count_++] = pages;
  }
}

void BuffersOfCalls::add(const CallBuffers& call) {
  if (!call.has_data()) return;
  has_data_ = true;
  is_known_ = is_known_ && !call.pages().empty() && count_ + call.pages().size() <= pages_.size();
  if (!is_known_) return;
  std::ranges::copy(call.pages(), pages_.begin() + static_cast<std::ptrdiff_t>(count_));
  count_ += call.pages().size();
}

}  // namespace outrigger::mpi
