// A rank of the host that copies for this service process, while it waits or by a copier on a spare core. The job queue
// in its control segment (copy/copy_queue.hpp) is read and written over the network:
//
//   give     jobs and empty results, in place -> `given`
//   collect  results are read as long as there are jobs
//   recall   `recalled`, in place -> `taken` and `hands` are read -> results are read
//
// A recalled job without a result was not copied if no thread took it, or if none has a job in hand. A job in hand is
// waited for. All jobs are recalled if no thread of the rank would copy any more, or takes any for a while.
//
// Nothing that the rank writes there is trusted: numbers are kept here. A rank that reports false results harms only
// its own program.
//
// Thread rule: one thread. May be destroyed while its operations are in flight.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "copy/copy_queue.hpp"
#include "copy/policy.hpp"
#include "fabric/dpu/segment_access.hpp"

namespace outrigger::fabric::dpu {

class RankLender {
 public:
  using Clock = std::chrono::steady_clock;

  // Jobs are recalled if none has ended for this time: the rank is stopped, or has no core. The longer time is for a
  // card that has enough to do without them.
  static constexpr std::chrono::milliseconds kPatience{2};
  static constexpr std::chrono::milliseconds kPatienceOfBusyCard{20};

  // A part of a move between two ranks.
  struct Part {
    std::uint64_t move = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  // `ended`: called once for each given part, never from give(). Its bytes are in place if it was copied, and are not
  // written any more if not.
  using Ended = std::function<void(const Part& part, bool copied)>;

  // `remote` must outlive this.
  RankLender(SegmentAccess& remote, Ended ended) : remote_(remote), ended_(std::move(ended)) {}
  RankLender(const RankLender&) = delete;
  RankLender& operator=(const RankLender&) = delete;

  // From the rank's line: the threads that would copy, and the turns they have taken (SegmentHeader::rank_lends_turns).
  void saw(copy::Offer offer, std::uint32_t turns);
  // It waits, and copies what it is given, or has enough.
  [[nodiscard]] bool waits() const {
    return helps() && !lost_ && recall_ == Recall::none && seen_ == copy::Offer::waiting;
  }
  // It would copy if it waited.
  [[nodiscard]] bool can_help() const { return !unable_ && !lost_; }
  // The threads that give() is for; none: give() must not be called.
  [[nodiscard]] copy::Offer offer() const;
  [[nodiscard]] bool lends() const { return offer() != copy::Offer::none; }
  void give(const CopyJob& job, const Part& part);
  void recall();
  // Does all that is possible now. `card_is_free`: the card would move jobs at once if they were recalled.
  void step(Clock::time_point now, bool card_is_free);
  // step() has nothing to do.
  [[nodiscard]] bool idle() const { return lost_ || (pending() == 0 && recall_ == Recall::none && !taken_over_); }
  // The rank is gone: its parts end without a copy.
  void abandon();

  // For a replacement process: recalls the jobs of the dead one. `done`: none is copied any more. False: the rank's
  // memory is not reached.
  void take_over(SegmentAccess::Done done);

 private:
  enum class Recall : std::uint8_t { none, wanted, on_its_way, in_place };
  struct Job {
    Part part;
    bool ended = true;
  };
  struct Hands {
    std::uint32_t taken = 0;
    std::uint32_t hands = 0;
  };
  using Results = std::array<std::uint32_t, kCopyJobs>;

  [[nodiscard]] CopyQueue& queue() const { return remote_.mirror().header().copies; }
  [[nodiscard]] bool helps() const { return seen_ != copy::Offer::none && !distrusted_ && !unable_; }
  [[nodiscard]] std::uint32_t pending() const { return end_ - collected_; }
  [[nodiscard]] Job& job(std::uint32_t number) { return jobs_[number % kCopyJobs]; }
  void distrust();
  void end(std::uint32_t number, CopyResult result);
  void write_counts(SegmentAccess::Done done);
  void publish();
  void begin_recall();
  void read_results(const std::function<void(const Results&)>& then);
  void collect();
  void look_at_hands();
  void settle(const Hands& hands, const Results& results);
  void over();
  void lost();

  SegmentAccess& remote_;
  Ended ended_;
  copy::Offer seen_ = copy::Offer::none;
  bool distrusted_ = false;  // until it offers nothing, or takes a turn
  std::uint32_t turns_ = 0;
  std::uint32_t turns_when_distrusted_ = 0;
  bool unable_ = false;  // it may not access another rank's process
  bool lost_ = false;    // its memory is not reached any more
  Recall recall_ = Recall::none;
  bool publishing_ = false;
  bool reading_ = false;
  // Modulo 2^32. [collected_, end_) has not all ended; [placed_, end_) is not visible to the rank.
  std::uint32_t collected_ = 0;
  std::uint32_t placed_ = 0;
  std::uint32_t end_ = 0;
  std::uint64_t lent_bytes_ = 0;
  Clock::time_point last_progress_;
  bool progressed_ = false;  // since the last step
  std::array<Job, kCopyJobs> jobs_{};
  SegmentAccess::Done taken_over_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace outrigger::fabric::dpu
