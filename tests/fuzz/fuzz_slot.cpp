// The slot decoder against arbitrary slots, members, extents and claimed segment addresses. The test aborts if an
// accepted slot names an address outside the rank's memory.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "service/slot_fixture.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outrigger;
  static testing::SlotFixture slot;
  SlotRequestBody body = testing::SlotFixture::good();
  if (size > 1 && (data[0] & 1U) != 0) body.send.extents = testing::SlotFixture::arena(4096);
  if (size > 1 && (data[0] & 2U) != 0) body.receive.extents = testing::SlotFixture::arena(4096);
  if (size > 1 && (data[0] & 8U) != 0) {
    body.collective = static_cast<std::uint16_t>(Collective::ineighbor_alltoallw);
    body.send.extents.count = data[0] >> 5U;
    body.receive.extents.count = data[0] >> 6U;
  }
  const auto take = [&](void* to, std::size_t bytes) {
    const std::size_t count = std::min(bytes, size);
    std::memcpy(to, data, count);
    data += count;
    size -= count;
  };
  const bool whole = size > 1 && (data[0] & 4U) != 0;
  std::uint8_t choice = 0;
  take(&choice, 1);
  take(slot.extents(), 4 * sizeof(NeighborExtent));
  if (whole) take(&body, sizeof(body));
  take(slot.members(), 64);
  slot.memory().segment().header().rank_base_address.store(testing::SlotFixture::kSegmentBase);
  const auto decoded = slot.decode(body);
  if (decoded) testing::check_decoded(decoded.value(), slot.memory());
  slot.groups().forget_rank(testing::SlotFixture::kMe);
  return 0;
}
