#include "fabric/dpu/rank_lender.hpp"

#include <cassert>
#include <cstddef>
#include <cstring>
#include <utility>

namespace outrigger::fabric::dpu {
namespace {

constexpr std::size_t kCountsBytes = 64;
static_assert(offsetof(CopyQueue, taken) % kCountsBytes == 0 && offsetof(CopyQueue, recalled) < kCountsBytes);
static_assert(offsetof(CopyQueue, hands) - offsetof(CopyQueue, taken) < kCountsBytes);
static_assert(offsetof(CopyQueue, copier_holds) - offsetof(CopyQueue, taken) < kCountsBytes);

std::uint32_t word_of(std::span<const std::byte> line, std::size_t offset) {
  std::uint32_t word = 0;
  std::memcpy(&word, line.data() + (offset - offsetof(CopyQueue, taken)), sizeof(word));
  return word;
}

}  // namespace

void RankLender::saw(copy::Offer offer, std::uint32_t turns) {
  seen_ = offer;
  turns_ = turns;
  if (offer == copy::Offer::none || turns != turns_when_distrusted_) distrusted_ = false;
}

void RankLender::distrust() {
  distrusted_ = true;
  turns_when_distrusted_ = turns_;
}

copy::Offer RankLender::offer() const {
  const bool room = pending() < kCopyJobs && lent_bytes_ < copy::kMostBytesLent;
  return helps() && !lost_ && recall_ == Recall::none && room ? seen_ : copy::Offer::none;
}

void RankLender::give(const CopyJob& copy_job, const Part& part) {
  assert(lends() && "only lenders get jobs");
  const std::uint32_t number = end_++;
  job(number) = Job{part, false};
  lent_bytes_ += part.bytes;
  progressed_ = true;
  queue().job(number) = copy_job;
  queue().result(number).store(static_cast<std::uint32_t>(CopyResult::none), std::memory_order_relaxed);
  remote_.store(&queue().job(number), sizeof(CopyJob), [](bool /*ok*/) {});
  remote_.store(&queue().result(number), sizeof(std::uint32_t), [](bool /*ok*/) {});
}

void RankLender::recall() {
  if (recall_ == Recall::none) recall_ = Recall::wanted;
}

void RankLender::step(Clock::time_point now, bool card_is_free) {
  if (lost_) return;
  if (std::exchange(progressed_, false)) last_progress_ = now;
  if (recall_ == Recall::none && pending() != 0) {
    if (now - last_progress_ > (card_is_free ? kPatience : kPatienceOfBusyCard)) distrust();
    if (!helps()) recall();
  }
  if (publishing_) return;  // one write of the counts at a time: a later one must not be overtaken
  switch (recall_) {
    case Recall::none:
      if (placed_ != end_) publish();
      return collect();
    case Recall::wanted: return begin_recall();
    case Recall::on_its_way: return;
    case Recall::in_place: return look_at_hands();
  }
}

// ---------------------------------------------------------------- giving and collecting

void RankLender::write_counts(SegmentAccess::Done done) {
  remote_.store(&queue(), kCountsBytes, [](bool /*ok*/) {});
  remote_.when_flushed(std::move(done));
}

// The rank sees the count once the jobs are in place.
void RankLender::publish() {
  publishing_ = true;
  remote_.when_flushed([this, placed = end_, alive = std::weak_ptr(alive_)](bool ok) {
    if (alive.expired()) return;
    if (!ok) return lost();
    placed_ = placed;
    queue().given.store(placed, std::memory_order_relaxed);
    queue().asked.store(placed, std::memory_order_relaxed);
    queue().recalled.store(collected_, std::memory_order_relaxed);  // never far behind `taken`
    write_counts([this, alive](bool written) {
      if (alive.expired()) return;
      publishing_ = false;
      if (!written) lost();
    });
  });
}

void RankLender::read_results(const std::function<void(const Results&)>& then) {
  reading_ = true;
  remote_.look_at(&queue().results, sizeof(Results),
                  [this, then, alive = std::weak_ptr(alive_)](std::span<const std::byte> bytes) {
                    if (alive.expired()) return;
                    reading_ = false;
                    Results results{};
                    if (bytes.size() != sizeof(results)) return lost();
                    std::memcpy(results.data(), bytes.data(), sizeof(results));
                    then(results);
                  });
}

// Only results of jobs that were in place before the read: the others are of earlier jobs.
void RankLender::collect() {
  if (reading_ || collected_ == placed_) return;
  read_results([this, placed = placed_](const Results& results) {
    for (std::uint32_t number = collected_; is_below(number, placed); ++number) {
      const std::uint32_t result = results[number % kCopyJobs];
      if (result != 0 && !job(number).ended) end(number, static_cast<CopyResult>(result));
    }
  });
}

void RankLender::end(std::uint32_t number, CopyResult result) {
  Job& ended = job(number);
  ended.ended = true;
  lent_bytes_ -= ended.part.bytes;
  progressed_ = true;
  const Part part = ended.part;
  while (collected_ != end_ && job(collected_).ended) ++collected_;
  // Gone: also where the numbers of processes have another meaning.
  if (result == CopyResult::unreachable || result == CopyResult::gone) unable_ = true;
  ended_(part, result == CopyResult::copied);
}

// ---------------------------------------------------------------- taking back

// Jobs that were never visible end at once; their numbers are not used again.
void RankLender::begin_recall() {
  const std::uint32_t visible = std::exchange(placed_, end_);
  queue().recalled.store(end_, std::memory_order_relaxed);
  recall_ = Recall::on_its_way;
  write_counts([this, alive = std::weak_ptr(alive_)](bool ok) {
    if (alive.expired()) return;
    if (!ok) return lost();
    recall_ = Recall::in_place;
  });
  for (std::uint32_t number = visible; number != placed_; ++number) end(number, CopyResult::returned);
}

// First the counts, then the results: a result is written before `hands` decreases.
void RankLender::look_at_hands() {
  if (reading_) return;
  reading_ = true;
  remote_.look_at(&queue().taken, kCountsBytes, [this, alive = std::weak_ptr(alive_)](std::span<const std::byte> line) {
    if (alive.expired()) return;
    reading_ = false;
    if (line.size() != kCountsBytes) return lost();
    const std::uint32_t living =
        living_hands(word_of(line, offsetof(CopyQueue, hands)), word_of(line, offsetof(CopyQueue, copier_holds)));
    const Hands hands{word_of(line, offsetof(CopyQueue, taken)), living};
    read_results([this, hands](const Results& results) { settle(hands, results); });
  });
}

void RankLender::settle(const Hands& hands, const Results& results) {
  for (std::uint32_t number = collected_; number != end_; ++number) {
    if (job(number).ended) continue;
    const std::uint32_t result = results[number % kCopyJobs];
    const bool nobody_copies = hands.hands == 0 || !is_below(number, hands.taken);
    if (result != 0 || nobody_copies) end(number, static_cast<CopyResult>(result));
  }
  if (pending() == 0 && hands.hands == 0) over();
}

// A taker that has written its result late can do no harm any more.
void RankLender::over() {
  recall_ = Recall::none;
  if (taken_over_) std::exchange(taken_over_, nullptr)(true);
}

void RankLender::lost() {
  lost_ = true;
  abandon();
  if (taken_over_) std::exchange(taken_over_, nullptr)(false);
}

void RankLender::abandon() {
  lost_ = true;
  for (std::uint32_t number = collected_; number != end_; ++number) {
    if (!job(number).ended) end(number, CopyResult::returned);
  }
}

void RankLender::take_over(SegmentAccess::Done done) {
  taken_over_ = std::move(done);
  remote_.fetch(&queue(), kCountsBytes, [this, alive = std::weak_ptr(alive_)](bool ok) {
    if (alive.expired()) return;
    if (!ok) return lost();
    collected_ = placed_ = end_ = queue().given.load(std::memory_order_relaxed);
    recall();
  });
}

}  // namespace outrigger::fabric::dpu
