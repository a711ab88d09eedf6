// Trials of a communicator's calls (protocol/choice.hpp): which ways are tried, and what is chosen by what ranks have
// measured. How all ranks get to know of both is CourseChanges's.
//
//     group's first rank     its service process, the leader         others
//       asks for a trial ------>  a change: the trial begins  ----------> (course_changes.hpp)
//       ... calls, in two ways by turns ...
//     ranks ------> times        sums  <------- measured {times} --------  sums <------ ranks
//                                a change: the better way is chosen  ---->
//
// Where the first rank sees that the other way takes many times as long, it says so, and the trial ends for the usual
// way, which is another change.
//
// A message from each service process a trial.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/core/context.hpp"
#include "engine/core/course_changes.hpp"
#include "engine/core/group_table.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine {

class ChoiceTrials {
 public:
  ChoiceTrials(Context& context, GroupTable& groups, CourseChanges& changes)
      : context_(context), groups_(groups), changes_(changes) {}

  // As Engine says.
  void ask(WorldRank rank, GroupId id, const TrialRequest& request);
  void recall(WorldRank rank, GroupId id, const Choice& choice);
  void give_up(WorldRank rank, GroupId id, std::uint16_t trial);
  void measured(WorldRank rank, GroupId id, std::uint16_t trial, const TrialTimes& times);

  void on_measured(SpId from, const OperationId& id, const peer::Measured& measured);

 private:
  // Where this service process leads it and the rank is its first; else null.
  [[nodiscard]] Group* led_for(WorldRank rank, GroupId id) const;
  void add(Group& group, SpId from, const peer::Measured& measured);
  void conclude(Group& group, std::optional<Way> better);

  Context& context_;
  GroupTable& groups_;
  CourseChanges& changes_;
};

}  // namespace outrigger::engine
