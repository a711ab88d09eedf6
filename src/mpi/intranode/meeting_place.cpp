#include "mpi/intranode/meeting_place.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/unique_fd.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

// Sent by each rank to the others.
struct Whereabouts {
  std::uint64_t pid_namespace = 0;  // 0: not known
  std::int64_t pid = 0;
  std::int32_t fd = -1;  // of the team's memory, in that process; -1: it has none
  std::int32_t has_room = 0;
  std::uint64_t device = 0;  // of the file: process ids may be used again
  std::uint64_t inode = 0;
};

Whereabouts whereabouts(bool has_room, int fd) {
  Whereabouts mine{.pid = ::getpid(), .fd = fd, .has_room = has_room ? 1 : 0};
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) == 0) mine.pid_namespace = status.st_ino;
  if (fd >= 0 && ::fstat(fd, &status) == 0) {
    mine.device = status.st_dev;
    mine.inode = status.st_ino;
  }
  return mine;
}

UniqueFd open_memory_of(const Whereabouts& first) {
  const std::string path = "/proc/" + std::to_string(first.pid) + "/fd/" + std::to_string(first.fd);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status {};
  const bool is_it =
      fd.valid() && ::fstat(fd.get(), &status) == 0 && status.st_dev == first.device && status.st_ino == first.inode;
  return is_it ? std::move(fd) : UniqueFd();
}

// The first one's memory, where all are where they can have it.
std::optional<intranode::ControlArea> attach_to(const std::vector<Whereabouts>& all, const UniqueFd& own) {
  const Whereabouts& first = all.front();
  const bool may = first.fd >= 0 && std::ranges::all_of(all, [&](const Whereabouts& one) {
                     return one.has_room != 0 && one.pid_namespace != 0 && one.pid_namespace == first.pid_namespace;
                   });
  if (!may) return std::nullopt;
  const UniqueFd opened = own.valid() ? UniqueFd() : open_memory_of(first);
  const int fd = own.valid() ? own.get() : opened.get();
  if (fd < 0) return std::nullopt;
  Result<intranode::ControlArea> area = intranode::ControlArea::attach(fd, static_cast<std::uint32_t>(all.size()));
  if (!area) return std::nullopt;
  return std::move(area).value();
}

}  // namespace

std::optional<MeetingPlace> meet(MPI_Comm comm, std::uint32_t rank, const NodesMap& map, bool has_room) {
  const std::vector<std::uint32_t>& together = map.ranks_of(map.node_of(rank));
  const bool leads = together.front() == rank;
  UniqueFd memory;
  if (leads && has_room) {
    Result<UniqueFd> made = intranode::ControlArea::create(static_cast<std::uint32_t>(together.size()));
    if (made) memory = std::move(made).value();
  }
  const Whereabouts mine = whereabouts(has_room, memory.get());
  std::vector<Whereabouts> all(map.ranks());
  constexpr int kBytes = sizeof mine;
  const int told = real().Allgather(&mine, kBytes, constants().byte, all.data(), kBytes, constants().byte, comm);
  if (told != MPI_SUCCESS) return std::nullopt;
  std::vector<Whereabouts> here;
  for (const std::uint32_t one : together) here.push_back(all[one]);
  std::optional<intranode::ControlArea> area = attach_to(here, memory);
  if (area && !area->allocate(map.local_of(rank))) area.reset();
  const bool spans_nodes = map.nodes() > 1;
  std::optional<Leaders> leaders = spans_nodes ? Leaders::make(comm, leads) : std::nullopt;
  std::int32_t has_come = area && leaders.has_value() == spans_nodes ? 1 : 0;
  std::int32_t all_have = 0;
  const int agreed = real().Allreduce(&has_come, &all_have, 1, constants().int32, constants().min, comm);
  if (agreed != MPI_SUCCESS || all_have == 0) return std::nullopt;
  MeetingPlace place{std::move(*area), {}, std::move(leaders)};
  for (const Whereabouts& one : here) place.pids.push_back(static_cast<pid_t>(one.pid));
  return place;
}

}  // namespace outrigger::mpi
