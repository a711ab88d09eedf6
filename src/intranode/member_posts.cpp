#include "intranode/member_posts.hpp"

#include <algorithm>
#include <utility>

namespace outrigger::intranode {

using Site = steps::Site;
Posts::Posts(PostsMemory memory, std::uint32_t rank)
    : memory_(std::move(memory)), own_(&memory_.member(rank)), rank_(rank), size_(memory_.members()) {}

std::byte* Posts::begin(std::size_t bytes) {
  ++next_;
  elsewhere_ = next_ > kPlaces && !all_have_left(next_ - kPlaces);
  if (elsewhere_) [[unlikely]]
    return begin_elsewhere(bytes);
  current_ = &own_->places[next_ % kPlaces];
  std::byte* const at = bytes <= kPostedBeside ? current_->beside.data() : own_->bytes[next_ % kPlaces].data();
  steps::writes(at, bytes);
  return at;
}

// `agreed` grows by kWindow. kNoMore in it is for good. A member that is behind finds that others have agreed on more.
bool Posts::agree() {
  constexpr std::uint64_t kNoMore = 1;
  static_assert(kWindow % 2 == 0 && kMorePlaces == 2 * kWindow);
  if (ended_) return false;
  const bool has_room = agreed_ <= kWindow || all_have_left(agreed_ - kWindow);
  const std::uint64_t proposed = has_room ? agreed_ + kWindow : agreed_ | kNoMore;
  std::uint64_t now = steps::exchange(memory_.member(0).agreed, agreed_, proposed, Site::current());
  if (now == agreed_) now = proposed;
  ended_ = (now & ~kNoMore) <= agreed_;
  if (!ended_) agreed_ += kWindow;
  return !ended_;
}

std::byte* Posts::begin_elsewhere(std::size_t bytes) {
  current_ = &own_->more[next_ % kMorePlaces];
  if (bytes <= kPostedBeside) {
    steps::writes(current_->beside.data(), bytes);
    return current_->beside.data();
  }
  const std::uint32_t which = take_bytes();
  steps::writes(&current_->which, sizeof current_->which);
  current_->which = which;
  std::byte* const at = own_->more_bytes[which].data();
  steps::writes(at, bytes);
  return at;
}

// There are as many as places. The last ones used come first, so that few pages are.
std::uint32_t Posts::take_bytes() {
  for (; !taken_.empty() && taken_.front().operation <= all_left_; taken_.pop_front()) {
    free_.push_back(taken_.front().which);
  }
  if (free_.empty()) free_.push_back(used_++);
  const std::uint32_t which = free_.back();
  free_.pop_back();
  taken_.push_back({next_, which});
  return which;
}

std::uint64_t Posts::publish(CallWord call) {
  steps::tell(current_->call, call.word());
  if (!steps::keeps(Site::current())) return next_;
  if (!elsewhere_) {
    steps::store(current_->posted, next_);
  } else {
    steps::store(own_->overflowed, next_);
  }
  return next_;
}

std::uint64_t Posts::pass() {
  ++next_;
  steps::store(own_->passed, next_);
  return next_;
}

void Posts::does_otherwise(CallWord call) {
  ++others_;
  steps::tell(own_->other_calls[others_ % kOtherCalls], call.tagged(others_).word());
  steps::store(own_->others, others_);
}

// A member that has begun the operation has raised its flag before it counts a later call.
std::optional<std::uint32_t> Posts::does_other(std::uint64_t operation, std::uint64_t others) const {
  for (std::uint32_t member = 0; member < size_; ++member) {
    if (member == rank_ || steps::load(memory_.member(member).others) <= others) continue;
    if (!has_begun(member, operation)) return member;
  }
  return std::nullopt;
}

CallWord Posts::other_call(std::uint32_t member, std::uint64_t others) const {
  const std::uint64_t number = others + 1;
  const CallWord call(steps::told(memory_.member(member).other_calls[number % kOtherCalls]));
  return call.ahead_of(CallWord().tagged(number)) == 0 ? call : CallWord();
}

bool Posts::is_close(std::uint64_t operation) {
  if (operation <= kAhead) return true;
  const std::uint64_t wanted = operation - kAhead;
  const std::scoped_lock lock(collected_lock_);
  if (all_began_ >= wanted) return true;
  std::uint64_t least = UINT64_MAX;
  for (std::uint32_t member = 0; member < size_; ++member) {
    if (member == rank_) continue;
    const PostsArea& area = memory_.member(member);
    std::uint64_t began = steps::load(area.passed);
    if (began < wanted) began = steps::load(area.places[wanted % kPlaces].posted);
    if (began < wanted) began = steps::load(area.overflowed);
    if (began < wanted) return false;
    least = std::min(least, began);
  }
  all_began_ = least;
  return true;
}

// A place that has another number is not this operation's: its owner writes no later one there before this member has
// left this one.
const PostedPlace& Posts::place(std::uint32_t member, std::uint64_t operation) const {
  const PostsArea& area = memory_.member(member);
  const PostedPlace& first = area.places[operation % kPlaces];
  return steps::told(first.posted) == operation ? first : area.more[operation % kMorePlaces];
}

const std::byte* Posts::bytes(std::uint32_t member, std::uint64_t operation, std::size_t bytes) const {
  const PostsArea& area = memory_.member(member);
  const PostedPlace& found = place(member, operation);
  const std::byte* at = found.beside.data();
  if (bytes > kPostedBeside) {
    const bool first = &found == &area.places[operation % kPlaces];
    if (!first) steps::reads(&found.which, sizeof found.which);
    at = first ? area.bytes[operation % kPlaces].data() : area.more_bytes[found.which].data();
  }
  steps::reads(at, bytes);
  return at;
}

bool Posts::all_have_left(std::uint64_t operation) {
  if (all_left_ >= operation) return true;
  if (!steps::keeps(Site::current())) return true;
  std::uint64_t least = UINT64_MAX;
  for (std::uint32_t member = 0; member < size_; ++member) {
    least = std::min(least, steps::load(memory_.member(member).left));
  }
  all_left_ = least;
  return least >= operation;
}

void Posts::leave(std::uint64_t operation) {
  const std::scoped_lock lock(collected_lock_);
  if (operation != left_ + 1) {
    also_.insert(operation);
    return;
  }
  ++left_;
  while (!also_.empty() && *also_.begin() == left_ + 1) {
    also_.erase(also_.begin());
    ++left_;
  }
  if (steps::keeps(Site::current())) steps::store(own_->left, left_);
}

}  // namespace outrigger::intranode
