// A random sequence of posted operations, alike at all members but for when each collects them.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "intranode/member_posts.hpp"

namespace outrigger::intranode {

class PostedSequence {
 public:
  // `stuck`: has looked so often in vain that nothing will come.
  PostedSequence(Posts& posts, std::uint64_t seed, std::function<bool()> stuck)
      : posts_(posts), alike_(seed), own_(seed * 31 + posts.rank()), stuck_(std::move(stuck)) {}

  // Posts so many operations, if the members do not stop before, and collects them all. Returns an error, or nothing.
  [[nodiscard]] std::string run(int operations) {
    const bool collects_soon = alike_() % 2 == 0;
    for (int i = 0; i < operations; ++i) {
      if (!posts_.goes_on()) {
        if (collects_soon) return "no room for another operation";
        break;
      }
      post();
      while (open_.size() > (collects_soon ? kFewOpen : kManyOpen) || (!open_.empty() && own_() % 2 == 0)) {
        const bool old = collects_soon && open_.front().number + kOldest < number_;
        if (std::string wrong = collect(old ? 0 : own_() % open_.size()); !wrong.empty()) return wrong;
      }
    }
    while (!open_.empty()) {
      if (std::string wrong = collect(own_() % open_.size()); !wrong.empty()) return wrong;
    }
    return "";
  }

  // So many have been done.
  [[nodiscard]] std::uint64_t done() const { return number_; }

 private:
  static constexpr std::size_t kFewOpen = 4;
  static constexpr std::size_t kManyOpen = 16;
  static constexpr std::uint64_t kOldest = 6;  // operations
  struct Open {
    std::uint64_t number;
    bool rooted;
    std::uint32_t root;
    std::size_t bytes;
  };

  [[nodiscard]] static std::byte byte_of(std::uint64_t number, std::uint32_t member, std::size_t place) {
    return static_cast<std::byte>(number * 7 + member * 13 + place);
  }

  void post() {
    Open open{};
    ++number_;
    open.rooted = alike_() % 3 == 0;
    open.root = static_cast<std::uint32_t>(alike_() % posts_.size());
    open.bytes = alike_() % 2 == 0 ? alike_() % kPostedBeside : alike_() % kMostPosted;
    if (open.rooted && open.root != posts_.rank()) {
      open.number = posts_.pass();
      open_.push_back(open);
      return;
    }
    std::byte* const into = posts_.begin(open.bytes);
    for (std::size_t i = 0; i < open.bytes; ++i) into[i] = byte_of(number_, posts_.rank(), i);
    open.number = posts_.publish(CallWord(CollectiveCall::allgather, open.root, open.bytes));
    open_.push_back(open);
  }

  [[nodiscard]] std::string collect(std::size_t which) {
    const Open open = open_[which];
    for (std::uint32_t member = 0; member < posts_.size(); ++member) {
      if (open.rooted && member != open.root) continue;
      while (!posts_.has_come(member, open.number)) {
        if (stuck_()) return "a contribution never comes";
      }
      const std::byte* bytes = posts_.bytes(member, open.number, open.bytes);
      for (std::size_t i = 0; i < open.bytes; ++i) {
        if (bytes[i] != byte_of(open.number, member, i)) return "a wrong byte in operation " + name(open, member);
      }
      const CallWord said(CollectiveCall::allgather, open.root, open.bytes);
      if (!posts_.call(member, open.number).is_same_call(said)) return "a wrong call in " + name(open, member);
    }
    while (open.rooted && open.root == posts_.rank() && !posts_.is_close(open.number)) {
      if (stuck_()) return "the others never begin";
    }
    posts_.leave(open.number);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
    return "";
  }
  [[nodiscard]] std::string name(const Open& open, std::uint32_t member) const {
    return std::to_string(open.number) + " of member " + std::to_string(member) + " at " +
           std::to_string(posts_.rank());
  }

  Posts& posts_;
  std::mt19937_64 alike_;
  std::mt19937_64 own_;
  std::function<bool()> stuck_;
  std::uint64_t number_ = 0;
  std::vector<Open> open_;
};

}  // namespace outrigger::intranode
