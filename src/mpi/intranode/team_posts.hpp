// A communicator's nonblocking collectives by its ranks: which they do, and the last of each kind, which the next one
// often is like.
//
// Thread rule: one thread at a time posts, as MPI has it for a communicator's collectives.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "intranode/member_posts.hpp"
#include "mpi/intranode/posted_call.hpp"
#include "mpi/native/real.hpp"
#include "protocol/collective_calls.hpp"

namespace outrigger::mpi {

class CommState;

class TeamPosts {
 public:
  TeamPosts(intranode::PostsMemory memory, std::uint32_t rank)
      : posts_(std::make_shared<intranode::Posts>(std::move(memory), rank)) {}

  [[nodiscard]] const std::shared_ptr<intranode::Posts>& posts() const { return posts_; }

  struct Last {
    bool known = false;     // what follows holds for all calls with these words, but for buffers
    bool by_ranks = false;  // with this plan
    bool large = false;
    intranode::CallWord looked_at;
    std::array<Word, 9> words{};
    TeamArguments arguments;
    PostPlan plan;
    CommState* state = nullptr;
  };
  [[nodiscard]] Last& last(CollectiveCall call) { return lasts_[static_cast<std::size_t>(call)]; }
  // A call that the ranks do not do, before the MPI or the service processes have it ...
  void looks_at(intranode::CallWord call) { looked_at_ = call; }
  // ... and once these have taken it.
  void does_otherwise() { posts_->does_otherwise(looked_at_); }
  // The MPI owes the program progress even if no call has to wait.
  [[nodiscard]] bool owes_progress() { return ++posted_ % kPostsPerDrive == 0; }

 private:
  static constexpr std::uint32_t kPostsPerDrive = 32;

  std::shared_ptr<intranode::Posts> posts_;  // operations outlive the communicator
  std::array<Last, kCollectiveCalls> lasts_;
  std::uint32_t posted_ = 0;
  intranode::CallWord looked_at_;
};

}  // namespace outrigger::mpi
