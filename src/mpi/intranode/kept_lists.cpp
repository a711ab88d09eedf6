#include "mpi/intranode/kept_lists.hpp"

#include "mpi/native/entry.hpp"

namespace outrigger::mpi {

void KeptLists::keep(const TeamArguments& call, const TeamPlace& team) {
  count_ = 0;
  for (const TeamSide* side : {&call.send, &call.receive}) {
    if (!side->listed || !side->shape.committed || side->in_place()) continue;
    const std::size_t blocks = side->neighbors == nullptr ? team.size : side->neighbors->listed;
    keep(side->counts, blocks * (call.large ? sizeof(MPI_Count) : sizeof(int)));
    if (side->displacements != 0) {
      keep(side->displacements, blocks * (call.large || side->addresses ? sizeof(MPI_Aint) : sizeof(int)));
    }
  }
}

void KeptLists::keep(Word source, std::size_t bytes) {
  List& list = lists_[count_++];
  list.source = argument<const void*>(source);
  const auto* first = static_cast<const std::byte*>(list.source);
  list.copy.assign(first, first + bytes);
}

void KeptBlocks::keep(const intranode::Blocks& blocks, const void* buffer, std::uint32_t members) {
  first_ = blocks.base - static_cast<const std::byte*>(buffer);
  bytes_.assign(blocks.bytes, blocks.bytes + members);
  offsets_.assign(blocks.offsets, blocks.offsets + members);
}

}  // namespace outrigger::mpi
