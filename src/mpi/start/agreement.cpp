#include "mpi/start/agreement.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "mpi/job/patience.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/hidden_message.hpp"
#include "mpi/native/real.hpp"
#include "protocol/build_version.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::mpi {
namespace {

using Clock = std::chrono::steady_clock;
using Channel = HiddenMessage::Channel;

constexpr Channel kHello = 0;
constexpr Channel kVote = 1;
constexpr Channel kDecision = 2;
constexpr Channel kSpeaker = 3;

constexpr int kSpeakerReach =
    4096;  // ranks above one that learn that it may print; beyond, several lines may be printed

// Plain bytes on the wire. The same struct goes up (a vote) and down (the decision).
struct Vote {
  std::uint64_t magic = kSegmentMagic;
  std::uint64_t digest = 0;
  std::uint32_t version = build_version();
  std::uint32_t willing = 1;
  std::uint32_t complete = 1;  // 0: ranks do not answer
  std::array<char, 228> reason{};
};
static_assert(std::is_trivially_copyable_v<Vote>);

constexpr std::uint64_t kThere = kSegmentMagic;  // contents of a hello and a speaker's message

template <class T>
HiddenMessage send(const T& what, int to, Channel channel) {
  return HiddenMessage::send(std::as_bytes(std::span(&what, 1)), to, channel);
}

Vote vote_in(const HiddenMessage& message) {
  Vote vote;
  std::memcpy(&vote, message.bytes().data(), sizeof vote);
  return vote;
}

void refuse(Vote& vote, const char* reason) {
  if (vote.willing == 0) return;  // the first reason is kept
  vote.willing = 0;
  std::snprintf(vote.reason.data(), vote.reason.size(), "%s", reason);
}

void refuse_without(Vote& vote, int rank) {
  std::array<char, 200> text{};
  std::snprintf(text.data(), text.size(), "rank %d has not answered in MPI_Init: is the library preloaded there?",
                rank);
  refuse(vote, text.data());
  vote.complete = 0;
}

std::string different_versions(std::uint32_t one, std::uint32_t other) {
  std::string text = "ranks have libraries of different versions, ";
  text.append(build_version_text(one)).append(" and ").append(build_version_text(other));
  return text;
}

void combine(Vote& combined, const Vote& vote) {
  combined.complete &= vote.complete;
  if (vote.magic != combined.magic) {
    refuse(combined, "ranks have very different versions of the library");
  } else if (vote.version != combined.version) {
    refuse(combined, different_versions(combined.version, vote.version).c_str());
  } else if (vote.willing == 0) {
    refuse(combined, vote.reason.data());
  } else if (vote.digest != combined.digest) {
    refuse(combined, "ranks have different OUTRIGGER_* settings");
  }
}

bool wait_for_message(HiddenMessage& message, Clock::time_point deadline) {
  return wait_until(deadline, [&] { return message.done(); });
}

// A rank below this one in the tree.
struct Child {
  explicit Child(int of_rank)
      : rank(of_rank), hello(send(kThere, rank, kHello)), vote(HiddenMessage::receive(sizeof(Vote), rank, kVote)) {}
  int rank;
  HiddenMessage hello;
  HiddenMessage vote;
};

class Tree {
 public:
  Tree() {
    real().Comm_rank(constants().comm_world, &rank_);
    real().Comm_size(constants().comm_world, &size_);
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  Agreement agree(Vote vote, std::chrono::milliseconds limit) {
    const Clock::time_point start = Clock::now();
    open_children();
    const bool has_parent = rank_ == 0 || ask_parent(vote, start, limit);
    if (rank_ == 0) gather(vote, start, limit);
    if (!has_parent) refuse_without(vote, parent());
    tell_children(vote);
    bool speaks = rank_ == 0;
    if (rank_ == 0 && vote.complete == 0) tell_higher_ranks();
    if (!has_parent) speaks = is_lowest(limit / 2);
    return Agreement{vote.willing != 0, speaks, std::string(vote.reason.data())};
  }

 private:
  [[nodiscard]] int parent() const { return rank_ & (rank_ - 1); }
  // Children of a rank set one bit below its lowest set bit; rank 0 has one child per bit of the size.
  [[nodiscard]] bool is_child_bit(int bit) const { return (rank_ & bit) == 0 && (rank_ | bit) < size_ && bit > 0; }

  void open_children() {
    for (int bit = 1; is_child_bit(bit); bit <<= 1) children_.emplace_back(rank_ | bit);
  }

  // A rank that waits for waiting ranks has a longer time limit than they, by at most a quarter.
  [[nodiscard]] Clock::time_point votes_until(Clock::time_point start, std::chrono::milliseconds limit) const {
    const auto all_levels = std::bit_width(static_cast<unsigned>(size_));
    return start + limit + limit * static_cast<int>(children_.size()) / (4 * all_levels);
  }

  void gather(Vote& combined, Clock::time_point start, std::chrono::milliseconds limit) {
    const Clock::time_point deadline = votes_until(start, limit);
    for (Child& child : children_) {
      if (wait_for_message(child.vote, deadline)) {
        combine(combined, vote_in(child.vote));
      } else {
        refuse_without(combined, child.rank);
      }
    }
  }

  // `vote` becomes rank 0's decision. False: there is no parent.
  bool ask_parent(Vote& vote, Clock::time_point start, std::chrono::milliseconds limit) {
    HiddenMessage hello = HiddenMessage::receive(sizeof kThere, parent(), kHello);
    HiddenMessage decision = HiddenMessage::receive(sizeof(Vote), parent(), kDecision);
    gather(vote, start, limit);
    if (!wait_for_message(hello, start + limit)) return false;
    if (!decision.done()) {  // sent first, for ranks that come when the parent's time is over
      HiddenMessage mine = send(vote, parent(), kVote);
      wait_for_message(decision, Clock::time_point::max());
      static_cast<void>(mine.done());
    }
    vote = vote_in(decision);
    return true;
  }

  // Waits for the children that have come.
  void tell_children(const Vote& decision) {
    for (Child& child : children_) {
      HiddenMessage told = send(decision, child.rank, kDecision);
      if (child.vote.done()) wait_for_message(told, Clock::time_point::max());
    }
  }

  // Tells ranks without a parent that this rank may print.
  void tell_higher_ranks() {
    const int last = rank_ == 0 ? size_ : std::min(size_, rank_ + kSpeakerReach);
    for (int higher = rank_ + 1; higher < last; ++higher) told_.push_back(send(kThere, higher, kSpeaker));
  }

  // True if no lower rank has claimed to print within the limit.
  bool is_lowest(std::chrono::milliseconds limit) {
    std::vector<HiddenMessage> lower;
    lower.push_back(HiddenMessage::receive(sizeof kThere, 0, kSpeaker));
    for (int other = std::max(1, rank_ - kSpeakerReach + 1); other < rank_; ++other) {
      lower.push_back(HiddenMessage::receive(sizeof kThere, other, kSpeaker));
    }
    tell_higher_ranks();
    return !wait_until(Clock::now() + limit, [&] { return std::ranges::any_of(lower, &HiddenMessage::done); });
  }

  int rank_ = 0;
  int size_ = 0;
  std::vector<Child> children_;
  std::vector<HiddenMessage> told_;
};

}  // namespace

Agreement agree_at_init(std::uint64_t digest, const std::string& reason, std::uint32_t timeout_ms) {
  const std::chrono::milliseconds limit(timeout_ms);
  Tree tree;
  if (tree.size() > 1 && !HiddenMessage::work(limit)) {
    return Agreement{
        false, tree.rank() == 0,
        std::string("this ") + constants().mpi_name +
            " does not support the hidden messages by which ranks find out if all of them have the library"};
  }
  Vote vote;
  vote.digest = digest;
  if (!reason.empty()) refuse(vote, reason.c_str());
  return tree.agree(vote, limit);
}

}  // namespace outrigger::mpi
