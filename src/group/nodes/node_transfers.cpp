#include "group/nodes/node_transfers.hpp"

#include <algorithm>
#include <utility>

namespace outrigger::group {

using intranode::CallWord;

Transfers::Transfers(std::vector<std::unique_ptr<Stream>> streams) : lines_(streams.size()) {
  for (std::size_t end = 0; end < lines_.size(); ++end) lines_[end].stream = std::move(streams[end]);
}

void Transfers::begin(CallWord call) {
  call_ = call.tagged(++calls_);
}

void Transfers::send(std::uint32_t end, std::span<const std::byte> from) {
  Line& line = lines_[end];
  Transfer transfer{.head = {.call = call_.word(), .bytes = from.size()}, .from = from.data(), .bytes = from.size()};
  line.sends.push_back(transfer);
  (void)move_sends(line);
}

void Transfers::receive(std::uint32_t end, std::span<std::byte> into) {
  lines_[end].receives.push_back({.into = into.data(), .bytes = into.size()});
}

bool Transfers::is_pending(bool for_sends) const {
  return std::ranges::any_of(
      lines_, [&](const Line& line) { return !line.receives.empty() || (for_sends && !line.sends.empty()); });
}

bool Transfers::move() {
  bool moved = false;
  for (std::uint32_t end = 0; end < lines_.size(); ++end) {
    moved = move_sends(lines_[end]) || moved;
    moved = move_receives(end) || moved;
  }
  return moved;
}

bool Transfers::move_sends(Line& line) {
  bool any = false;
  while (!line.sends.empty()) {
    Transfer& one = line.sends.front();
    const auto head = std::as_bytes(std::span(&one.head, 1)).subspan(one.of_head());
    const std::size_t moved = line.stream->write(head, {one.from + one.of_body(), one.bytes - one.of_body()});
    one.moved += moved;
    any = any || moved > 0;
    if (!one.is_done()) break;
    line.sends.pop_front();
    ++line.sent;
  }
  return any;
}

bool Transfers::move_receives(std::uint32_t end) {
  Line& line = lines_[end];
  bool any = false;
  while (!line.receives.empty() && !difference_) {
    Transfer& one = line.receives.front();
    const auto head = std::as_writable_bytes(std::span(&one.head, 1)).subspan(one.of_head());
    const std::size_t moved = line.stream->read(head, {one.into + one.of_body(), one.bytes - one.of_body()});
    one.moved += moved;
    any = any || moved > 0;
    if (!head.empty() && moved >= head.size()) check(end, one);
    if (!one.is_done()) break;
    line.receives.pop_front();
    ++line.received;
  }
  if (any) line.came = Clock::now();
  return any;
}

void Transfers::check(std::uint32_t end, const Transfer& transfer) {
  const CallWord theirs(transfer.head.call);
  const bool same = theirs.ahead_of(call_) == 0 && theirs.is_same_call(call_);
  if (same && transfer.head.bytes == transfer.bytes) return;
  difference_ = intranode::Difference{.other = end,
                                      .mine = call_,
                                      .theirs = theirs,
                                      .lengths = same,
                                      .given = transfer.head.bytes,
                                      .room = transfer.bytes};
}

void Transfers::add_descriptors(std::vector<pollfd>& into) const {
  for (const Line& line : lines_) {
    if (line.stream == nullptr || line.stream->is_closed()) continue;
    const bool sends = !line.sends.empty() && !line.stream->is_broken();
    const int events = (line.receives.empty() ? 0 : POLLIN) | (sends ? POLLOUT : 0);
    if (events == 0) continue;
    into.push_back({.fd = line.stream->descriptor(), .events = static_cast<short>(events), .revents = 0});
  }
}

void Transfers::abandon() {
  for (Line& line : lines_) {
    if (line.stream != nullptr) line.stream->abandon();
  }
}

}  // namespace outrigger::group
