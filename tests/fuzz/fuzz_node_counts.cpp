// Arbitrary bytes, and nearly valid messages, as the counts that another node's keeper sends. Accepted messages must
// give JSON with terminated strings.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "report/json.hpp"
#include "report/node_counts.hpp"

namespace {

using namespace outrigger;

void check(std::span<const std::byte> bytes) {
  const std::optional<report::NodeCounts> counts = report::decode_node_counts(bytes);
  if (!counts) return;
  const std::string text = report::as_json(report::summary_of(std::span(&*counts, 1)));
  if (text.empty() || text.find('\0') != std::string::npos) std::abort();
}

std::vector<std::byte> good_counts() {
  report::NodeCounts counts;
  counts.ended.how = "signal";
  counts.ended.signal = 9;
  counts.ended.text = "why";
  counts.routes.resize(1);
  report::LedgerHeader header;
  header.world_size = 1;
  std::vector<std::byte> ledger(sizeof(header));
  std::memcpy(ledger.data(), &header, sizeof(header));
  counts.ranks.push_back({std::move(ledger), 5});
  return report::encode_node_counts(counts);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check(std::as_bytes(std::span(data, size)));
  std::vector<std::byte> nearly = good_counts();
  // Pairs of a place and a change, so that short inputs reach all of it.
  for (std::size_t i = 0; i + 2 < size; i += 3) {
    nearly[(std::size_t{data[i]} << 8U | data[i + 1]) % nearly.size()] ^= static_cast<std::byte>(data[i + 2]);
  }
  check(nearly);
  return 0;
}
