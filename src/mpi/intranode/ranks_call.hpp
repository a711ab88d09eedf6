// One blocking collective of the program: natively, or by the ranks of its communicator.
//
//     RanksCall call(job, collective, words, large, team, again);
//     if (call.by_ranks()) {
//       if (const std::optional<int> code = call.perform()) return *code;
//     }
//     ... native call ...
//     call.ended();
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "mpi/intranode/rank_team.hpp"
#include "mpi/native/real.hpp"
#include "protocol/collective_calls.hpp"
#include "report/native_reason.hpp"

namespace outrigger::mpi {

struct Job;

// A call's words beside those of the last call of that collective on the communicator.
enum class Likeness : std::uint8_t {
  none,
  moved,  // the same but for buffers, which are ordinary ones
  same,
};

[[nodiscard]] inline bool is_in_place(Word buffer) {
  return buffer == reinterpret_cast<Word>(MPI_IN_PLACE);
}
// Buffers that no call of the library gives a meaning.
[[nodiscard]] inline bool is_ordinary(Word buffer) {
  return buffer != 0 && !is_in_place(buffer);
}

// The last call again with moved buffers: takes these over. False: it needs another look.
[[nodiscard]] bool takes_over(RankTeam::LastCall& last, std::span<const Word> words, std::uint32_t me);

class RanksCall {
 public:
  // `words`: the call's arguments; `team`: its communicator's, or nullptr; `again`: the call is the last one of its
  // collective on the communicator, whose buffers are taken over. Comes to the same on all ranks.
  RanksCall(Job& job, CollectiveCall call, std::span<const Word> words, bool large_counts, RankTeam* team, bool again);

  [[nodiscard]] bool by_ranks() const { return failed_ || turn_.way == steer::Way::ranks; }
  // Returns the call's MPI error code. Nothing: the call remains to be done natively, by all ranks. Buffers have what
  // the program gave.
  [[nodiscard]] std::optional<int> perform();
  // The native call has returned.
  void ended() {
    if (turn_.timed) [[unlikely]]
      note_time();
    if (native_ != report::NativeReason::none) [[unlikely]]
      note_reason();
  }

 private:
  void look_at(RankTeam::LastCall& last);
  void keep(RankTeam::LastCall& last, std::span<const Word> words, bool repeats) const;
  void find_plain(RankTeam::LastCall& last) const;
  [[nodiscard]] bool keep_blocks(RankTeam::LastCall& last) const;
  void begin(const RankTeam::LastCall& last);
  void choose(RankTeam::LastCall& last);
  [[nodiscard]] bool has_order(RankTeam::LastCall& last);
  void note_time();
  void note_reason() const;

  Job& job_;
  CollectiveCall call_;
  MPI_Comm comm_{};
  bool failed_ = false;
  RankTeam* team_;
  const TeamArguments* arguments_ = nullptr;
  RankTeam::Kind* kind_ = nullptr;
  intranode::OrderTable::Entry* entry_ = nullptr;  // of the MPI's order, if it matters
  report::NativeReason native_ = report::NativeReason::none;
  steer::TurnsTrial::Turn turn_;
  std::int64_t began_ns_ = 0;
};

}  // namespace outrigger::mpi
