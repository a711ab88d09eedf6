#include "engine/relay/eager_replicas.hpp"

#include "engine/core/operation.hpp"
#include "engine/core/reduction_steps.hpp"

namespace outrigger::engine {

EagerReplicas::~EagerReplicas() {
  for (const auto& [key, holder] : sent_) withdraw(key);
}

void EagerReplicas::send(SpId reader, GroupRank source, const LocalRank& holder) {
  const Context& context = operation_.context;
  const Block block{holder.posted().receive.block(source).memory, holder.blocks.placed_bytes(source)};
  if (holder.eager_sends != EagerSends::slices || !is_short_slice(context, block.bytes)) return;
  if (context.share_node(reader, context.config.self) || !sent_.emplace(Key{source, reader}, holder.me()).second)
    return;
  const GroupRank name = name_of_reader(operation_.membership(), reader);
  context.fabric.mover.send_eager(BlockId{operation_.id(), source, name}, block, reader);
}

void EagerReplicas::withdraw(GroupRank source, SpId reader) {
  const Key key{source, reader};
  if (sent_.erase(key) != 0) withdraw(key);
}

void EagerReplicas::withdraw(const Key& sent) const {
  const GroupRank name = name_of_reader(operation_.membership(), sent.second);
  operation_.context.fabric.mover.withdraw_eager(BlockId{operation_.id(), sent.first, name});
}

void EagerReplicas::holder_goes(GroupRank rank) {
  std::erase_if(sent_, [&](const auto& sent) {
    if (sent.second != rank) return false;
    withdraw(sent.first);
    return true;
  });
}

void EagerReplicas::forget(GroupRank source, SpId holder) const {
  const Membership* membership = operation_.group.membership();
  if (membership == nullptr) return;
  const GroupRank name = name_of_reader(*membership, membership->self());
  operation_.context.fabric.mover.forget_eager(BlockId{operation_.id(), source, name}, holder);
}

}  // namespace outrigger::engine
