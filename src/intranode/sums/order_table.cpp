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
  if (entry.settled) return next_of_settled();
  ++entry.calls;
  if (any_order(key.reduction) && is_supported(learning) && entry.calls == 1)
    settle(entry, SumOrder(SumTree::linear(std::max<std::size_t>(learning.summed, 1))), SumRefusal::none);
  if (entry.settled) return {entry.order ? OrderStep::use : OrderStep::native, &entry};
  const std::size_t cost = learning_cost(learning);
  const bool too_long = learning.elements * key.reduction.element_bytes() > kMostBytes;
  if (cost == 0 || too_long) return {OrderStep::native, &entry};
  if (!entry.looked_up && (at_once_ || entry.calls > kLookUpAfter)) return {OrderStep::look_up, &entry};
  const bool due = at_once_ || entry.calls > kCallsForEach * cost;
  return {entry.looked_up && due ? OrderStep::learn : OrderStep::native, &entry};
}

OrderTable::Next OrderTable::next_of_settled() {
  Entry& entry = entries_.front();
  ++entry.calls;
  if (!entry.order) return {OrderStep::native, &entry};
  const bool due = entry.calls >= entry.verify_at && !any_order(entry.key.reduction);
  return {due ? OrderStep::verify : OrderStep::use, &entry};
}

OrderTable::Place OrderTable::place() {
  Place place;
  place.at_ = entries_.begin();
  place.dropped_ = dropped_;
  return place;
}

void OrderTable::verified(Entry& entry) {
  entry.verify_after *= kLessOften;
  entry.verify_at = entry.calls + entry.verify_after;
}

void OrderTable::settle(Entry& entry, std::optional<SumOrder> order, SumRefusal refusal) {
  entry.settled = true;
  entry.verify_at = entry.calls + entry.verify_after;
  entry.order = std::move(order);
  entry.refusal = refusal;
}

void OrderTable::asked(Entry& entry) {
  if (++entry.asked == kMostAsked) settle(entry, std::nullopt, SumRefusal::asks);
}

}  // namespace outrigger::intranode
