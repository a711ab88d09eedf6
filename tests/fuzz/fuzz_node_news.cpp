// Arbitrary bytes as messages from other nodes' keepers. Accepted messages must encode to the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "protocol/wire/job_map.hpp"
#include "protocol/wire/node_news.hpp"
#include "round_trip.hpp"

namespace {

using namespace outrigger;

void take_all(std::span<const std::byte> bytes) {
  while (true) {
    const auto parsed = parse<NodeNews>(bytes);
    if (!parsed && parsed.error().empty()) std::abort();
    if (!parsed || !parsed.value()) return;
    const NodeNews& news = parsed.value()->message;
    if (parsed.value()->bytes > bytes.size() || news.bytes.size() > kMaxCountsBytes) std::abort();
    const std::vector<std::byte> again = encoded(news);
    const std::span<const std::byte> first = bytes.first(parsed.value()->bytes);
    if (!std::equal(again.begin(), again.end(), first.begin(), first.end())) std::abort();
    bytes = bytes.subspan(first.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  take_all(bytes);
  std::vector<std::byte> nearly;
  append(nearly, NodeNews{NodeNewsKind::moved, 1, SpId{2}, Epoch{3}, std::vector<std::byte>(4)});
  append(nearly, NodeNews{NodeNewsKind::ask, 1, SpId{2}, Epoch{0}, {}});
  take_all(spoiled(std::move(nearly), bytes));
  return 0;
}
