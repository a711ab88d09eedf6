#include "intranode/sums/order_table.hpp"

#include <algorithm>
#include <utility>

namespace outrigger::intranode {

OrderTable::Next OrderTable::next(const OrderKey& key, const Learning& learning) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    if (entries_.size() == kMostKeys) {
      entries_.pop_back();
      ++dropped_;
    }
    entries_.emplace_front().key = key;
  }
  Entry& entry = entries_.front();
  ++entry.calls;
  if (entry.calls == 1 && any_order(key.reduction) && is_supported(learning))
    settle(entry, SumOrder(SumTree::linear(std::max<std::size_t>(learning.summed, 1))), SumRefusal::none);
  return entry.settled ? next_of_settled(entry) : next_of_unsettled(entry, learning);
}

OrderTable::Next OrderTable::next_of_settled(Entry& entry) {
  if (!entry.order) return {OrderStep::native, &entry};
  return {entry.calls >= entry.due ? OrderStep::verify : OrderStep::use, &entry};
}

OrderTable::Next OrderTable::next_of_unsettled(Entry& entry, const Learning& learning) const {
  entry.due = due_of_unsettled(entry, learning);
  if (entry.calls < entry.due) return {OrderStep::native, &entry};
  return {entry.looked_up ? OrderStep::learn : OrderStep::look_up, &entry};
}

std::uint64_t OrderTable::due_of_unsettled(const Entry& entry, const Learning& learning) const {
  const std::size_t cost = learning_cost(learning);
  const bool too_long = learning.elements * entry.key.reduction.element_bytes() > kMostBytes;
  if (cost == 0 || too_long) return kNever;
  if (at_once_) return 0;
  return 1 + (entry.looked_up ? kCallsForEach * cost : kLookUpAfter);
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
