// The decoder of messages between service processes, and the engine behind it, against arbitrary bytes. Decoded
// messages must encode to the same bytes. No message may break an invariant of the engine or complete a rank that
// waits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.hpp"
#include "fabric/sim/bare_fabric.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace {

using namespace outrigger;

class NullFabric final : public fabric::sim::BareFabric {
 public:
  void move(const Block& from, const Block& to, const BlockId* /*name*/,
            fabric::MoveCompletion& /*completion*/) override {
    if (from.bytes == 0 || from.bytes != to.bytes) std::abort();
  }
  void cancel(fabric::MoveCompletion& /*completion*/) override {}
  void send(SpId to, std::span<const std::byte> message) override {
    if (to == SpId{0} || !peer::decode(message)) std::abort();
  }
  void mark_block(WorldRank /*destination*/, SlotIndex /*slot*/, GroupRank /*source*/, BlockMark /*mark*/) override {}
  void complete(WorldRank /*rank*/, SlotIndex /*slot*/, const fabric::CompletionRecord& /*record*/) override {}
};

engine::PostedOperation posted(std::uint64_t sequence, Algorithm algorithm) {
  engine::PostedOperation operation;
  operation.rank = WorldRank{0};
  operation.id = OperationId{GroupId{1, 2}, sequence};
  operation.members =
      std::make_shared<const std::vector<WorldRank>>(std::vector<WorldRank>{WorldRank{0}, WorldRank{1}, WorldRank{2}});
  operation.algorithm = algorithm;
  operation.digest = 7;
  operation.send.stride_bytes = operation.receive.stride_bytes = 64;
  operation.send.block_bytes = operation.receive.block_bytes = 64;
  return operation;
}

void check(std::span<const std::byte> bytes) {
  const auto message = peer::decode(bytes);
  if (!message) return;
  std::vector<std::byte> again;
  peer::encode(*message, again);
  if (again.size() != bytes.size() || !std::equal(again.begin(), again.end(), bytes.begin())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  NullFabric fabric;
  engine::EngineConfig config;
  config.sp_of_rank = {SpId{0}, SpId{1}, SpId{2}};
  config.node_of_sp = {0, 0, 1};
  engine::Engine engine(config, fabric.seams());
  engine.post(posted(0, Algorithm::ring_pull));
  engine.post(posted(1, Algorithm::scatter_dest));
  engine::PostedOperation passing_on = posted(2, Algorithm::node_pull);
  passing_on.collective = Collective::iallgather;
  engine.post(std::move(passing_on));
  // Messages one after the other, each behind its length and its sender.
  std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data), size);
  check(rest);
  while (rest.size() > 2) {
    const auto length = std::min<std::size_t>(std::to_integer<std::size_t>(rest[0]), rest.size() - 2);
    const SpId from{1 + std::to_integer<std::uint32_t>(rest[1]) % 2};
    check(rest.subspan(2, length));
    static_cast<void>(engine.receive(from, rest.subspan(2, length)));
    if (std::to_integer<unsigned>(rest[1]) % 3 != 0) engine.run();
    rest = rest.subspan(2 + length);
  }
  engine.run();
  if (engine.broken_invariant()) std::abort();
  return 0;
}
