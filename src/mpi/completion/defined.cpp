#include "mpi/completion/defined.hpp"

#include <cstddef>

#include "mpi/collectives/offloaded_collective.hpp"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif

// From the memory sanitizer's runtime, which is linked into the program.
extern "C" [[gnu::weak]] void __msan_unpoison(const volatile void* begin, std::size_t bytes);

namespace outrigger::mpi {
namespace {

// Other tools of valgrind ignore the request.
bool under_memcheck() {
#ifdef VALGRIND_MAKE_MEM_DEFINED
  return VALGRIND_MAKE_MEM_DEFINED(nullptr, 0) != 0;
#else
  return false;
#endif
}

bool msan() {
  return &__msan_unpoison != nullptr;
}

void mark(const std::byte* begin, std::size_t bytes) {
#ifdef VALGRIND_MAKE_MEM_DEFINED
  VALGRIND_MAKE_MEM_DEFINED(begin, bytes);
#endif
  if (msan()) __msan_unpoison(begin, bytes);
}

}  // namespace

void mark_received(const Operation& operation) {
  static const bool followed = under_memcheck() || msan();
  if (!followed) return;
  const Blocks& blocks = operation.receive;
  const client::BufferLayout& layout = blocks.layout();
  const std::uint32_t me = operation.comm->me().value();
  if (operation.asked.reduction) {  // one block, if the rank gets any
    if (layout.block_bytes != 0) mark(blocks.handed(0), layout.block_bytes);
    return;
  }
  // Valgrind has better information on bytes that this process copies itself.
  const bool own_is_known = operation.in_place || (operation.asked.own_block_done && !msan());
  if (is_rooted(operation.asked.collective)) {  // one block, from the root
    const bool sent_alone = operation.asked.collective == Collective::ibcast;
    if (*operation.asked.root == me && (own_is_known || sent_alone)) return;
    if (layout.block_bytes != 0) mark(blocks.handed(0), layout.block_bytes);
    return;
  }
  for (std::uint32_t peer = 0; peer < blocks.peers(); ++peer) {
    if (rank_of(blocks, peer) == me && own_is_known) continue;
    if (const std::uint64_t bytes = blocks.bytes_of(peer); bytes != 0) mark(blocks.handed(peer), bytes);
  }
}

}  // namespace outrigger::mpi
