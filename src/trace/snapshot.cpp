#include "trace/snapshot.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include "base/whole_file.hpp"
#include "protocol/collective.hpp"
#include "protocol/collective_calls.hpp"
#include "protocol/options/reach.hpp"
#include "protocol/wire/message_io.hpp"

namespace outrigger::trace {
namespace {

void add_name(std::string& text, const char* kind, std::size_t index, std::string_view name) {
  text += kind;
  text += ' ';
  text += std::to_string(index);
  text += ' ';
  text += name;
  text += '\n';
}

std::string make_names() {
  std::string text;
  for (std::size_t i = 0; i < kCallKinds; ++i) add_name(text, "call", i, name_of(call_kind_at(i)));
  for (std::size_t i = 0; i < kCompletionCalls.size(); ++i) add_name(text, "completion", i, kCompletionCalls[i]);
  for (std::size_t i = 0; i < report::kNativeReasons; ++i) add_name(text, "reason", i, report::kReasonNames[i]);
  for (std::size_t i = 0; i < kCollectives.size(); ++i) add_name(text, "collective", i, kCollectives[i].name);
  for (std::size_t i = 0; i < kAlgorithms.size(); ++i) add_name(text, "algorithm", i, kAlgorithms[i].name);
  for (std::size_t i = 0; i < kReachCount; ++i) add_name(text, "reach", i, name_of(static_cast<Reach>(i)));
  return text;
}

// On a line of its own, whatever the program wrote.
std::string line_of(PhaseName name) {
  name.back() = '\0';
  std::string text(name.data());
  std::ranges::replace_if(
      text, [](unsigned char each) { return each < ' '; }, ' ');
  return text;
}

std::string names_of(const Header& header) {
  std::string names = event_names();
  const std::uint32_t phases = std::min(header.phases.load(std::memory_order_acquire), kPhaseNames);
  for (std::uint32_t i = 0; i < phases; ++i) add_name(names, "phase", i, line_of(header.phase_names[i]));
  return names;
}

std::uint64_t append_events(std::vector<std::byte>& bytes, std::span<const Event> places) {
  std::uint64_t count = 0;
  for (const Event& place : places) {
    // Read the kind first: it is written last.
    const std::uint8_t kind = std::atomic_ref(const_cast<std::uint8_t&>(place.kind)).load(std::memory_order_acquire);
    if (kind == 0 || kind > kLastKind) continue;
    Event event;
    std::memcpy(&event, &place, sizeof event);
    event.kind = kind;
    append(bytes, event);
    ++count;
  }
  return count;
}

std::uint64_t in_use(const std::atomic<std::uint64_t>& count) {
  return std::min(count.load(std::memory_order_acquire), kEvents);
}

std::uint64_t dropped(const std::atomic<std::uint64_t>& count) {
  return count.load(std::memory_order_acquire) - in_use(count);
}

}  // namespace

const std::string& event_names() {
  static const std::string names = make_names();
  return names;
}

std::vector<std::byte> snapshot(const Memory& memory) {
  const Header& from = memory.header();
  PartHeader header;
  header.header_bytes = sizeof header;
  header.about = from.about;
  header.about.mpi.back() = header.about.native_because.back() = header.about.dpu.back() = '\0';
  const std::string names = names_of(from);
  header.names_bytes = names.size();
  header.communicators = std::min(from.communicators.load(std::memory_order_acquire), kCommunicators);
  header.events_dropped = dropped(from.events);
  header.service_events_dropped =
      dropped(from.service_events) + from.service_events_lost.load(std::memory_order_acquire);
  std::vector<std::byte> bytes(sizeof header);
  bytes.reserve(sizeof header + header.names_bytes + header.communicators * sizeof(Communicator) +
                (in_use(from.events) + in_use(from.service_events)) * sizeof(Event));
  std::ranges::copy(std::as_bytes(std::span(names)), std::back_inserter(bytes));
  for (std::uint32_t i = 0; i < header.communicators; ++i) {
    Communicator known = from.known[i];
    known.name.back() = '\0';
    append(bytes, known);
  }
  header.events = append_events(bytes, {memory.events(), in_use(from.events)});
  header.service_events = append_events(bytes, {memory.service_events(), in_use(from.service_events)});
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Status write_parts(const std::string& path, const std::vector<std::vector<std::byte>>& parts) {
  std::string all;
  for (const std::vector<std::byte>& part : parts) all.append(reinterpret_cast<const char*>(part.data()), part.size());
  return write_file(path, all, true);
}

}  // namespace outrigger::trace
