#include "intranode/posts_area.hpp"

#include <sys/mman.h>

#include <cerrno>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace outrigger::intranode {

Result<UniqueFd> PostsMemory::create(std::uint32_t members) {
  return create_sealed_memory("outrigger-posts", bytes(members), Backing::on_touch);
}

Result<PostsMemory> PostsMemory::attach(int fd, std::uint32_t members) {
  if (Status status = check_sealed_memory(fd, bytes(members)); !status) return Error{status.error()};
  Result<Mapping> mapping = Mapping::map(fd, bytes(members));
  if (!mapping) return Error{mapping.error()};
  (void)::madvise(mapping.value().base(), bytes(members), MADV_DONTDUMP);
  return PostsMemory(std::move(mapping).value(), members);
}

bool PostsMemory::allocate(std::uint32_t rank) const {
  if (::madvise(&member(rank), offsetof(PostsArea, bytes), MADV_POPULATE_WRITE) == 0) return true;
  return errno != ENOMEM && errno != EFAULT;
}

}  // namespace outrigger::intranode
