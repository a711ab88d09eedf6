// The decoder of the wire's headers, against arbitrary bytes and against nearly valid headers. Accepted headers must
// encode to the same bytes and keep the limits.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "protocol/wire/wire_messages.hpp"

namespace {

using namespace outrigger;

void check(std::span<const std::byte> bytes) {
  const auto header = wire::decode_wire(bytes);
  if (!header) return;
  if (header->bytes > wire::kMaxChunkBytes || header->offset + header->bytes < header->offset) std::abort();
  if (header->kind < wire::Kind::message || header->kind > wire::Kind::reduced_request || header->status > 2)
    std::abort();
  const auto again = wire::encode_wire(*header);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check(bytes);
  std::span<const std::byte> rest = bytes;
  std::vector<std::byte> batch;
  while (const auto framed = wire::next_framed(rest)) {
    wire::append_framed(batch, wire::encode_wire(framed->header), framed->payload);
  }
  if (!std::equal(batch.begin(), batch.end(), bytes.begin())) std::abort();
  if (const auto id = wire::decode_block_id(bytes)) {
    const auto again = wire::encode_block_id(*id);
    if (!std::equal(again.begin(), again.end(), bytes.begin())) std::abort();
  }
  if (const auto operands = wire::decode_operands(bytes)) {
    std::vector<std::byte> again;
    wire::encode_operands(*operands, again);
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  }
  wire::EncodedHeader nearly = wire::encode_wire(wire::Header{});
  for (std::size_t i = 0; i < std::min(size, nearly.size()); ++i) nearly[i] ^= bytes[i];
  check(nearly);
  return 0;
}
