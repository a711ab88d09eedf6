#include "mpi/intranode/posted_call.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "intranode/combine.hpp"
#include "mpi/collectives/arguments.hpp"
#include "mpi/job/job.hpp"
#include "mpi/memory/accelerators.hpp"
#include "mpi/native/message.hpp"
#include "mpi/native/real.hpp"
#include "mpi/types/blocks.hpp"
#include "mpi/types/packing.hpp"

namespace outrigger::mpi {
namespace {

using intranode::CallWord;
using intranode::SumOrder;

// The side with what this rank contributes, in place, too.
const TeamSide& sent_side(const TeamArguments& call) {
  return call.send.in_place() ? call.receive : call.send;
}
const TeamSide& received_side(const TeamArguments& call) {
  return call.call == CollectiveCall::bcast ? call.send : call.receive;
}

// Limit of what a member contributes: larger blocks may be for service processes, and an all-to-all of 8 KiB between
// two ranks took 1.1 times native's time.
constexpr std::uint64_t kMostByRanks = 8192;

// A block as this rank sends it. If the calls fit together, it is `block`.
std::uint64_t sent_bytes(const TeamArguments& call, std::uint64_t block) {
  const bool has_two_sides = call.call == CollectiveCall::allgather || call.call == CollectiveCall::alltoall;
  return has_two_sides && !call.send.in_place() ? bytes_in(call.send.count, call.send.shape) : block;
}

std::int64_t blocks_sent(const TeamArguments& call, std::uint32_t members) {
  return call.call == CollectiveCall::alltoall ? members : 1;
}
std::int64_t blocks_received(const TeamArguments& call, std::uint32_t members) {
  return call.call == CollectiveCall::alltoall || call.call == CollectiveCall::allgather ? members : 1;
}

// Any buffer may be memory that only the MPI can copy.
bool is_packed(const TeamSide& side, std::int64_t blocks) {
  return side.count != 0 && (!side.shape.dense_for(side.count * blocks) || accelerator_loaded());
}

// Where the rank's contribution begins.
const void* sent_from(const TeamArguments& call, std::uint32_t me) {
  const TeamSide& side = sent_side(call);
  const bool is_own_block = call.send.in_place() && call.call == CollectiveCall::allgather;
  return is_own_block ? call.own_block(side, me) : side.buffer;
}

// 0, 1, 2 and so on.
const SumOrder& order_of_ranks(std::uint32_t members) {
  static std::array<std::atomic<const SumOrder*>, intranode::kMostMembers + 1> orders{};
  const SumOrder* known = orders[members].load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  const auto* made = new SumOrder(intranode::SumTree::linear(members));
  if (orders[members].compare_exchange_strong(known, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *known;
}

}  // namespace

bool is_done_by_posts(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::barrier:
    case CollectiveCall::bcast:
    case CollectiveCall::allgather:
    case CollectiveCall::alltoall:
    case CollectiveCall::allreduce: return true;
    default: return false;
  }
}

std::optional<PostPlan> plan_post(const TeamArguments& call, const TeamPlace& team) {
  const std::optional<std::uint64_t> block = call.block_bytes();
  if (!block) return std::nullopt;
  PostPlan plan;
  plan.call = call.call;
  plan.root = static_cast<std::uint32_t>(call.root);
  plan.block_bytes = *block;
  plan.expected = CallWord(call.call, plan.root, *block);
  const auto blocks = static_cast<std::uint64_t>(blocks_sent(call, team.size));
  if (*block * blocks > kMostByRanks) return std::nullopt;
  const std::uint64_t sent = sent_bytes(call, *block);
  plan.said = CallWord(call.call, plan.root, sent);
  plan.posts_all = sent <= intranode::kMostPosted / blocks;
  plan.posted_bytes = plan.posts_all ? sent * blocks : 0;
  if (is_reduction(call.call)) {
    if (!call.reduction || call.order != RankOrder::ranks) return std::nullopt;
    if (call.reduction->element_bytes() > intranode::kMostElementBytes) return std::nullopt;
    plan.reduction = call.reduction;
  }
  plan.packs = is_packed(sent_side(call), blocks_sent(call, team.size));
  plan.unpacks = is_packed(received_side(call), blocks_received(call, team.size));
  return plan;
}

void PostedCall::post(const Job& job, std::shared_ptr<intranode::Posts> posts, const PostPlan& plan,
                      const TeamArguments& call) {
  posts_ = std::move(posts);
  plan_ = plan;
  others_ = posts_->others();
  looks_ = 0;
  into_ = received_side(call);
  const std::uint32_t me = posts_->rank();
  const bool is_rooted = plan.call == CollectiveCall::bcast;
  const bool sends = !is_rooted || plan.root == me;
  first_ = is_rooted ? plan.root : 0;
  leads_ = is_rooted && sends;
  end_ = !is_rooted ? posts_->size() : plan.root + 1;
  if (!sends) {
    number_ = posts_->pass();
  } else {
    std::byte* const into = posts_->begin(plan.posted_bytes);
    const TeamSide& side = sent_side(call);
    const void* const from = sent_from(call, me);
    if (!plan.posts_all) {
      // no other member reads it
    } else if (plan.packs) {
      const TypedElements elements{address_of(from, 0), side.count * blocks_sent(call, posts_->size()), side.type,
                                   side.shape};
      copy_packed(Packing::pack, elements, into, job.packing_comm);
    } else if (plan.posted_bytes != 0) {
      std::memcpy(into, address_of(from, side.shape.first), plan.posted_bytes);
    }
    number_ = posts_->publish(plan.said);
  }
  if (plan.unpacks && !into_.shape.predefined) keep_type();
}

void PostedCall::keep_type() {
  into_.type = kept_ = lasting_type(into_.type);
}

bool PostedCall::has_come() {
  while (first_ != end_ && posts_->has_come(first_, number_)) ++first_;
  return first_ == end_ && (!leads_ || posts_->is_close(number_));
}

bool PostedCall::finds_difference() {
  const std::optional<std::uint32_t> other = posts_->does_other(number_, others_);
  if (!other) return false;
  found_ = {.other = *other, .mine = plan_.expected, .theirs = posts_->other_call(*other, others_)};
  return true;
}

std::optional<intranode::Difference> PostedCall::difference() const {
  if (found_) return found_;
  const bool is_rooted = plan_.call == CollectiveCall::bcast;
  for (std::uint32_t member = is_rooted ? plan_.root : 0; member < end_; ++member) {
    const CallWord theirs = posts_->call(member, number_);
    if (!theirs.is_same_call(plan_.expected)) return {{.other = member, .mine = plan_.expected, .theirs = theirs}};
  }
  return std::nullopt;
}

int PostedCall::collect(const Job& job) {
  int code = MPI_SUCCESS;
  if (const std::optional<intranode::Difference> differs = difference()) [[unlikely]] {
    print("%s on a communicator of %u ranks failed: the ranks' calls differ: %s",
          name_of(CallKind{plan_.call, CallForm::nonblocking}).c_str(), posts_->size(),
          differs->description(posts_->rank()).c_str());
    code = differs->is_of_sizes() ? MPI_ERR_TRUNCATE : MPI_ERR_OTHER;
  } else {
    put(job);
  }
  posts_->leave(number_);
  posts_.reset();
  found_.reset();
  if (kept_ != MPI_Datatype{}) real().Type_free(&kept_);
  kept_ = MPI_Datatype{};
  return code;
}

void PostedCall::put(const Job& job) {
  const std::uint64_t bytes = plan_.block_bytes;
  if (bytes == 0) return;
  switch (plan_.call) {
    case CollectiveCall::bcast:
      if (plan_.root != posts_->rank()) put_block(job, 0, posts_->bytes(plan_.root, number_, bytes));
      break;
    case CollectiveCall::allgather:
      for (std::uint32_t member = 0; member < posts_->size(); ++member) {
        put_block(job, member, posts_->bytes(member, number_, bytes));
      }
      break;
    case CollectiveCall::alltoall:
      for (std::uint32_t member = 0; member < posts_->size(); ++member) {
        put_block(job, member, posts_->bytes(member, number_, posts_->size() * bytes) + posts_->rank() * bytes);
      }
      break;
    case CollectiveCall::allreduce: reduce(job); break;
    default: break;
  }
}

void PostedCall::put_block(const Job& job, std::uint32_t place, const std::byte* bytes) const {
  if (!plan_.unpacks) {
    std::memcpy(address_of(into_.buffer, into_.shape.first) + place * plan_.block_bytes, bytes, plan_.block_bytes);
    return;
  }
  const std::int64_t offset = static_cast<std::int64_t>(place) * into_.count * into_.shape.extent;
  const TypedElements elements{address_of(into_.buffer, offset), into_.count, into_.type, into_.shape};
  copy_packed(Packing::unpack, elements, const_cast<std::byte*>(bytes), job.packing_comm);
}

void PostedCall::reduce(const Job& job) {
  std::array<const std::byte*, intranode::kMostMembers> all;  // NOLINT: the members' are written
  for (std::uint32_t member = 0; member < posts_->size(); ++member) {
    all[member] = posts_->bytes(member, number_, plan_.block_bytes);
  }
  const intranode::OrderCombine combine(*plan_.reduction, order_of_ranks(posts_->size()));
  const auto into = [&](std::byte* result) {
    combine.apply(std::span(all).first(posts_->size()), result, 0, combine.elements_in(plan_.block_bytes));
  };
  if (!plan_.unpacks) return into(address_of(into_.buffer, into_.shape.first));
  std::vector<std::byte> result(plan_.block_bytes);
  into(result.data());
  put_block(job, 0, result.data());
}

}  // namespace outrigger::mpi
