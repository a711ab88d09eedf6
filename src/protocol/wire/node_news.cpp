#include "protocol/wire/node_news.hpp"

#include <cstring>
#include <utility>

#include "protocol/wire/job_map.hpp"

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
  const auto* first = reinterpret_cast<const std::byte*>(&plain);
  out.insert(out.end(), first, first + sizeof(plain));
  out.insert(out.end(), news.bytes.begin(), news.bytes.end());
}

Result<std::optional<ParsedNodeNews>> parse_node_news(std::span<const std::byte> bytes) {
  PlainNews plain;
  if (bytes.size() < sizeof(plain)) return std::optional<ParsedNodeNews>();
  std::memcpy(&plain, bytes.data(), sizeof(plain));
  if (!makes_sense(plain)) return Error{"it sent a malformed message"};
  const std::size_t all = sizeof(plain) + plain.bytes;
  if (bytes.size() < all) return std::optional<ParsedNodeNews>();
  ParsedNodeNews parsed;
  parsed.news.kind = static_cast<NodeNewsKind>(plain.kind);
  parsed.news.to_node = plain.to_node;
  parsed.news.sp = SpId{plain.sp};
  parsed.news.epoch = Epoch{plain.epoch};
  const auto after = bytes.subspan(sizeof(plain), plain.bytes);
  parsed.news.bytes.assign(after.begin(), after.end());
  parsed.bytes = all;
  return std::optional(std::move(parsed));
}

}  // namespace outrigger
