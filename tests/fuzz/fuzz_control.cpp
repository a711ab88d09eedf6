// The control decoder against arbitrary packets. The first byte says how many descriptors come along.
#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "protocol/wire/control.hpp"

namespace {

using namespace outrigger;

template <class T>
void touch(const ControlMessage& message) {
  static_cast<void>(message.body<T>());  // aborts when the size is not the kind's
}

void touch_body(const ControlMessage& message) {
  switch (message.kind()) {
    case ControlKind::hello: return touch<HelloBody>(message);
    case ControlKind::welcome: return touch<WelcomeBody>(message);
    case ControlKind::refused: return touch<RefusedBody>(message);
    case ControlKind::region_add:
    case ControlKind::region_drop: return touch<RegionBody>(message);
    case ControlKind::region_added: return touch<RegionAddedBody>(message);
    case ControlKind::goodbye:
    case ControlKind::rank_left:
    case ControlKind::segment_offer:
    case ControlKind::be_quiet:
    case ControlKind::leave_dpu:
    case ControlKind::left_dpu:
    case ControlKind::trace_settle:
    case ControlKind::counts:
    case ControlKind::trace:
    case ControlKind::heartbeat:
    case ControlKind::degraded:
    case ControlKind::doorbell: return touch<RankBody>(message);
    case ControlKind::configure: return touch<ConfigureBody>(message);
    case ControlKind::peer_moved: return touch<PeerMovedBody>(message);
    case ControlKind::peer_silent:
    case ControlKind::peer_watched: return touch<PeerBody>(message);
    case ControlKind::take_place: return touch<TakePlaceBody>(message);
    case ControlKind::introduced: return touch<IntroducedBody>(message);
    case ControlKind::core_share: return touch<CoreShareBody>(message);
    case ControlKind::peer_ring: return touch<PeerRingBody>(message);
    case ControlKind::rank_joined: return touch<RankJoinedBody>(message);
    case ControlKind::rank_attached: return touch<RankAttachedBody>(message);
    case ControlKind::fault_report: return touch<FaultReportBody>(message);
    case ControlKind::rank_remote: return touch<RankRemoteBody>(message);
    case ControlKind::rank_wired: return touch<RankWiredBody>(message);
    case ControlKind::wire_address:
    case ControlKind::rank_address:
    case ControlKind::node_descriptor:
    case ControlKind::job_map: return touch<SharedBytesBody>(message);
    case ControlKind::job_map_taken: return touch<JobMapTakenBody>(message);
  }
  std::abort();  // an unknown kind was let through
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<UniqueFd> fds;
  for (unsigned i = 0; i < data[0] % (kMaxControlFds + 2); ++i) fds.emplace_back(::open("/dev/null", O_RDONLY));
  const int probe_fd = fds.empty() ? -1 : fds.front().get();
  const auto packet = std::as_bytes(std::span(data + 1, size - 1));
  auto decoded = decode_control(packet, std::move(fds));
  if (!decoded) {
    if (probe_fd >= 0 && ::fcntl(probe_fd, F_GETFD) >= 0) std::abort();  // descriptors of what is refused are closed
    return 0;
  }
  touch_body(decoded.value());
  const auto again = encode_control(decoded.value().kind(), packet.subspan(sizeof(ControlHeader)));
  if (!std::equal(again.begin(), again.end(), packet.begin(), packet.end())) std::abort();
  return 0;
}
