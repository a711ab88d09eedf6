// direct: every member reads its slice of all others' vectors, combines it, and writes the result into their buffers.
//
// Source: R. Rabenseifner, "Optimization of Collective Reduction Operations", 2004: reduce-scatter, then allgather;
// with the kernel's copies between processes in place of messages (S. Chakraborty et al., "Contention-Aware
// Kernel-Assisted MPI Collectives for Multi-/Many-Core Systems", 2017).
//
// Source and code (-: ours):
//     members exchange the addresses of their buffers     | `set_word`
//     reduce-scatter: each process gets its slice of all  | slice_reduction.hpp `memory_->read`
//        vectors ...                                      |
//     ... and reduces it                                  | slice_reduction.hpp `combine_->apply`
//     allgather: the results                              | `memory.write`
//     - piece by piece, so that a piece is in the core's  | `pieces_of`
//        cache from the first read to the last write      |
//     - nothing is written to a member whose call has     | `take_piece`, `abandon`
//        failed                                           |
//     - a member could not copy: all know it, and slots   | `tell_lent`, `wait_lent`, `combine_rest`
//        do the rest                                      |
//
// Picture (3 members; ab: slice b of a's vector; b: the result):
//
//     0: addresses ▶ ── reads 10, 20 ── combines 0 ── writes 0 to 1, 2 ── lent ▶ ── waits: lent of 1, 2
//     1: addresses ▶ ── reads 21, 01 ── combines 1 ── writes 1 to 2, 0 ── lent ▶ ── waits: lent of 2, 0
//     2: addresses ▶ ── reads 02, 12 ── combines 2 ── writes 2 to 0, 1 ── lent ▶ ── waits: lent of 0, 1
//
// Team of p, n bytes:
//     cost    n (p - 1) / p read, n combined, n (p - 1) / p written by each; one step, and a flag back from each
//     bounds  kHotBytes, or p times kPieceUnit. A member that is late holds up all others
//
// In place or not: of a slice, only its own member reads the others' vectors, and it does so before it writes there.
#include "intranode/algorithms.hpp"
#include "intranode/direct_steps.hpp"
#include "intranode/slice_reduction.hpp"

namespace outrigger::intranode {
namespace {

// The copies of results between this member and each other one.
class Results {
 public:
  Results(Meeting& meeting, const Blocks& into, std::uint64_t step)
      : meeting_(&meeting), step_(step), own_(into.of(meeting.rank())), own_offset_(0) {
    if (!own_.empty()) own_offset_ = static_cast<std::uint64_t>(own_.data() - into.base);
    for_others([&](std::uint32_t other) {
      begin(taken_[other], meeting.rank(), other, into.of(other).size());
      begin(given_[other], other, meeting.rank(), own_.size());
    });
  }

  void open() {
    for_each(taken_, [](SharedCopy& copy, std::uint32_t /*other*/) { copy.open(); });
  }
  void abandon() {
    for_each(taken_, [](SharedCopy& copy, std::uint32_t /*other*/) { copy.abandon(); });
  }
  [[nodiscard]] bool all_fit() {
    bool fit = true;
    for_each(given_, [&](SharedCopy& copy, std::uint32_t /*other*/) { fit = fit && copy.fits(); });
    return fit;
  }

  // This member's slice, to all. Returns how many bytes it has combined. `complete`: it could copy all.
  [[nodiscard]] std::uint64_t give(SliceReduction& slice, PeerMemory& memory, bool& complete) {
    std::uint64_t done = 0;
    const std::uint64_t most = SliceReduction::piece_bytes(own_.size(), meeting_->size());
    while (done < own_.size() && complete) {
      const std::span<std::byte> result = piece_of(own_, done, most);
      std::array<bool, kMostMembers> takes{};
      for_each(given_, [&](SharedCopy& copy, std::uint32_t other) { takes[other] = copy.take_piece(); });
      complete = slice.combine(done, result);
      if (!complete) break;
      for_each(given_, [&](SharedCopy& /*copy*/, std::uint32_t other) {
        const std::uint64_t to = meeting_->word(other, step_, 1) + own_offset_ + done;
        if (takes[other]) complete = memory.write(other, to, result) && complete;
      });
      done += result.size();
    }
    for_each(given_, [&](SharedCopy& copy, std::uint32_t /*other*/) { copy.tell_lent(complete); });
    return done;
  }
  [[nodiscard]] Outcome wait_lent(bool& complete) {
    Outcome outcome = Outcome::done;
    for_each(taken_, [&](SharedCopy& copy, std::uint32_t /*other*/) {
      if (outcome == Outcome::done) outcome = copy.wait_lent(complete);
    });
    return outcome;
  }

 private:
  using Copies = std::array<std::optional<SharedCopy>, kMostMembers>;

  void begin(std::optional<SharedCopy>& copy, std::uint32_t owner, std::uint32_t lender, std::uint64_t bytes) {
    if (bytes == 0) return;
    copy.emplace(*meeting_, owner, lender, step_, bytes, SliceReduction::pieces_of(bytes, meeting_->size()));
  }
  template <class Act>
  void for_others(const Act& act) const {
    for (std::uint32_t distance = 1; distance < meeting_->size(); ++distance) act(meeting_->after(distance));
  }
  template <class Act>
  void for_each(Copies& copies, const Act& act) const {
    for_others([&](std::uint32_t other) {
      if (copies[other]) act(*copies[other], other);
    });
  }

  Meeting* meeting_;
  std::uint64_t step_;
  std::span<std::byte> own_;
  std::uint64_t own_offset_;  // in the vector
  Copies taken_;
  Copies given_;
};

// By slots: all slices. Contributions to the first `done` bytes of this member's may be overwritten by results.
Outcome combine_rest(Meeting& meeting, const Blocks& from, const Blocks& into, const Combine& combine,
                     std::uint64_t offset, std::uint64_t done) {
  const std::span<std::byte> own = into.of(meeting.rank());
  std::vector<std::byte> contributions(own.size() * meeting.size());
  const Blocks gathered = Blocks::regular(contributions.data(), own.size());
  if (alltoall_slots(meeting, from, gathered, false, {}) != Outcome::done) return Outcome::ended;
  if (done < own.size()) {
    std::array<const std::byte*, kMostMembers> rest{};
    for (std::uint32_t member = 0; member < meeting.size(); ++member) rest[member] = gathered.of(member).data() + done;
    combine.apply(std::span(rest).first(meeting.size()), own.data() + done, combine.elements_in(offset + done),
                  combine.elements_in(own.size() - done));
  }
  return allgather_slots(meeting, own, into);
}

}  // namespace

Outcome allreduce_direct(Meeting& meeting, PeerMemory& memory, std::span<const std::byte> mine, std::byte* into,
                         const Combine& combine, std::vector<std::byte>& scratch) {
  const std::uint64_t elements = combine.elements_in(mine.size());
  const auto start_of = [&](std::uint64_t member) { return elements * member / meeting.size(); };
  const BlockRow slices(meeting.size(), [&](std::uint64_t member) {
    return (start_of(member + 1) - start_of(member)) * combine.element_bytes();
  });
  const Blocks from = slices.at(mine.data());
  const Blocks to = slices.at(into);
  const std::uint64_t step = meeting.begin();
  if (!meeting.wait_slot(step)) return Outcome::ended;
  const std::uint64_t offset = slices.offset(meeting.rank());
  SliceReduction slice(meeting, memory, mine.data() + offset, offset, step, combine, scratch);
  slice.prepare(to.of(meeting.rank()).size());
  Results results(meeting, to, step);
  meeting.set_word(step, address_of(mine.data()), 0);
  meeting.set_word(step, address_of(into), 1);
  results.open();
  meeting.arrive(step);
  bool complete = true;
  std::uint64_t done = 0;
  const bool meet = meeting.wait_all_arrived(step) && results.all_fit();
  if (meet) done = results.give(slice, memory, complete);
  if (!meet || results.wait_lent(complete) != Outcome::done) {
    results.abandon();
    return Outcome::ended;
  }
  meeting.all_left(step);  // who has lent nothing has read nothing
  return complete ? Outcome::done : combine_rest(meeting, from, to, combine, offset, done);
}

}  // namespace outrigger::intranode
