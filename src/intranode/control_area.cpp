#include "intranode/control_area.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <string>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace outrigger::intranode {
namespace {

Status check_members(std::uint32_t members) {
  if (members >= 1 && members <= kMostMembers) return Done{};
  return Error{"a team of " + std::to_string(members) + " members; it may have 1 to " + std::to_string(kMostMembers)};
}

}  // namespace

Result<UniqueFd> ControlArea::create(std::uint32_t members) {
  if (Status status = check_members(members); !status) return Error{status.error()};
  return create_sealed_memory("outrigger-team", bytes(members), Backing::on_touch);
}

Result<ControlArea> ControlArea::attach(int fd, std::uint32_t members) {
  if (Status status = check_members(members); !status) return Error{status.error()};
  if (Status status = check_sealed_memory(fd, bytes(members)); !status) return Error{status.error()};
  Result<Mapping> mapping = Mapping::map(fd, bytes(members));
  if (!mapping) return Error{mapping.error()};
  return ControlArea(std::move(mapping).value(), members);
}

bool ControlArea::allocate(std::uint32_t rank) const {
  if (::madvise(&member(rank), sizeof(MemberArea), MADV_POPULATE_WRITE) == 0) return true;
  return errno != ENOMEM && errno != EFAULT;
}

}  // namespace outrigger::intranode
