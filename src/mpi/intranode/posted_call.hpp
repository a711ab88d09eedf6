// One nonblocking collective of the program by the ranks of its communicator, from the post to the end: an Operation
// has it in place of what the service process needs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "intranode/call_word.hpp"
#include "intranode/member_posts.hpp"
#include "intranode/sums/sum_order.hpp"
#include "mpi/intranode/team_arguments.hpp"
#include "mpi/native/abi.hpp"
#include "protocol/collective_calls.hpp"
#include "protocol/reduction.hpp"

namespace outrigger::mpi {

struct Job;

// A call as all ranks know it, and the form of this rank's buffers.
struct PostPlan {
  intranode::CallWord said;      // what this rank does
  intranode::CallWord expected;  // what all do, if the calls fit together
  CollectiveCall call = CollectiveCall::barrier;
  std::uint32_t root = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t posted_bytes = 0;  // by this rank, all blocks together
  bool posts_all = true;  // false: they are more than can be posted, which is an error at those who expect them
  std::optional<Reduction> reduction;
  bool packs = false;    // what it sends
  bool unpacks = false;  // what it gets
};

// Nonblocking ones, if they are small.
[[nodiscard]] bool is_done_by_posts(CollectiveCall call);
// A call of these. Ranks of a communicator of one node do it. Comes to the same on all of them. Nothing: natively.
[[nodiscard]] std::optional<PostPlan> plan_post(const TeamArguments& call, const TeamPlace& team);

class PostedCall {
 public:
  PostedCall() = default;
  PostedCall(const PostedCall&) = delete;
  PostedCall& operator=(const PostedCall&) = delete;

  // `call` as the plan was made for, but for its buffers.
  void post(const Job& job, std::shared_ptr<intranode::Posts> posts, const PostPlan& plan, const TeamArguments& call);
  // All has come that this rank needs, or never will.
  [[nodiscard]] bool is_due() { return has_come() || (++looks_ % kLooksPerCheck == 0 && finds_difference()); }
  // Then: puts it into the program's memory. Returns the MPI error code.
  [[nodiscard]] int collect(const Job& job);

 private:
  static constexpr std::uint32_t kLooksPerCheck = 256;

  [[nodiscard]] bool has_come();
  // A rank goes another way in this call, so it will not come.
  [[nodiscard]] bool finds_difference();
  void put(const Job& job);
  void put_block(const Job& job, std::uint32_t place, const std::byte* bytes) const;
  void reduce(const Job& job);
  void keep_type();
  // Compares what has come.
  [[nodiscard]] std::optional<intranode::Difference> difference() const;

  std::shared_ptr<intranode::Posts> posts_;
  PostPlan plan_;
  std::uint64_t number_ = 0;
  std::uint32_t first_ = 0;  // member that may be missing, up to ...
  std::uint32_t end_ = 0;
  std::uint64_t others_ = 0;  // calls before it that ranks do not do
  std::uint32_t looks_ = 0;   // in vain
  std::optional<intranode::Difference> found_;
  bool leads_ = false;  // others wait for this rank, and it for none
  TeamSide into_;
  MPI_Datatype kept_{};  // the type, which the program may free
};

}  // namespace outrigger::mpi
