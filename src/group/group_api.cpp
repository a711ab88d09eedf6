// The functions of outrigger/group.h.
#include <outrigger/group.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/huge_page.hpp"
#include "client/memory/huge_pages.hpp"
#include "group/assembly.hpp"
#include "group/combines.hpp"
#include "group/failure.hpp"
#include "group/mailroom.hpp"
#include "group/member_processes.hpp"
#include "group/member_waiter.hpp"
#include "group/member_watch.hpp"
#include "group/nodes/fork_guard.hpp"
#include "group/nodes/node_collectives.hpp"
#include "group/nodes/socket_stream.hpp"
#include "group/ring_stream.hpp"
#include "group/service/group_service.hpp"
#include "group/service/service_start.hpp"
#include "group/team_slices.hpp"
#include "intranode/peer_memory.hpp"
#include "intranode/team.hpp"
#include "protocol/options/settings.hpp"

namespace outrigger::group {
namespace {

using client::HugePages;
using intranode::Blocks;
using intranode::Outcome;

constexpr std::int64_t kDefaultTimeoutMs = 1800'000;
// A century: clocks count nanoseconds.
constexpr std::int64_t kLongestTimeoutMs = std::int64_t{100} * 365 * 24 * 3600 * 1000;
constexpr std::uint64_t kMostKeptScratch = std::uint64_t{32} << 20;

thread_local std::string last_error;

int report(int result, std::string sentence) {
  last_error = std::move(sentence);
  return result;
}
// Without memory of its own.
int report_no_memory() noexcept {
  last_error.assign("no memory");
  return OUTRIGGER_GROUP_NO_MEMORY;
}
int bad(std::string sentence) {
  return report(OUTRIGGER_GROUP_BAD_ARGUMENT, std::move(sentence));
}

std::chrono::milliseconds timeout_of(std::int64_t timeout_ms) {
  return std::chrono::milliseconds(timeout_ms > 0 ? std::min(timeout_ms, kLongestTimeoutMs) : kDefaultTimeoutMs);
}

std::span<const std::byte> bytes_at(const void* from, std::uint64_t bytes) {
  return {static_cast<const std::byte*>(from), bytes};
}
std::span<std::byte> bytes_at(void* from, std::uint64_t bytes) {
  return {static_cast<std::byte*>(from), bytes};
}

bool is_on(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr || std::string_view(value) != "off";
}

Blocks blocks_of(const struct outrigger_group_blocks& blocks) {
  return {.base = static_cast<std::byte*>(blocks.base),
          .each = blocks.each,
          .bytes = blocks.bytes,
          .offsets = blocks.offsets};
}

// Sentences of intranode name the calls as MPI does.
std::string without_mpi(std::string sentence) {
  for (std::size_t at = sentence.find("MPI_"); at != std::string::npos; at = sentence.find("MPI_", at)) {
    sentence.erase(at, 4);
  }
  return sentence;
}

std::vector<pid_t> pids_here(const Assembly& assembly) {
  std::vector<pid_t> pids;
  for (const std::uint32_t member : assembly.layout.here()) pids.push_back(assembly.pids[member]);
  return pids;
}

// By rank; invalid for members of this node.
std::vector<GuardedFd> connections_for(Assembly& assembly, Channel channel) {
  std::vector<GuardedFd> taken;
  for (auto& one : assembly.connections) taken.push_back(std::move(one[static_cast<std::size_t>(channel)]));
  return taken;
}

std::vector<std::unique_ptr<Stream>> streams_to_nodes(Assembly& assembly, Channel channel) {
  std::vector<std::unique_ptr<Stream>> streams(assembly.layout.size());
  std::vector<GuardedFd> connections = connections_for(assembly, channel);
  for (std::uint32_t member = 0; member < connections.size(); ++member) {
    if (!connections[member].valid()) continue;
    streams[member] = std::make_unique<SocketStream>(std::move(connections[member]));
  }
  return streams;
}

std::vector<std::unique_ptr<Stream>> streams_for_messages(Assembly& assembly) {
  const Layout& layout = assembly.layout;
  std::vector<std::unique_ptr<Stream>> streams = streams_to_nodes(assembly, Channel::messages);
  for (const std::uint32_t member : layout.here()) {
    streams[member] = std::make_unique<RingStream>(assembly.area, layout.place(), layout.place_of(member));
  }
  return streams;
}

}  // namespace
}  // namespace outrigger::group

using namespace outrigger;
using namespace outrigger::group;

struct outrigger_group {
  explicit outrigger_group(std::unique_ptr<Assembly> assembly)
      : layout(assembly->layout),
        pids(assembly->pids),
        service_pids(assembly->service_pids),
        watch(layout, assembly->area, std::move(assembly->processes), connections_for(*assembly, Channel::watch)),
        waiter(assembly->policy, layout, watch),
        memory(pids_here(*assembly)),
        team(std::move(assembly->control), layout.place(), waiter),
        order(intranode::SumTree::linear(layout.size())),
        mailroom(assembly->policy, layout, assembly->area, watch, streams_for_messages(*assembly)) {
    if (assembly->service) {
      service.emplace(std::move(*assembly->service), std::move(*assembly->service_process), layout, watch);
    }
    if (is_on(setting::kHugePages)) huge_pages.allow(huge_page_support().bytes);
    if (layout.nodes() == 1) return;
    nodes.emplace(team, layout, streams_to_nodes(*assembly, Channel::collectives), watch, waiter);
    // Other nodes may wait for its vote.
    if (service) nodes->also_look([this] { service->end_hung_process(); });
  }

  ~outrigger_group() {
    if (nodes && watch.failure().is_set()) nodes->abandon();
  }
  outrigger_group(const outrigger_group&) = delete;
  outrigger_group& operator=(const outrigger_group&) = delete;

  [[nodiscard]] std::uint32_t rank() const { return layout.rank(); }
  [[nodiscard]] std::uint32_t size() const { return layout.size(); }

  // Runs a collective of the team, or of the nodes. It may have read memory of a member that does not wait until all
  // are done. A member's call notes a failure before it returns, so without one the memory was still that of the call.
  template <class Call>
  int collective(Call call) {
    if (nodes) watch.look();
    const int result = run(call);
    std::atomic_thread_fence(std::memory_order_acquire);  // the bytes were read before
    const Failure failure = watch.failure();
    return result == OUTRIGGER_GROUP_OK && failure.is_set() ? report_failure(failure) : result;
  }
  // One that a service process may do. `moves`: bytes that all members know alike; without any, none waits. `fill`
  // makes its post. `by_members(again)` does it: after a service process, if `again`.
  template <class Fill, class Call>
  int collective(std::uint64_t moves, Fill fill, Call by_members) {
    return collective([&] {
      if (moves == 0 || !service || !service->begin(prefers_service.load(std::memory_order_relaxed))) {
        return by_members(false);
      }
      auto post = std::make_unique<Post>();
      fill(*post);
      switch (service->serve(*post, waiter.timeout())) {
        case GroupService::Served::done: return Outcome::done;
        case GroupService::Served::failed: return Outcome::ended;
        case GroupService::Served::by_members: break;
      }
      return by_members(true);
    });
  }
  // In a collective: others copy this memory, or the blocks.
  void lends(std::span<const std::byte> lent) {
    if (!huge_pages.note_source(reinterpret_cast<std::uintptr_t>(lent.data()), lent.size())) return;
    while (huge_pages.anything()) huge_pages.advance();
  }
  void lends(const Blocks& blocks) {
    if (blocks.is_regular()) return lends(bytes_at(blocks.base, blocks.each * size()));
    for (std::uint32_t member = 0; member < size(); ++member) lends(blocks.of(member));
  }
  template <class Call>
  int run(Call call) {
    const std::scoped_lock held(one_at_a_time);
    if (const Failure failure = watch.failure(); failure.is_set()) return report_failure(failure);
    const Outcome outcome = call();
    if (nodes) nodes->shrink(kMostKeptScratch);
    if (outcome == Outcome::done) return OUTRIGGER_GROUP_OK;
    if (const auto difference = this->difference()) {
      (void)watch.fail({.kind = FailureKind::different, .about = difference->other, .noticed = rank()});
      return report(OUTRIGGER_GROUP_DIFFERENT, without_mpi(difference->description(rank())));
    }
    return report_failure(watch.failure());
  }
  // In ranks of the group.
  [[nodiscard]] std::optional<intranode::Difference> difference() const {
    if (nodes && nodes->difference()) return nodes->difference();
    std::optional<intranode::Difference> found = team.difference();
    if (found) found->other = layout.here()[found->other];
    return found;
  }
  // No member returns before all have come.
  int open() {
    return run([&] {
      const Outcome outcome = team.open(memory);
      // Blocks of an alltoall share the slots.
      const std::uint64_t exchanged = intranode::kUntriedDirectBytes / std::max(team.size() - 1, 1U);
      team.copy_directly_from(intranode::kUntriedDirectBytes, std::max(exchanged, intranode::kDirectBytes));
      return outcome == Outcome::done && nodes ? nodes->barrier() : outcome;
    });
  }
  // Runs a function of the C interface. Others must not wait for a member that has no memory for its call.
  template <class Function>
  int guarded(Function function) {
    if (!own_process.is_this()) return report_child();
    try {
      return function();
    } catch (const std::exception&) {
      mailroom.fail({.kind = FailureKind::no_memory, .about = rank(), .noticed = rank()});
      return report_no_memory();
    }
  }
  [[nodiscard]] int report_child() const {
    return bad("this process was forked from rank " + std::to_string(rank()) + " (process " +
               std::to_string(pids[rank()]) + "), whose group it cannot use");
  }
  int report_failure(const Failure& failure) const {
    const bool is_far = layout.node_of(failure.about) != layout.node_of(failure.noticed);
    const bool is_service = failure.kind == FailureKind::service_died && service;
    const pid_t pid = is_service ? service_pids[layout.node_of(failure.about)] : pids[failure.about];
    return report(result_of(failure), sentence_of(failure, rank(), pid, is_far));
  }

  OwnProcess own_process;
  Layout layout;
  std::vector<pid_t> pids;
  std::vector<pid_t> service_pids;  // by node
  MemberWatch watch;
  MemberWaiter waiter;
  intranode::CrossMemory memory;
  intranode::Team team;
  intranode::SumOrder order;
  Mailroom mailroom;
  std::optional<NodeCollectives> nodes;  // of a group on several nodes
  std::optional<GroupService> service;   // where a core is kept
  HugePages huge_pages;
  std::atomic<bool> prefers_service{false};
  std::mutex one_at_a_time;
};

struct outrigger_group_request {
  outrigger_group* group;
  std::shared_ptr<Letter> letter;
};

namespace outrigger::group {
namespace {

int check_rank(const outrigger_group* group, std::uint32_t rank) {
  if (rank < group->size()) return OUTRIGGER_GROUP_OK;
  return bad("there is no rank " + std::to_string(rank) + " in a group of " + std::to_string(group->size()));
}

int check_blocks(const outrigger_group_blocks* blocks) {
  if (blocks == nullptr) return bad("the blocks are NULL");
  return (blocks->bytes == nullptr) == (blocks->offsets == nullptr)
             ? static_cast<int>(OUTRIGGER_GROUP_OK)
             : bad("blocks have bytes and offsets, or none of the two");
}

// One call's reduction.
struct Reducing {
  std::unique_ptr<intranode::Combine> combine;
  int result = OUTRIGGER_GROUP_OK;
};
Reducing reducing(const outrigger_group* group, int type, int operation) {
  Reducing made{.combine = combine_for(type, operation, group->order)};
  if (made.combine == nullptr) {
    made.result = bad("operation " + std::to_string(operation) + " is not defined for type " + std::to_string(type));
  }
  return made;
}

// A reduction that is defined for the type.
NodesCombine combine_across(const outrigger_group& group, int type, int operation) {
  return *NodesCombine::of(type, operation, group.nodes->orders());
}

PostedBlock posted(const void* at, std::uint64_t bytes) {
  return {.address = reinterpret_cast<std::uintptr_t>(at), .bytes = bytes};
}
void post_row(std::array<PostedBlock, intranode::kMostMembers>& row, const Blocks& blocks, std::uint32_t members) {
  for (std::uint32_t member = 0; member < members; ++member) {
    const std::span<std::byte> block = blocks.of(member);
    row[member] = posted(block.data(), block.size());
  }
}
// A call with one block on each side.
auto post_of(PostedCall call, PostedBlock from, PostedBlock into, std::uint32_t root = 0) {
  return [=](Post& post) {
    post.call = call;
    post.root = root;
    post.from[0] = from;
    post.into[0] = into;
  };
}

// A reduction of vectors that a service process may have begun.
struct Vector {
  const std::byte* from;
  std::byte* into;
  std::uint64_t bytes;

  // The part that the service process has not completed.
  [[nodiscard]] Vector rest(const GroupService& service) const {
    const std::uint64_t done = service.finish_pieces(into, bytes);
    return {from + done, into == nullptr ? nullptr : into + done, bytes - done};
  }
};

auto exchange_of(const outrigger_group& group, const outrigger_group_blocks& from, const outrigger_group_blocks& into) {
  return [&](Post& post) {
    post.call = PostedCall::all_to_all;
    post_row(post.from, blocks_of(from), group.size());
    post_row(post.into, blocks_of(into), group.size());
  };
}
Vector vector_of(const void* from, void* into, std::uint64_t bytes) {
  return {static_cast<const std::byte*>(from), static_cast<std::byte*>(into), bytes};
}
auto post_of(PostedCall call, const Vector& vector, int type, int operation, std::uint32_t root = 0) {
  const PostedBlock from = posted(vector.from, vector.bytes);
  const PostedBlock into = posted(vector.into, vector.bytes);
  return [=](Post& post) {
    post_of(call, from, into, root)(post);
    post.type = type;
    post.operation = operation;
  };
}

int report_letter(const outrigger_group& group, const Letter& letter, Mailroom::Waited waited) {
  if (waited == Mailroom::Waited::done) return OUTRIGGER_GROUP_OK;
  if (letter.failure.is_set()) {
    const int result = group.report_failure(letter.failure);
    // TIMEOUT is a wait that may be repeated.
    return letter.failure.kind == FailureKind::late ? static_cast<int>(OUTRIGGER_GROUP_ABORTED) : result;
  }
  if (!letter.fits) {
    return report(OUTRIGGER_GROUP_DIFFERENT, "a message of " + std::to_string(letter.other_bytes) +
                                                 " bytes from rank " + std::to_string(letter.peer) +
                                                 " has come for a receive of " + std::to_string(letter.bytes) +
                                                 " bytes");
  }
  const std::string peer = letter.peer == kAnyMember ? "any rank" : "rank " + std::to_string(letter.peer);
  return report(OUTRIGGER_GROUP_TIMEOUT, letter.is_send ? peer + " has not received a message in time"
                                                        : "no message has come from " + peer + " in time");
}

// A blocking send or receive.
int finish(outrigger_group& group, const std::shared_ptr<Letter>& letter) {
  const Mailroom::Waited waited = group.mailroom.wait(letter, group.waiter.timeout());
  const int result = report_letter(group, *letter, waited);
  if (waited == Mailroom::Waited::late) group.mailroom.cancel(letter);
  return result;
}

// The others have joined, and must not wait for a member without memory.
std::unique_ptr<outrigger_group> made_of(std::unique_ptr<Assembly> assembly) {
  const GroupArea area = assembly->area;
  const std::uint32_t place = assembly->layout.place();
  const std::optional<ServiceArea> service = assembly->service;
  try {
    return std::make_unique<outrigger_group>(std::move(assembly));
  } catch (...) {
    area.leave(place);
    if (service) stop_service(*service);
    throw;
  }
}

int create(const struct outrigger_group_config& config, outrigger_group*& group) {
  const std::chrono::milliseconds timeout = timeout_of(config.timeout_ms);
#ifdef PR_SET_PTRACER
  // Lets the other members copy, where Yama would only allow a process's parents.
  (void)::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
  Refusal refusal;
  std::unique_ptr<Assembly> assembly = assemble(config, timeout.count(), refusal);
  if (assembly == nullptr) return report(refusal.result, std::move(refusal.sentence));
  std::unique_ptr<outrigger_group> made = made_of(std::move(assembly));
  made->waiter.set_timeout(timeout);
  const int result = made->guarded([&] { return made->open(); });
  if (result != OUTRIGGER_GROUP_OK) return result;
  group = made.release();
  return OUTRIGGER_GROUP_OK;
}

int check_peer(const outrigger_group* group, const void* buffer, std::uint64_t bytes, std::uint32_t peer) {
  if (buffer == nullptr && bytes > 0) return bad("the buffer is NULL");
  return check_rank(group, peer);
}

}  // namespace
}  // namespace outrigger::group

extern "C" {

const char* outrigger_group_result_text(int result) {
  switch (result) {
    case OUTRIGGER_GROUP_OK: return "done";
    case OUTRIGGER_GROUP_BAD_ARGUMENT: return "a wrong argument";
    case OUTRIGGER_GROUP_TIMEOUT: return "a rank has not come in time";
    case OUTRIGGER_GROUP_DEAD_RANK: return "a rank has ended or has destroyed its group";
    case OUTRIGGER_GROUP_DIFFERENT: return "ranks made different calls";
    case OUTRIGGER_GROUP_ABORTED: return "the group was aborted";
    case OUTRIGGER_GROUP_NO_MEMORY: return "memory could not be shared";
    case OUTRIGGER_GROUP_STORE_FAILED: return "the key-value store failed";
    case OUTRIGGER_GROUP_PENDING: return "not complete yet";
    default: return "not a result of group.h";
  }
}

const char* outrigger_group_last_error(void) {
  return last_error.c_str();
}

int outrigger_group_create(const struct outrigger_group_config* config, outrigger_group** group) {
  if (config == nullptr || group == nullptr) return bad("a NULL pointer");
  *group = nullptr;
  if (config->size == 0 || config->size > intranode::kMostMembers || config->rank >= config->size) {
    return bad("rank " + std::to_string(config->rank) + " of " + std::to_string(config->size) + "; a group has 1 to " +
               std::to_string(intranode::kMostMembers) + " ranks");
  }
  if (config->store.set == nullptr || config->store.get == nullptr) return bad("the store has no set or no get");
  try {
    return create(*config, *group);
  } catch (const std::system_error& error) {
    return report(OUTRIGGER_GROUP_NO_MEMORY, error.what());
  } catch (const std::exception&) {
    return report_no_memory();
  }
}

// A child has neither the threads nor the shared memory, so it keeps its copy.
void outrigger_group_destroy(outrigger_group* group) {
  if (group != nullptr && group->own_process.is_this()) delete group;
}

void outrigger_group_abort(outrigger_group* group) {
  if (!group->own_process.is_this()) return;
  (void)group->watch.fail({.kind = FailureKind::aborted, .about = group->rank(), .noticed = group->rank()});
}

void outrigger_group_set_timeout(outrigger_group* group, int64_t timeout_ms) {
  group->waiter.set_timeout(timeout_of(timeout_ms));
}

int outrigger_group_prefer_service(outrigger_group* group, int prefer) {
  group->prefers_service.store(prefer != 0, std::memory_order_relaxed);
  return group->service ? 1 : 0;
}

int outrigger_group_service_process(const outrigger_group* group) {
  return group->service && group->own_process.is_this() ? group->service->process() : 0;
}

int outrigger_group_barrier(outrigger_group* group) {
  return group->guarded([&]() -> int {
    return group->collective(1, post_of(PostedCall::barrier, {}, {}), [&](bool /*again*/) {
      return group->nodes ? group->nodes->barrier() : group->team.barrier();
    });
  });
}

int outrigger_group_broadcast(outrigger_group* group, void* buffer, uint64_t bytes, uint32_t root) {
  return group->guarded([&]() -> int {
    if (const int result = check_rank(group, root); result != 0) return result;
    const PostedBlock block = posted(buffer, bytes);
    return group->collective(bytes, post_of(PostedCall::broadcast, block, block, root), [&](bool /*again*/) {
      group->lends(bytes_at(buffer, bytes));
      return group->nodes ? group->nodes->broadcast(bytes_at(buffer, bytes), root)
                          : group->team.broadcast(bytes_at(buffer, bytes), root);
    });
  });
}

int outrigger_group_all_reduce(outrigger_group* group, const void* from, void* into, uint64_t count, int type,
                               int operation) {
  return group->guarded([&]() -> int {
    const Reducing reduction = reducing(group, type, operation);
    if (reduction.combine == nullptr || count == 0) return reduction.result;
    const Vector whole = vector_of(from, into, count * bytes_of_type(type));
    const auto fill = post_of(PostedCall::all_reduce, whole, type, operation);
    return group->collective(whole.bytes, fill, [&](bool again) {
      group->lends(bytes_at(from, whole.bytes));
      if (into != from) group->lends(bytes_at(into, whole.bytes));
      if (group->nodes) {
        const NodesCombine combine = combine_across(*group, type, operation);
        return group->nodes->all_reduce(whole.from, whole.into, count, combine);
      }
      const Vector left = again ? whole.rest(*group->service) : whole;
      if (left.bytes == 0) return Outcome::done;
      if (is_sliced(group->team, left.bytes)) {
        return group->team.allreduce_directly({left.from, left.bytes}, left.into, *reduction.combine);
      }
      return group->team.allreduce({left.from, left.bytes}, left.into, *reduction.combine);
    });
  });
}

int outrigger_group_reduce(outrigger_group* group, const void* from, void* into, uint64_t count, int type,
                           int operation, uint32_t root) {
  return group->guarded([&]() -> int {
    if (const int result = check_rank(group, root); result != 0) return result;
    const Reducing reduction = reducing(group, type, operation);
    if (reduction.combine == nullptr || count == 0) return reduction.result;
    const Vector whole = vector_of(from, group->rank() == root ? into : nullptr, count * bytes_of_type(type));
    return group->collective(whole.bytes, post_of(PostedCall::reduce, whole, type, operation, root), [&](bool again) {
      if (group->nodes) {
        const NodesCombine combine = combine_across(*group, type, operation);
        return group->nodes->reduce(whole.from, whole.into, count, combine, root);
      }
      const Vector left = again ? whole.rest(*group->service) : whole;
      return group->team.reduce({left.from, left.bytes}, left.into, *reduction.combine, root);
    });
  });
}

int outrigger_group_reduce_scatter(outrigger_group* group, const void* from, void* into, const uint64_t* counts,
                                   int type, int operation) {
  return group->guarded([&]() -> int {
    if (counts == nullptr) return bad("the counts are NULL");
    const Reducing reduction = reducing(group, type, operation);
    if (reduction.combine == nullptr) return reduction.result;
    std::vector<std::uint64_t> bytes(counts, counts + group->size());
    for (std::uint64_t& one : bytes) one *= bytes_of_type(type);
    const std::uint64_t total = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
    if (total == 0) return OUTRIGGER_GROUP_OK;
    const auto* mine = static_cast<const std::byte*>(from);
    // The service process reads blocks of all members after it has written the first results.
    std::vector<std::byte> apart(group->service && from == into ? bytes[group->rank()] : 0);
    std::byte* results = apart.empty() ? static_cast<std::byte*>(into) : apart.data();
    const auto fill = [&](Post& post) {
      post.call = PostedCall::reduce_scatter;
      post.type = type;
      post.operation = operation;
      const Row row(bytes);
      post_row(post.from, row.at(const_cast<std::byte*>(mine)), group->size());
      post.into[0] = posted(results, bytes[group->rank()]);
    };
    const int result = group->collective(total, fill, [&](bool /*again*/) {
      group->lends(bytes_at(from, total));
      if (group->nodes) {
        const NodesCombine combine = combine_across(*group, type, operation);
        return group->nodes->reduce_scatter(mine, results, std::span(counts, group->size()), combine);
      }
      if (is_sliced(group->team, total)) {
        return group->team.reduce_scatter_directly(mine, bytes, results, *reduction.combine);
      }
      return group->team.reduce_scatter(mine, bytes, results, *reduction.combine);
    });
    if (result == OUTRIGGER_GROUP_OK) std::ranges::copy(apart, static_cast<std::byte*>(into));
    return result;
  });
}

int outrigger_group_all_gather(outrigger_group* group, const void* from, uint64_t bytes,
                               const struct outrigger_group_blocks* into) {
  return group->guarded([&]() -> int {
    if (const int result = check_blocks(into); result != 0) return result;
    const Blocks blocks = blocks_of(*into);
    if (blocks.of(group->rank()).size() != bytes) return bad("the own block has another length than `from`");
    std::uint64_t total = 0;
    for (std::uint32_t member = 0; member < group->size(); ++member) total += blocks.of(member).size();
    const auto fill = [&](Post& post) {
      post.call = PostedCall::all_gather;
      post.from[0] = posted(from, bytes);
      post_row(post.into, blocks, group->size());
    };
    return group->collective(total, fill, [&](bool /*again*/) {
      group->lends(bytes_at(from, bytes));
      return group->nodes ? group->nodes->all_gather(bytes_at(from, bytes), blocks)
                          : group->team.allgather(bytes_at(from, bytes), blocks);
    });
  });
}

int outrigger_group_gather(outrigger_group* group, const void* from, uint64_t bytes,
                           const struct outrigger_group_blocks* into, uint32_t root) {
  return group->guarded([&]() -> int {
    if (const int result = check_rank(group, root); result != 0) return result;
    Blocks blocks{.each = bytes};
    if (group->rank() == root) {
      if (const int result = check_blocks(into); result != 0) return result;
      blocks = blocks_of(*into);
      if (blocks.each != bytes) return bad("blocks of gather() are as long as `from`");
    }
    const auto fill = [&](Post& post) {
      post_of(PostedCall::gather, posted(from, bytes), {}, root)(post);
      if (group->rank() == root) post_row(post.into, blocks, group->size());
    };
    return group->collective(bytes, fill, [&](bool /*again*/) {
      group->lends(bytes_at(from, bytes));
      return group->nodes ? group->nodes->gather(bytes_at(from, bytes), blocks, root)
                          : group->team.gather(bytes_at(from, bytes), blocks, root);
    });
  });
}

int outrigger_group_scatter(outrigger_group* group, const struct outrigger_group_blocks* from, void* into,
                            uint64_t bytes, uint32_t root) {
  return group->guarded([&]() -> int {
    if (const int result = check_rank(group, root); result != 0) return result;
    Blocks blocks{.each = bytes};
    if (group->rank() == root) {
      if (const int result = check_blocks(from); result != 0) return result;
      blocks = blocks_of(*from);
      if (blocks.each != bytes) return bad("blocks of scatter() are as long as `into`");
    }
    const auto fill = [&](Post& post) {
      post_of(PostedCall::scatter, {}, posted(into, bytes), root)(post);
      if (group->rank() == root) post_row(post.from, blocks, group->size());
    };
    return group->collective(bytes, fill, [&](bool /*again*/) {
      if (group->rank() == root) group->lends(blocks);
      return group->nodes ? group->nodes->scatter(blocks, bytes_at(into, bytes), root)
                          : group->team.scatter(blocks, bytes_at(into, bytes), root);
    });
  });
}

int outrigger_group_all_to_all(outrigger_group* group, const struct outrigger_group_blocks* from,
                               const struct outrigger_group_blocks* into) {
  return group->guarded([&]() -> int {
    if (const int result = check_blocks(from); result != 0) return result;
    if (const int result = check_blocks(into); result != 0) return result;
    if (from->each != into->each) return bad("blocks of all_to_all() are equally long");
    if (from->each == 0) return OUTRIGGER_GROUP_OK;
    return group->collective(1, exchange_of(*group, *from, *into), [&](bool /*again*/) {
      group->lends(blocks_of(*from));
      return group->nodes ? group->nodes->all_to_all(blocks_of(*from), blocks_of(*into))
                          : group->team.alltoall(blocks_of(*from), blocks_of(*into));
    });
  });
}

int outrigger_group_all_to_allv(outrigger_group* group, const struct outrigger_group_blocks* from,
                                const struct outrigger_group_blocks* into) {
  return group->guarded([&]() -> int {
    if (const int result = check_blocks(from); result != 0) return result;
    if (const int result = check_blocks(into); result != 0) return result;
    return group->collective(1, exchange_of(*group, *from, *into), [&](bool /*again*/) {
      group->lends(blocks_of(*from));
      return group->nodes ? group->nodes->all_to_allv(blocks_of(*from), blocks_of(*into))
                          : group->team.alltoallv(blocks_of(*from), blocks_of(*into));
    });
  });
}

int outrigger_group_send(outrigger_group* group, const void* from, uint64_t bytes, uint32_t to, int64_t tag) {
  return group->guarded([&]() -> int {
    if (const int result = check_peer(group, from, bytes, to); result != 0) return result;
    return finish(*group, group->mailroom.send(bytes_at(from, bytes), to, tag, false));
  });
}

int outrigger_group_recv(outrigger_group* group, void* into, uint64_t bytes, uint32_t source, int64_t tag) {
  return group->guarded([&]() -> int {
    const std::uint32_t peer = source == OUTRIGGER_GROUP_ANY_RANK ? 0 : source;
    if (const int result = check_peer(group, into, bytes, peer); result != 0) return result;
    return finish(*group, group->mailroom.receive(bytes_at(into, bytes), source, tag, false));
  });
}

int outrigger_group_isend(outrigger_group* group, const void* from, uint64_t bytes, uint32_t to, int64_t tag,
                          outrigger_group_request** request) {
  return group->guarded([&]() -> int {
    if (const int result = check_peer(group, from, bytes, to); result != 0) return result;
    *request = new outrigger_group_request{group, group->mailroom.send(bytes_at(from, bytes), to, tag, true)};
    return OUTRIGGER_GROUP_OK;
  });
}

int outrigger_group_irecv(outrigger_group* group, void* into, uint64_t bytes, uint32_t source, int64_t tag,
                          outrigger_group_request** request) {
  return group->guarded([&]() -> int {
    const std::uint32_t peer = source == OUTRIGGER_GROUP_ANY_RANK ? 0 : source;
    if (const int result = check_peer(group, into, bytes, peer); result != 0) return result;
    *request = new outrigger_group_request{group, group->mailroom.receive(bytes_at(into, bytes), source, tag, true)};
    return OUTRIGGER_GROUP_OK;
  });
}

int outrigger_group_test(outrigger_group_request* request) {
  return request->group->guarded([&]() -> int {
    const Mailroom::Waited waited = request->group->mailroom.test(request->letter);
    if (waited == Mailroom::Waited::late) return OUTRIGGER_GROUP_PENDING;
    return report_letter(*request->group, *request->letter, waited);
  });
}

int outrigger_group_wait(outrigger_group_request* request, int64_t timeout_ms) {
  return request->group->guarded([&]() -> int {
    outrigger_group& group = *request->group;
    const std::chrono::milliseconds timeout = timeout_ms > 0 ? timeout_of(timeout_ms) : group.waiter.timeout();
    return report_letter(group, *request->letter, group.mailroom.wait(request->letter, timeout));
  });
}

uint32_t outrigger_group_source(const outrigger_group_request* request) {
  return request->letter->peer;
}

void outrigger_group_free(outrigger_group_request* request) {
  if (request == nullptr || !request->group->own_process.is_this()) return;
  (void)request->group->guarded([&] {
    request->group->mailroom.cancel(request->letter);
    return static_cast<int>(OUTRIGGER_GROUP_OK);
  });
  delete request;
}

}  // extern "C"
