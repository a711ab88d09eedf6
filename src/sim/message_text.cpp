#include "sim/message_text.hpp"

#include <fmt/format.h>

#include <string>

#include "protocol/wire/peer_messages.hpp"

namespace outrigger::sim {
namespace {

std::string segment_name(std::uint32_t segment) {
  return segment == peer::kWholeBlock ? "block" : fmt::format("segment {}", segment);
}

}  // namespace

std::optional<std::string> text_of_message(std::span<const std::byte> message) {
  const std::optional<peer::Message> decoded = peer::decode(message);
  static constexpr const char* kNames[] = {"announce",        "delivered",      "release",      "finished", "refusal",
                                           "replica request", "replica answer", "replica done", "quiesce",  "overdue"};
  if (!decoded) return std::nullopt;
  const std::uint64_t group = decoded->header.operation.group.low - 1;
  const std::uint64_t sequence = decoded->header.operation.sequence;
  std::string detail;
  if (const auto* announce = std::get_if<peer::Announce>(&decoded->body)) {
    detail = fmt::format("of rank {}{}", announce->group_rank.value(), announce->again ? ", again" : "");
  } else if (const auto* release = std::get_if<peer::Release>(&decoded->body)) {
    const bool of_all = release->source == peer::kEachSource;
    detail = fmt::format("{} -> {} {}", of_all ? "all" : std::to_string(release->source.value()),
                         release->destination.value(), name_of(release->status));
  } else if (const auto* delivered = std::get_if<peer::Delivered>(&decoded->body)) {
    detail = fmt::format("{} -> {} {}", delivered->source.value(), delivered->destination.value(),
                         name_of(delivered->status));
  } else if (const auto* finished = std::get_if<peer::Finished>(&decoded->body)) {
    detail = fmt::format("world rank {} {}", finished->rank.value(), name_of(finished->status));
  } else if (const auto* refusal = std::get_if<peer::Refusal>(&decoded->body)) {
    detail = fmt::format("of {} by {}", refusal->to.value(), refusal->from.value());
  }
  if (const auto* request = std::get_if<peer::ReplicaRequest>(&decoded->body)) {
    detail = fmt::format("{} of {}", segment_name(request->segment), request->source.value());
  } else if (const auto* answer = std::get_if<peer::ReplicaAnswer>(&decoded->body)) {
    static constexpr const char* kWhere[] = {"?", "not here", "here", "forwarded"};
    detail =
        fmt::format("{} of {}: {} (rank {}, service {})", segment_name(answer->segment), answer->source.value(),
                    kWhere[static_cast<std::size_t>(answer->where)], answer->holder.value(), answer->service.value());
  }
  const peer::Header& header = decoded->header;
  return fmt::format("{} group {} operation {} {} (epoch {} to {})", kNames[decoded->body.index()], group, sequence,
                     detail, header.from_epoch.value(), header.to_epoch.value());
}

}  // namespace outrigger::sim
