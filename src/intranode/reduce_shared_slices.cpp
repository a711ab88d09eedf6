// shared slices: every member combines one slice of the vector for all, and publishes the result.
//
// Source: R. Rabenseifner, "Optimization of Collective Reduction Operations", 2004: reduce-scatter, then allgather or
// gather. In shared memory each half is one step.
//
// Source and code (-: ours):
//     reduce-scatter: each process gets its slice of      | `own_slot`, `wait_all_arrived`, `add`
//        all vectors ...                                  |
//     ... and reduces it                                  | `combine_into`
//     allgather, or gather at the root: the results       | `wait_arrived`, `copy_out`
//     - chunk by chunk, so that slots suffice             | `chunk_bytes`
//     - for any number of members                         | `Slices`
//
// Picture (4 members, chunk c; ab: slice b of member a's contribution):
//
//     step s      slot of 0: | 00 | 01 | 02 | 03 |  ...  slot of 3: | 30 | 31 | 32 | 33 |
//                 member 1 combines 01, 11, 21, 31 ▶ result 1
//     step s + 1  slot of 1: | result 1 |  ──▶ everybody, or the root
//
// Team of p, n bytes:
//     cost    n copied in, n (p - 1) / p combined, n / p copied in, n (p - 1) / p copied out by each; two steps for
//     each
//             32 KiB. allreduce_slots.cpp combines n (p - 1) instead
//     bounds  one slot and step, and a slice on the stack
#include "intranode/algorithms.hpp"
#include "intranode/contributions.hpp"

namespace outrigger::intranode {
namespace {

constexpr std::size_t kSliceElements = 8;  // a multiple of it: slices begin with cache lines

// A chunk's slice for each member.
class Slices {
 public:
  Slices(std::uint32_t members, std::size_t bytes, std::uint32_t element_bytes) : bytes_(bytes) {
    const std::size_t unit = kSliceElements * element_bytes;
    each_ = (bytes + unit * members - 1) / (unit * members) * unit;
  }
  template <class Byte>
  [[nodiscard]] std::span<Byte> of(std::span<Byte> chunk, std::uint32_t member) const {
    return piece_of(chunk, member * each_, each_);
  }
  [[nodiscard]] std::size_t offset(std::uint32_t member) const { return std::min(member * each_, bytes_); }

 private:
  std::size_t bytes_;
  std::size_t each_;
};

}  // namespace

Outcome reduce_shared_slices(Meeting& meeting, std::span<const std::byte> mine, std::byte* into, const Combine& combine,
                             std::optional<std::uint32_t> root) {
  alignas(64) std::array<std::byte, kSlotBytes> memory;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const std::size_t chunk_bytes = slot_elements(combine);
  std::uint64_t step = meeting.begin();
  meeting.extend(2 * steps_of(mine.size(), chunk_bytes) - 1);
  for (std::uint64_t done = 0; done < mine.size(); done += chunk_bytes, step += 2) {
    const std::span<const std::byte> chunk = piece_of(mine, done, chunk_bytes);
    const Slices slices(meeting.size(), chunk.size(), combine.element_bytes());
    if (!meeting.wait_slot(step, kSlotBytes)) return Outcome::ended;
    meeting.copy_in(meeting.own_slot(step, kSlotBytes), chunk);
    meeting.arrive(step);

    const std::span<const std::byte> own = slices.of(chunk, meeting.rank());
    const std::span<std::byte> result = std::span(memory).first(own.size());
    Contributions contributions(meeting.rank(), own.data());
    if (!meeting.wait_all_arrived(step)) return Outcome::ended;
    for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
      const std::uint32_t other = meeting.after(distance);
      contributions.add(other, meeting.slot(other, step, kSlotBytes) + slices.offset(meeting.rank()), own.size());
    }
    contributions.combine_into(result, combine, done + slices.offset(meeting.rank()));

    // All have arrived in `step`, so they have read what was in this slot.
    meeting.copy_in(meeting.own_slot(step + 1, kSlotBytes), result);
    meeting.arrive(step + 1);
    if (root.value_or(meeting.rank()) == meeting.rank()) {
      const std::span<std::byte> all(into + done, chunk.size());
      copy_own(slices.of(all, meeting.rank()), result.data());
      for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
        const std::uint32_t other = meeting.after(distance);
        if (!meeting.wait_arrived(other, step + 1)) return Outcome::ended;
        copy_out(slices.of(all, other), meeting.slot(other, step + 1, kSlotBytes));
      }
    }
    meeting.leave(step + 1);
  }
  return Outcome::done;
}

}  // namespace outrigger::intranode
