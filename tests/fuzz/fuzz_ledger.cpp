// A keeper reads ledgers with arbitrary bytes, and nearly valid ones. Accepted ledgers must give a table, live figures
// and JSON, with terminated strings and rows within their limits.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "protocol/collective_calls.hpp"
#include "report/json.hpp"
#include "report/live.hpp"
#include "report/summary.hpp"

namespace {

using namespace outrigger;
using report::LedgerHeader;
using report::LedgerRow;

constexpr std::size_t kRows = 3;

std::vector<std::byte> good_ledger(std::uint64_t magic) {
  std::vector<std::byte> bytes(sizeof(LedgerHeader) + kRows * sizeof(LedgerRow));
  LedgerHeader header;
  header.magic = magic;
  header.world_size = 2;
  header.row_count = kRows;
  std::memcpy(bytes.data(), &header, sizeof header);
  for (std::uint32_t i = 0; i < kRows; ++i) {
    LedgerRow row;
    row.kind = i;
    row.calls = i;
    std::memcpy(bytes.data() + sizeof header + i * sizeof row, &row, sizeof row);
  }
  return bytes;
}

// Whatever a rank may write, the frame is as long as it says.
void check_live(std::span<const std::byte> ledger) {
  report::LiveNode node;
  node.ranks = {{ledger, 1, false}, {ledger, 2, true}};
  const std::vector<std::byte> frame = report::live_frame(node);
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, frame.data() + 2 * sizeof bytes, sizeof bytes);
  if (frame.size() != 3 * sizeof bytes + bytes) std::abort();
}

void check(std::span<const std::byte> ledger) {
  check_live(ledger);
  report::Summary summary;
  if (!report::add_ledger(summary, ledger, 1'000'000'000)) {
    if (!summary.counted.empty() || !summary.calls.empty()) std::abort();
    return;
  }
  (void)report::add_ledger(summary, ledger, 2'000'000'000);
  if (report::as_json(summary).find('\0') != std::string::npos) std::abort();
}

// Ledgers are aligned: rows are looked at where they are.
std::vector<std::byte> aligned(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check(aligned(bytes));
  static const std::uint64_t magic = [] {
    const auto made = report::Ledger::create();
    return made.ok() ? made.value().header().magic : 0;
  }();
  std::vector<std::byte> nearly = good_ledger(magic);
  // Pairs of a place and a change, so that short inputs reach all of it.
  for (std::size_t i = 0; i + 2 < size; i += 3) {
    nearly[(std::size_t{data[i]} << 8U | data[i + 1]) % nearly.size()] ^= static_cast<std::byte>(data[i + 2]);
  }
  check(nearly);
  return 0;
}
