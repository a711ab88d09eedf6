// Nonblocking collectives of one step by the members of a team. A member posts what it contributes, and collects the
// operation when the contributions that it needs have come. A post does not wait, and others can collect whatever its
// member does next.
//
// All members post the same operations in the same order. They collect them in any order.
//
//     owner                                        reader
//     left of all >= n - kPlaces: place n mod kPlaces
//         fill it, posted = n        ---------->   posted of the place == n: read it
//     else: one of many other places
//         fill it, overflowed = n    ---------->   overflowed >= n: read it, if the first is not n's
//     (before the place's next use)  <----------   left = n, once all up to n are collected
//
// A member that only contributes, as a root does, could be far ahead of the others. It has collected operation n when
// the others have begun operation n - kAhead.
//
// Memory is limited, and a post must not wait. So the member that comes first to operation n * kWindow + 1 decides for
// all: members do the next kWindow operations if all have left all but the last kWindow ones. Otherwise they do no
// more.
//
// Thread rule: one thread at a time begins and publishes; any thread collects, one at a time for an operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/futex_lock.hpp"
#include "intranode/call_word.hpp"
#include "intranode/posts_area.hpp"

namespace outrigger::intranode {

class Posts {
 public:
  Posts(PostsMemory memory, std::uint32_t rank);

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

  // Members do the next operation. False: none any more. The same for all members.
  [[nodiscard]] bool goes_on() { return next_ < agreed_ || agree(); }
  // The next operation, to which this member contributes `bytes`, kMostPosted at most. Returns where they go.
  [[nodiscard]] std::byte* begin(std::size_t bytes);
  // They are there. Returns the operation's number.
  std::uint64_t publish(CallWord call);
  // In place of both: the member contributes nothing that others wait for.
  std::uint64_t pass();

  // The member's contribution has come.
  [[nodiscard]] bool has_come(std::uint32_t member, std::uint64_t operation) const {
    const PostsArea& area = memory_.member(member);
    if (!steps::keeps(steps::Site::current())) return true;
    return steps::load(area.places[operation % kPlaces].posted) == operation ||
           steps::load(area.overflowed) >= operation;
  }
  // In place of all that: the call is done in another way, by all members.
  void does_otherwise(CallWord call);
  // So many calls have been.
  [[nodiscard]] std::uint64_t others() const { return others_; }
  // The calls wrongly differ: a member has done more than `others` calls in another way, and not begun the operation.
  [[nodiscard]] std::optional<std::uint32_t> does_other(std::uint64_t operation, std::uint64_t others) const;
  // The one that follows `others` such ones; not compared if it is not known any more.
  [[nodiscard]] CallWord other_call(std::uint32_t member, std::uint64_t others) const;

  // No other member is so far behind that this one should wait for it.
  [[nodiscard]] bool is_close(std::uint64_t operation);
  // The call to which a contribution that has come belongs ...
  [[nodiscard]] CallWord call(std::uint32_t member, std::uint64_t operation) const {
    return CallWord(steps::told(place(member, operation).call));
  }
  // ... and its bytes. They stay until leave().
  [[nodiscard]] const std::byte* bytes(std::uint32_t member, std::uint64_t operation, std::size_t bytes) const;
  // It has not collected an operation that is older than others usually are.
  [[nodiscard]] bool has_old() {
    const std::scoped_lock lock(collected_lock_);
    return next_ > left_ + kOld;
  }
  // This member has collected the operation.
  void leave(std::uint64_t operation);

 private:
  static constexpr std::uint64_t kAhead = kPlaces / 2;
  static constexpr std::uint64_t kOld = 4 * kPlaces;

  // One of PostsArea::more_bytes, in use.
  struct Taken {
    std::uint64_t operation;
    std::uint32_t which;
  };

  [[nodiscard]] bool agree();
  [[nodiscard]] bool has_begun(std::uint32_t member, std::uint64_t operation) const {
    return steps::load(memory_.member(member).passed) >= operation || has_come(member, operation);
  }
  [[nodiscard]] const PostedPlace& place(std::uint32_t member, std::uint64_t operation) const;
  [[nodiscard]] bool all_have_left(std::uint64_t operation);
  [[nodiscard]] std::byte* begin_elsewhere(std::size_t bytes);
  [[nodiscard]] std::uint32_t take_bytes();

  PostsMemory memory_;
  PostsArea* own_;
  std::uint32_t rank_;
  std::uint32_t size_;
  std::uint64_t next_ = 0;           // the operation begun last
  std::uint64_t agreed_ = 0;         // members do operations up to this one
  bool ended_ = false;               // and no later ones
  std::uint64_t others_ = 0;         // calls in another way
  std::uint64_t all_left_ = 0;       // all members are known to have left it and those before
  PostedPlace* current_ = nullptr;   // of the operation begun last
  bool elsewhere_ = false;           // it is one of `more`
  std::deque<Taken> taken_;          // in the order of operations; they may still be read
  std::vector<std::uint32_t> free_;  // of more_bytes ...
  std::uint32_t used_ = 0;           // ... and those that have never been used begin here

  FutexLock collected_lock_;
  std::uint64_t all_began_ = 0;   // all others are known to have begun it
  std::uint64_t left_ = 0;        // this member has collected it and those before ...
  std::set<std::uint64_t> also_;  // ... and these
};

}  // namespace outrigger::intranode
