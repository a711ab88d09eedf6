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

// A file of a process: descriptors and process ids may be used again.
struct OpenFile {
  std::int64_t fd = -1;  // -1: it has none
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

// Sent by each rank to the others.
struct Whereabouts {
  std::uint64_t pid_namespace = 0;  // 0: not known
  std::int64_t pid = 0;
  std::int32_t has_room = 0;
  std::int32_t has_own_core = 0;
  intranode::CorePlace core{};
  OpenFile team;   // of the team's memory
  OpenFile posts;  // for nonblocking collectives
};

OpenFile file_of(const UniqueFd& fd) {
  OpenFile file{.fd = fd.get()};
  struct stat status {};
  if (fd.valid() && ::fstat(fd.get(), &status) == 0) {
    file.device = status.st_dev;
    file.inode = status.st_ino;
  }
  return file;
}

Whereabouts whereabouts(const MeetingRank& rank, const UniqueFd& team, const UniqueFd& posts) {
  Whereabouts mine{.pid = ::getpid(), .team = file_of(team), .posts = file_of(posts)};
  mine.has_room = rank.has_room ? 1 : 0;
  mine.has_own_core = rank.has_own_core ? 1 : 0;
  if (rank.has_room && rank.has_own_core) mine.core = intranode::own_core_place();
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) == 0) mine.pid_namespace = status.st_ino;
  return mine;
}

UniqueFd open_file_of(std::int64_t pid, const OpenFile& file) {
  if (file.fd < 0) return {};
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(file.fd);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status {};
  const bool is_it =
      fd.valid() && ::fstat(fd.get(), &status) == 0 && status.st_dev == file.device && status.st_ino == file.inode;
  return is_it ? std::move(fd) : UniqueFd();
}

// All are where they can have the first one's memory.
bool may_attach(const std::vector<Whereabouts>& all) {
  const Whereabouts& first = all.front();
  return std::ranges::all_of(all, [&](const Whereabouts& one) {
    return one.has_room != 0 && one.pid_namespace != 0 && one.pid_namespace == first.pid_namespace;
  });
}

// The first one's memory, from its `file`, or `own` where this rank is the first.
template <class Memory>
std::optional<Memory> attach_to(const std::vector<Whereabouts>& all, const OpenFile& file, const UniqueFd& own,
                                std::uint32_t me) {
  if (!may_attach(all)) return std::nullopt;
  const UniqueFd opened = own.valid() ? UniqueFd() : open_file_of(all.front().pid, file);
  const int fd = own.valid() ? own.get() : opened.get();
  if (fd < 0) return std::nullopt;
  Result<Memory> memory = Memory::attach(fd, static_cast<std::uint32_t>(all.size()));
  if (!memory || !memory.value().allocate(me)) return std::nullopt;
  return std::move(memory).value();
}

template <class Memory>
UniqueFd create(std::size_t members) {
  Result<UniqueFd> made = Memory::create(static_cast<std::uint32_t>(members));
  return made ? std::move(made).value() : UniqueFd();
}

std::vector<intranode::CorePlace> cores_of(const std::vector<Whereabouts>& here) {
  std::vector<intranode::CorePlace> cores;
  for (const Whereabouts& one : here) {
    if (one.has_own_core == 0) return {};
    cores.push_back(one.core);
  }
  return cores;
}

// For MPI_MIN over all ranks.
enum : std::int32_t { kNone = 0, kTeam = 1, kTeamAndPosts = 2 };

}  // namespace

std::optional<MeetingPlace> meet(MPI_Comm comm, std::uint32_t rank, const NodesMap& map, const MeetingRank& mine) {
  using intranode::ControlArea;
  using intranode::PostsMemory;
  const std::vector<std::uint32_t>& together = map.ranks_of(map.node_of(rank));
  const bool leads = together.front() == rank;
  const bool spans_nodes = map.nodes() > 1;
  const UniqueFd memory = leads && mine.has_room ? create<ControlArea>(together.size()) : UniqueFd();
  const bool may_post = mine.has_room && mine.wants_posts && !spans_nodes;
  const UniqueFd posted = leads && may_post ? create<PostsMemory>(together.size()) : UniqueFd();
  const Whereabouts told = whereabouts(mine, memory, posted);
  std::vector<Whereabouts> all(map.ranks());
  constexpr int kBytes = sizeof told;
  const int gathered = real().Allgather(&told, kBytes, constants().byte, all.data(), kBytes, constants().byte, comm);
  if (gathered != MPI_SUCCESS) return std::nullopt;
  std::vector<Whereabouts> here;
  for (const std::uint32_t one : together) here.push_back(all[one]);
  const std::uint32_t me = map.local_of(rank);
  std::optional<ControlArea> area = attach_to<ControlArea>(here, here.front().team, memory, me);
  std::optional<PostsMemory> posts =
      may_post ? attach_to<PostsMemory>(here, here.front().posts, posted, me) : std::nullopt;
  std::optional<Leaders> leaders = spans_nodes ? Leaders::make(comm, leads) : std::nullopt;
  std::int32_t has_come = !area || leaders.has_value() != spans_nodes ? kNone : posts ? kTeamAndPosts : kTeam;
  std::int32_t all_have = kNone;
  const int agreed = real().Allreduce(&has_come, &all_have, 1, constants().int32, constants().min, comm);
  if (agreed != MPI_SUCCESS || all_have == kNone) return std::nullopt;
  if (all_have != kTeamAndPosts) posts.reset();
  MeetingPlace place{std::move(*area), {}, std::move(leaders), std::move(posts), cores_of(here)};
  for (const Whereabouts& one : here) place.pids.push_back(static_cast<pid_t>(one.pid));
  return place;
}

}  // namespace outrigger::mpi
