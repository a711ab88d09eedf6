#include "intranode/sums/order_table.hpp"

#include <algorithm>
#include <utility>

namespace outrigger::intranode {

OrderTable::Next OrderTable::next(const OrderKey& key, const Learning& learning) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
  if (found != entries_.end()) entries_.splice(entries_.begin(), entries_, found);
  Entry& entry = found != entries_.end() ? *found : add(key, learning);
  ++entry.calls;
  return entry.settled ? next_of_settled(entry) : next_of_unsettled(entry, learning);
}

OrderTable::Entry& OrderTable::add(const OrderKey& key, const Learning& learning) {
  if (entries_.size() == kMostKeys) {
    dropped_time_ += entries_.back().calls * entries_.back().time_of_call;
    entries_.pop_back();
    ++dropped_;
  }
  Entry& entry = entries_.emplace_front();
  entry.key = key;
  entry.time_of_call = outrigger::intranode::time_of_call(learning);
  const bool too_long = learning.elements * key.reduction.element_bytes() > kMostBytes;
  entry.due = learning_calls(learning) == 0 || too_long ? kNever : at_once_ ? 0 : 1 + kLookUpAfter;
  if (any_order(key.reduction) && is_supported(learning))
    settle(entry, SumOrder(SumTree::linear(std::max<std::size_t>(learning.summed, 1))), SumRefusal::none);
  return entry;
}

OrderTable::Next OrderTable::next_of_settled(Entry& entry) {
  if (!entry.order) return {OrderStep::native, &entry};
  return {entry.calls >= entry.due ? OrderStep::verify : OrderStep::use, &entry};
}

// Members may call this more or less often before an entry is due: it changes nothing then.
OrderTable::Next OrderTable::next_of_unsettled(Entry& entry, const Learning& learning) {
  if (entry.calls < entry.due) return {OrderStep::native, &entry};
  if (!entry.looked_up) return {OrderStep::look_up, &entry};
  if (!at_once_ && !pays(entry, learning)) {
    entry.due = entry.calls + kLookAgain + entry.calls / kLookAgain;
    return {OrderStep::native, &entry};
  }
  learning_time_ += learning_time(learning);
  return {OrderStep::learn, &entry};
}

bool OrderTable::pays(const Entry& entry, const Learning& learning) const {
  const std::uint64_t time = learning_time(learning);
  if (entry.calls * entry.time_of_call < kCallsOfKey * time) return false;
  const std::uint64_t all = learning_time_ + time;
  return all <= kFree || time_of_calls() >= kCallsForEach * all;
}

std::uint64_t OrderTable::time_of_calls() const {
  std::uint64_t time = dropped_time_;
  for (const Entry& entry : entries_) time += entry.calls * entry.time_of_call;
  return time;
}

OrderTable::Place OrderTable::place() {
  Place place;
  place.at_ = entries_.begin();
  place.dropped_ = dropped_;
  return place;
}

void OrderTable::verified(Entry& entry) {
  entry.verify_after *= kLessOften;
  entry.due = entry.calls + entry.verify_after;
}

void OrderTable::settle(Entry& entry, std::optional<SumOrder> order, SumRefusal refusal) {
  entry.settled = true;
  entry.due = order && !any_order(entry.key.reduction) ? entry.calls + entry.verify_after : kNever;
  entry.order = std::move(order);
  entry.refusal = refusal;
}

void OrderTable::asked(Entry& entry) {
  if (++entry.asked == kMostAsked) settle(entry, std::nullopt, SumRefusal::asks);
}

}  // namespace outrigger::intranode
