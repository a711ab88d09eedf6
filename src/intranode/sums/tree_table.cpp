#include "intranode/sums/tree_table.hpp"

#include <algorithm>
#include <utility>

namespace outrigger::intranode {

TreeTable::Next TreeTable::next(const TreeKey& key, std::size_t learning_calls) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    if (entries_.size() == kMostKeys) entries_.pop_back();
    entries_.emplace_front().key = key;
  }
  Entry& entry = entries_.front();
  ++entry.calls;
  if (entry.settled) return {entry.tree ? TreeStep::use : TreeStep::native, &entry};
  if (learning_calls == 0) return {TreeStep::native, &entry};
  if (!entry.looked_up && (at_once_ || entry.calls > kLookUpAfter)) return {TreeStep::look_up, &entry};
  const bool due = at_once_ || entry.calls > kCallsForEach * learning_calls;
  return {entry.looked_up && due ? TreeStep::learn : TreeStep::native, &entry};
}

void TreeTable::settle(Entry& entry, std::optional<SumTree> tree, SumRefusal refusal) {
  entry.settled = true;
  entry.tree = std::move(tree);
  entry.refusal = refusal;
}

}  // namespace outrigger::intranode
