#include "intranode/direct_trial.hpp"

#include "intranode/direct_steps.hpp"

namespace outrigger::intranode {
namespace {

std::uint64_t value_of(std::uint32_t member) {
  return 0x6f75747269676765U + member;
}

bool reads(PeerMemory& memory, std::uint32_t member, std::uint64_t address) {
  std::uint64_t value = 0;
  return memory.read(member, address, std::as_writable_bytes(std::span(&value, 1))) && value == value_of(member);
}

}  // namespace

// The first operation: no slot has a reader.
Outcome try_direct(Meeting& meeting, PeerMemory& memory, bool& all) {
  const std::uint64_t sample = value_of(meeting.rank());
  const std::uint64_t step = meeting.begin();
  meeting.extend(1);
  meeting.set_word(step, address_of(reinterpret_cast<const std::byte*>(&sample)));
  meeting.arrive(step);
  for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
    const std::uint32_t other = meeting.after(distance);
    if (!meeting.wait_arrived(other, step)) return Outcome::ended;
    if (!reads(memory, other, meeting.word(other, step))) all = false;
  }
  return end_together(meeting, step + 1, all);
}

}  // namespace outrigger::intranode
