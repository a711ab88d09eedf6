// Rings from service processes to others of the same machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/shared_memory.hpp"
#include "protocol/byte_ring.hpp"
#include "protocol/control.hpp"

namespace outrigger::service {

// Memory for one.
[[nodiscard]] inline Result<UniqueFd> make_byte_ring() {
  Result<UniqueFd> fd = create_sealed_memory("outrigger-ring", byte_ring_bytes(), Backing::on_touch);
  if (!fd) return fd;
  const Result<Mapping> mapping = Mapping::map(fd.value().get(), byte_ring_bytes());
  if (!mapping) return Error{mapping.error()};
  initialize_byte_ring(mapping.value().base());
  return fd;
}

// Tells each of so many service processes of its rings to all others. `doorbell(sp)`: its descriptor.
// `tell(sp, body, descriptors)` sends a peer_ring; the rings are theirs alone then.
template <class Doorbell, class Tell>
[[nodiscard]] Status connect_pairs(std::size_t services, const Doorbell& doorbell, const Tell& tell) {
  for (std::uint32_t a = 0; a < services; ++a) {
    for (std::uint32_t b = a + 1; b < services; ++b) {
      Result<UniqueFd> forth = make_byte_ring();
      if (!forth) return Error{forth.error()};
      Result<UniqueFd> back = make_byte_ring();
      if (!back) return Error{back.error()};
      const std::array<int, 3> for_a{forth.value().get(), back.value().get(), doorbell(b)};
      const std::array<int, 3> for_b{back.value().get(), forth.value().get(), doorbell(a)};
      tell(a, PeerRingBody{b, 0}, for_a);
      tell(b, PeerRingBody{a, 0}, for_b);
    }
  }
  return Done{};
}

}  // namespace outrigger::service
