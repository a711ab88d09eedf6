#include "mpi/start/agreement.hpp"

#include <sched.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <deque>
#include <type_traits>

#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"
#include "protocol/segment.hpp"

namespace outrigger::mpi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTagBelowUpperBound = 4099;  // the reserved tag, counted from the largest one

// Plain bytes on the wire. The same struct goes up (a vote) and down (the decision).
struct Vote {
  std::uint64_t magic = kSegmentMagic;
  std::uint64_t digest = 0;
  std::uint32_t protocol = kProtocolVersion;
  std::uint32_t willing = 1;
  std::array<char, 232> reason{};
};
static_assert(std::is_trivially_copyable_v<Vote>);

void refuse(Vote& vote, const char* reason) {
  if (vote.willing == 0) return;  // the first reason is kept
  vote.willing = 0;
  std::snprintf(vote.reason.data(), vote.reason.size(), "%s", reason);
}

int reserved_tag() {
  void* value = nullptr;
  int found = 0;
  real().Comm_get_attr(constants().comm_world, MPI_TAG_UB, &value, &found);
  return (found != 0 ? *static_cast<int*>(value) : 32767) - kTagBelowUpperBound;
}

// False: the time is over; the request is then still active.
bool finish(MPI_Request& request, Clock::time_point deadline) {
  int done = 0;
  while (true) {
    real().Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) return true;
    if (Clock::now() >= deadline) return false;
    sched_yield();
  }
}

class Tree {
 public:
  Tree() : tag_(reserved_tag()) {
    real().Comm_rank(constants().comm_world, &rank_);
    real().Comm_size(constants().comm_world, &size_);
  }

  [[nodiscard]] int rank() const { return rank_; }

  // Receives one vote per child into `combined`.
  void gather(Vote& combined, Clock::time_point deadline) {
    for (int bit = 1; is_child_bit(bit); bit <<= 1) {
      Vote vote;
      const int child = rank_ | bit;
      if (!receive(child, vote, deadline)) {
        std::array<char, 200> text{};
        std::snprintf(text.data(), text.size(), "rank %d has not answered in MPI_Init: is the library preloaded there?",
                      child);
        refuse(combined, text.data());
      } else if (vote.magic != combined.magic || vote.protocol != combined.protocol) {
        refuse(combined, "ranks have different versions of the library");
      } else if (vote.willing == 0) {
        refuse(combined, vote.reason.data());
      } else if (vote.digest != combined.digest) {
        refuse(combined, "ranks have different OUTRIGGER_* settings or versions of the library");
      }
    }
  }

  void send_up(const Vote& vote) { send(parent(), vote); }
  bool receive_down(Vote& vote, Clock::time_point deadline) { return receive(parent(), vote, deadline); }
  void send_down(const Vote& vote) {
    for (int bit = 1; is_child_bit(bit); bit <<= 1) send(rank_ | bit, vote);
  }

  // What was sent leaves the buffers; what nobody takes is given up at the deadline.
  void drain(Clock::time_point deadline) {
    for (Sent& sent : sent_) {
      if (!finish(sent.request, deadline)) {
        real().Cancel(&sent.request);
        real().Request_free(&sent.request);
        abandoned_ = true;
      }
    }
    if (abandoned_) new std::deque<Sent>(std::move(sent_));  // the buffers stay: a late receiver may still read them
  }

 private:
  struct Sent {
    Vote vote;
    MPI_Request request{};
  };

  [[nodiscard]] int parent() const { return rank_ & (rank_ - 1); }
  // Children of a rank set one bit below its lowest set bit; rank 0 has one child per bit of the size.
  [[nodiscard]] bool is_child_bit(int bit) const { return (rank_ & bit) == 0 && (rank_ | bit) < size_ && bit > 0; }

  void send(int to, const Vote& vote) {
    Sent& sent = sent_.emplace_back();
    sent.vote = vote;
    real().Isend(&sent.vote, static_cast<int>(sizeof(Vote)), constants().byte, to, tag_, constants().comm_world,
                 &sent.request);
  }

  bool receive(int from, Vote& vote, Clock::time_point deadline) {
    MPI_Request request{};
    real().Irecv(&vote, static_cast<int>(sizeof(Vote)), constants().byte, from, tag_, constants().comm_world, &request);
    if (finish(request, deadline)) return true;
    real().Cancel(&request);
    int done = 0;
    while (done == 0) real().Test(&request, &done, MPI_STATUS_IGNORE);  // a cancelled receive ends at once
    return false;
  }

  int tag_;
  int rank_ = 0;
  int size_ = 0;
  bool abandoned_ = false;
  std::deque<Sent> sent_;  // stable addresses
};

}  // namespace

Agreement agree_at_init(std::uint64_t digest, const std::string& reason, std::uint32_t timeout_ms) {
  const auto limit = std::chrono::milliseconds(timeout_ms);
  const Clock::time_point start = Clock::now();
  Tree tree;
  Vote vote;
  vote.digest = digest;
  if (!reason.empty()) refuse(vote, reason.c_str());
  tree.gather(vote, start + limit);
  bool speaks = tree.rank() == 0;
  if (tree.rank() != 0) {
    tree.send_up(vote);
    Vote decision;
    if (tree.receive_down(decision, start + limit + limit / 2)) {
      vote = decision;
    } else {
      refuse(vote, "rank 0 has not answered in MPI_Init: is the library preloaded there?");
      speaks = tree.rank() == 1;
    }
  }
  tree.send_down(vote);
  tree.drain(Clock::now() + std::chrono::milliseconds(2000));
  return Agreement{vote.willing != 0, speaks, std::string(vote.reason.data())};
}

}  // namespace outrigger::mpi
