// The decoder of the wire's headers, against arbitrary bytes and against nearly valid headers. Accepted headers must
// encode to the same bytes and keep the limits.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "protocol/wire/wire_messages.hpp"
#include "round_trip.hpp"

namespace {

using namespace outrigger;

void check_header(std::span<const std::byte> bytes) {
  const auto header = check_round_trip<wire::Header>(bytes);
  if (!header) return;
  if (header->bytes > wire::kMaxChunkBytes || header->offset + header->bytes < header->offset) std::abort();
  if (header->kind < wire::Kind::message || header->kind > wire::Kind::reduced_request || header->status > 2)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check_header(bytes);
  check_round_trip<wire::Shown>(bytes);
  check_round_trip<wire::OtherOperands>(bytes);
  check_round_trip<BlockId>(bytes);
  std::span<const std::byte> rest = bytes;
  std::vector<std::byte> batch;
  while (const auto framed = take_first<wire::Framed>(rest)) append(batch, *framed);
  if (!std::equal(batch.begin(), batch.end(), bytes.begin())) std::abort();
  check_header(spoiled(encoded(wire::Header{}), bytes));
  return 0;
}
