#include "service/keeper/nodes/job_map_exchange.hpp"

#include <algorithm>
#include <utility>

#include "base/shared_memory.hpp"
#include "proof/hmac.hpp"
#include "protocol/wire/job_map.hpp"

namespace outrigger::service {

Status JobMapExchange::take_address(std::uint32_t sp, std::uint32_t times, const SharedBytesBody& body,
                                    const UniqueFd& fd) {
  Result<std::vector<std::byte>> address = read_shared_bytes(fd.get(), body.bytes, kMaxWireAddressBytes);
  if (!address) return Error{address.error()};
  if (sp >= addresses_.size()) {
    addresses_.resize(sp + 1);
    times_.resize(sp + 1);
  }
  addresses_[sp] = std::move(address).value();
  times_[sp] = times;
  return Done{};
}

bool JobMapExchange::ready(std::uint32_t services) const {
  if (config_.nodes == 1) return true;
  return addresses_.size() == services &&
         std::ranges::none_of(addresses_, [](const std::vector<std::byte>& address) { return address.empty(); });
}

Status JobMapExchange::send_descriptor(LocalRanks& ranks) const {
  NodeDescriptor descriptor;
  descriptor.name = host_name();
  if (config_.keepers_here > 1) descriptor.name += "/" + std::to_string(config_.number_here);
  // Derived, so that other nodes do not get the secret that ranks present to this keeper.
  descriptor.secret = proof::derived_secret(config_.secret, "node");
  descriptor.addresses = addresses_;
  descriptor.keeper = nodes_.listen();
  for (const LocalRank& rank : ranks) {
    descriptor.ranks.push_back(RankAssignment{WorldRank{rank.hello.world_rank}, rank.sp});
  }
  std::vector<std::byte> bytes;
  encode_descriptor(descriptor, bytes);
  const Result<UniqueFd> shared = share_bytes("outrigger-descriptor", bytes);
  if (!shared) return Error{shared.error()};
  const int fd = shared.value().get();
  const bool sent = ranks[0].tell(ControlKind::node_descriptor, SharedBytesBody{bytes.size(), 0, 0}, std::span(&fd, 1));
  return sent ? Status(Done{}) : Status(Error{"it received no descriptor"});
}

Status JobMapExchange::take_job_map(std::uint32_t local_rank, const SharedBytesBody& body, const UniqueFd& fd) {
  if (local_rank != 0 || config_.nodes == 1 || std::exchange(passed_, true)) {
    return Error{"an unexpected job map"};
  }
  if (auto bytes = read_shared_bytes(fd.get(), body.bytes, kMaxJobMapBytes)) {
    nodes_.take_job_map(body, std::move(bytes).value());
  }
  return Done{};
}

bool JobMapExchange::taken(std::uint32_t sp, const JobMapTakenBody& body, std::uint32_t services) {
  taken_.set(sp);
  // The job map has no epochs. Peers learn the address of a restarted service process only with its epoch, or their
  // calls would come too early.
  if (sp < times_.size() && times_[sp] > 1 && body.ok != 0) nodes_.moved(sp, Epoch{times_[sp]}, addresses_[sp]);
  if (answered_ || (body.ok != 0 && taken_.count() < services)) return false;
  answered_ = true;
  return true;
}

}  // namespace outrigger::service
