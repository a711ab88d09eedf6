#include "intranode/direct_trial.hpp"

#include <array>
#include <cstddef>

#include "intranode/direct_steps.hpp"

namespace outrigger::intranode {
namespace {

// In each member's own memory. The others read `value`, and each leaves its mark.
struct Sample {
  std::uint64_t value = 0;
  std::array<std::uint64_t, kMostMembers> marks{};
};

std::uint64_t value_of(std::uint32_t member) {
  return 0x6f75747269676765U + member;
}

bool reads(PeerMemory& memory, std::uint32_t member, std::uint64_t address, std::uint64_t expected) {
  std::uint64_t value = 0;
  return memory.read(member, address, std::as_writable_bytes(std::span(&value, 1))) && value == expected;
}

bool copies(PeerMemory& memory, std::uint32_t own, std::uint32_t other, std::uint64_t sample) {
  const std::uint64_t mark = ~value_of(own);
  const std::uint64_t place = sample + offsetof(Sample, marks) + own * sizeof mark;
  return reads(memory, other, sample + offsetof(Sample, value), value_of(other)) &&
         memory.write(other, place, std::as_bytes(std::span(&mark, 1))) && reads(memory, other, place, mark);
}

}  // namespace

// The first operation: no slot has a reader.
Outcome try_direct(Meeting& meeting, PeerMemory& memory, bool& all) {
  Sample sample{.value = value_of(meeting.rank())};
  const std::uint64_t step = meeting.begin();
  meeting.extend(1);
  meeting.set_word(step, address_of(reinterpret_cast<const std::byte*>(&sample)));
  meeting.arrive(step);
  for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
    const std::uint32_t other = meeting.after(distance);
    if (!meeting.wait_arrived(other, step)) return Outcome::ended;
    if (!copies(memory, meeting.rank(), other, meeting.word(other, step))) all = false;
  }
  return end_together(meeting, step + 1, all);
}

}  // namespace outrigger::intranode
