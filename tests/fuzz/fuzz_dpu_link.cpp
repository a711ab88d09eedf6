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

namespace {

using namespace outrigger;

void check_frames(std::span<const std::byte> bytes) {
  while (true) {
    const auto parsed = parse_dpu_frame(bytes);
    if (!parsed) {
      if (parsed.error().empty()) std::abort();
      return;
    }
    if (!parsed.value()) return;
    const DpuFrame& frame = parsed.value()->frame;
    const auto again = encode_dpu_frame(frame.kind, frame.sp, frame.packet, frame.attached);
    if (again.size() != parsed.value()->bytes || again.size() > bytes.size()) std::abort();
    if (!std::equal(again.begin(), again.end(), bytes.begin())) std::abort();
    bytes = bytes.subspan(again.size());
  }
}

void check_address(std::span<const std::byte> bytes) {
  const auto decoded = decode_rank_address(bytes);
  if (!decoded) return;
  const auto again = encode_rank_address(decoded.value());
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
}

void check_figures(std::span<const std::byte> bytes) {
  const std::size_t head = std::min(bytes.size(), sizeof(DpuFiguresHeader));
  const auto decoded = decode_dpu_figures(bytes.first(head), bytes.subspan(head));
  if (!decoded) return;
  std::uint32_t from = 0;
  for (const DpuLinkFigures& link : decoded.value().links) {
    if (link.node < from || link.node >= kLinkPlaces) std::abort();
    from = link.node + 1;
  }
  const DpuFiguresHeader header = header_of(decoded.value());
  const auto again = std::as_bytes(std::span(&header, 1));
  const auto links = bytes_of(decoded.value());
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.begin() + sizeof header)) std::abort();
  if (!std::equal(links.begin(), links.end(), bytes.begin() + sizeof header, bytes.end())) std::abort();
}

void spoil(std::vector<std::byte>& good, std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < std::min(bytes.size(), good.size()); ++i) good[i] ^= bytes[i];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check_frames(bytes);
  check_address(bytes);
  check_figures(bytes);
  const DpuFigures counted{1, 2, 3, {{0, 0, 4, 5}, {7, 0, 6, 0}}};
  const DpuFiguresHeader header = header_of(counted);
  std::vector<std::byte> figures(sizeof header + bytes_of(counted).size());
  std::ranges::copy(std::as_bytes(std::span(&header, 1)), figures.begin());
  std::ranges::copy(bytes_of(counted), figures.begin() + sizeof header);
  spoil(figures, bytes);
  check_figures(figures);
  std::vector<std::byte> frame = encode_dpu_frame(DpuFrameKind::control, 1, std::vector<std::byte>(8), {});
  spoil(frame, bytes);
  check_frames(frame);
  std::vector<std::byte> address =
      encode_rank_address(RankAddress{4096, 1, std::vector<std::byte>(5), std::vector<std::byte>(3), {}});
  spoil(address, bytes);
  check_address(address);
  const ExportTrial trial{8192, std::vector<std::byte>(3), std::vector<std::byte>(4)};
  address = encode_rank_address(RankAddress{4096, 1, std::vector<std::byte>(5), std::vector<std::byte>(3), trial});
  spoil(address, bytes);
  check_address(address);
  return 0;
}
