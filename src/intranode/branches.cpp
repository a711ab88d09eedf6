#include "intranode/branches.hpp"

#include <algorithm>
#include <bit>
#include <map>

namespace outrigger::intranode {
namespace {

using Mask = Branches::Mask;

std::size_t length(Mask members) {
  return static_cast<std::size_t>(std::popcount(members));
}

// Takes the first `count` members out of `members`.
Mask take(Mask& members, std::size_t count) {
  Mask taken = 0;
  for (; count > 0; --count) {
    const Mask lowest = members & (~members + 1);
    taken |= lowest;
    members &= ~lowest;
  }
  return taken;
}

// As few parts as have `most` members at most, of about the same length.
void append_parts(Mask members, std::size_t most, std::vector<Mask>& branches) {
  for (std::size_t parts = (length(members) + most - 1) / most; parts > 0; --parts) {
    branches.push_back(take(members, (length(members) + parts - 1) / parts));
  }
}

// Whole caches. Those of a NUMA node are together if they are small.
Branches by_caches(std::span<const CorePlace> places) {
  std::map<CorePlace, Mask> caches;
  for (std::size_t member = 0; member < places.size(); ++member) caches[places[member]] |= Mask{1} << member;
  std::vector<Mask> branches;
  std::uint32_t node = CorePlace::kSeveral;
  for (const auto& [place, members] : caches) {
    if (place.node == node && length(branches.back()) + length(members) <= Branches::kMost) {
      branches.back() |= members;
    } else {
      append_parts(members, Branches::kMost, branches);
    }
    node = place.node;
  }
  return Branches(branches);
}

Branches in_as_many_branches(std::uint32_t members) {
  std::size_t most = 1;
  while (most * most < members) ++most;
  return Branches::in_a_row(members, most);
}

}  // namespace

std::optional<Branches> Branches::near(std::span<const CorePlace> places) {
  const bool known = std::ranges::all_of(places, [](const CorePlace& place) { return place.is_known(); });
  const Branches branches = known ? by_caches(places) : in_as_many_branches(static_cast<std::uint32_t>(places.size()));
  return branches.pay() ? std::optional(branches) : std::nullopt;
}

Branches Branches::in_a_row(std::uint32_t members, std::size_t most) {
  std::vector<Mask> branches;
  append_parts(~Mask{0} >> (64 - members), most, branches);
  return Branches(branches);
}

Branches::Branches(std::span<const Mask> branches) : count_(static_cast<std::uint32_t>(branches.size())) {
  std::uint8_t at = 0;
  for (std::uint32_t branch = 0; branch < count_; ++branch) {
    first_[branch] = at;
    for (Mask left = branches[branch]; left != 0; left &= left - 1) {
      const auto member = static_cast<std::uint8_t>(std::countr_zero(left));
      of_.at(member) = static_cast<std::uint8_t>(branch);
      members_.at(at++) = member;
    }
  }
  first_[branches.size()] = at;
}

std::vector<Mask> Branches::masks() const {
  std::vector<Mask> found(count_, 0);
  for (std::size_t at = 0; at < first_[count_]; ++at) found[of_.at(members_.at(at))] |= Mask{1} << members_.at(at);
  return found;
}

bool Branches::pay() const {
  const std::size_t members = first_[count_];
  return members > kMost && 3 * most_loads() <= 2 * (members - 1);
}

std::size_t Branches::most_loads() const {
  std::size_t longest = 0;
  for (std::uint32_t branch = 0; branch < count_; ++branch) longest = std::max(longest, members(branch).size());
  return longest - 1 + count_ - 1;
}

}  // namespace outrigger::intranode
