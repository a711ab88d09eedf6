// Arbitrary bytes as messages between a keeper and a DPU, as a DPU's counts, and as a rank's address. Accepted messages
// must encode to the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "protocol/wire/dpu_figures.hpp"
#include "protocol/wire/dpu_link.hpp"
#include "protocol/wire/rank_address.hpp"
#include "round_trip.hpp"

namespace {

using namespace outrigger;

void check_frames(std::span<const std::byte> bytes) {
  while (true) {
    const auto parsed = parse<DpuFrame>(bytes);
    if (!parsed) {
      if (parsed.error().empty()) std::abort();
      return;
    }
    if (!parsed.value()) return;
    const auto again = encoded(parsed.value()->message);
    if (again.size() != parsed.value()->bytes || again.size() > bytes.size()) std::abort();
    if (!std::equal(again.begin(), again.end(), bytes.begin())) std::abort();
    bytes = bytes.subspan(again.size());
  }
}

void check_address(std::span<const std::byte> bytes) {
  const auto decoded = decode_rank_address(bytes);
  if (decoded && !std::ranges::equal(encoded(decoded.value()), bytes)) std::abort();
}

void check_figures(std::span<const std::byte> bytes) {
  const auto figures = check_round_trip<DpuFigures>(bytes);
  if (!figures) return;
  std::uint32_t from = 0;
  for (const DpuLinkFigures& link : figures->links) {
    if (link.node < from || link.node >= kLinkPlaces) std::abort();
    from = link.node + 1;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check_frames(bytes);
  check_address(bytes);
  check_figures(bytes);
  check_figures(spoiled(encoded(DpuFigures{1, 2, 3, {{0, 4, 5}, {7, 6, 0}}}), bytes));
  check_frames(spoiled(encoded(DpuFrame{DpuFrameKind::control, 1, std::vector<std::byte>(8), {}}), bytes));
  RankAddress address{4096, 1, std::vector<std::byte>(5), std::vector<std::byte>(3), {}};
  check_address(spoiled(encoded(address), bytes));
  address.trial = ExportTrial{8192, std::vector<std::byte>(3), std::vector<std::byte>(4)};
  check_address(spoiled(encoded(address), bytes));
  check_round_trip<DpuProbed>(bytes);
  return 0;
}
