#include "protocol/wire/node_news.hpp"

#include <utility>

#include "protocol/wire/job_map.hpp"
#include "protocol/wire/plain_bytes.hpp"

namespace outrigger {
namespace {

constexpr std::uint32_t kNewsMagic = 0x4E4E524F;  // "ORNN"

// Layout in front of the bytes.
struct PlainNews {
  std::uint32_t magic = kNewsMagic;
  std::uint32_t kind = 0;
  std::uint32_t to_node = 0;
  std::uint32_t sp = 0;
  std::uint32_t epoch = 0;
  std::uint32_t bytes = 0;
};
static_assert(sizeof(PlainNews) == kNodeNewsHeaderBytes);

bool makes_sense(const PlainNews& plain) {
  if (plain.magic != kNewsMagic) return false;
  switch (static_cast<NodeNewsKind>(plain.kind)) {
    case NodeNewsKind::moved: return plain.epoch > 1 && plain.bytes != 0 && plain.bytes <= kMaxWireAddressBytes;
    case NodeNewsKind::taken: return plain.epoch > 1 && plain.bytes == 0;
    case NodeNewsKind::ask: return plain.epoch == 0 && plain.bytes == 0;
    case NodeNewsKind::here: return plain.bytes == 0;
    case NodeNewsKind::counts: return plain.epoch == 0 && plain.bytes != 0 && plain.bytes <= kMaxCountsBytes;
    case NodeNewsKind::counted: return plain.epoch == 0 && plain.bytes == 0;
  }
  return false;
}

}  // namespace

void encode_node_news(const NodeNews& news, std::vector<std::byte>& out) {
  PlainNews plain;
  plain.kind = static_cast<std::uint32_t>(news.kind);
  plain.to_node = news.to_node;
  plain.sp = news.sp.value();
  plain.epoch = news.epoch.value();
  plain.bytes = static_cast<std::uint32_t>(news.bytes.size());
  append(out, plain);
  append_bytes(out, news.bytes);
}

Result<std::optional<ParsedNodeNews>> parse_node_news(std::span<const std::byte> bytes) {
  PlainNews plain;
  if (!take(bytes, plain)) return std::optional<ParsedNodeNews>();
  if (!makes_sense(plain)) return Error{"it sent a malformed message"};
  std::span<const std::byte> after;
  if (!take_bytes(bytes, plain.bytes, after)) return std::optional<ParsedNodeNews>();
  ParsedNodeNews parsed;
  parsed.news.kind = static_cast<NodeNewsKind>(plain.kind);
  parsed.news.to_node = plain.to_node;
  parsed.news.sp = SpId{plain.sp};
  parsed.news.epoch = Epoch{plain.epoch};
  parsed.news.bytes.assign(after.begin(), after.end());
  parsed.bytes = sizeof(plain) + after.size();
  return std::optional(std::move(parsed));
}

}  // namespace outrigger
