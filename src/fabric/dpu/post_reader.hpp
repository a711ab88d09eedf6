// Reads a rank's posts from its segment into the mirror without the rank's help:
//
//   the rank's line of the header -> ring entries -> slots -> their arguments, and the keys of the memory they name
//
// Only then it advances the mirror's ring tail, so the mirror is complete for each visible post. Invalid posts are
// passed on: the receiver rejects them.
//
// Thread rule: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "copy/policy.hpp"
#include "fabric/dpu/remote_memory.hpp"
#include "fabric/host/host_fabric.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::fabric::dpu {

class PostReader {
 public:
  // Posts of one batch, before the rank's line is read again.
  static constexpr std::uint32_t kMostAtOnce = 64;

  // Both must outlive the reader; `node` has the rank's mirror. `from_start`: reads posts at once, else from resume()
  // on.
  PostReader(RemoteMemory& remote, HostFabric& node, WorldRank rank, std::uint32_t world_size, bool from_start);

  // For a replacement process: these slots were posted before `tail` and are not done. Reads their arguments and
  // delivered marks, then calls `done`.
  void resume(std::uint32_t tail, std::vector<SlotIndex> slots, Rma::Done done);

  // Reads the rank's line, unless a read is in flight.
  void poll();
  // Calls back after the end of a poll that begins after this call.
  void after_next_poll(Rma::Done looked) { (polling_ ? looked_later_ : looked_).push_back(std::move(looked)); }

  [[nodiscard]] bool reads() const { return batch_ != nullptr; }
  // All posts that the rank's line has shown are in the mirror.
  [[nodiscard]] bool caught_up() const { return !batch_ && seen_tail_ == fetched_; }
  [[nodiscard]] std::uint32_t quiet() const { return quiet_; }
  // Threads of the rank that would copy, when its line was read last.
  [[nodiscard]] copy::Offer offer() const { return offer_; }
  // Turns of its threads until then.
  [[nodiscard]] std::uint32_t turns() const { return turns_; }

 private:
  struct alignas(64) Line {
    std::uint32_t ring_tail = 0;
    std::uint32_t rank_sleeping = 0;
    std::uint64_t rank_base_address = 0;
    std::uint32_t rank_quiet = 0;
    std::array<std::uint32_t, 6> others{};
    std::uint32_t rank_lends = 0;
    std::uint32_t rank_lends_turns = 0;
    std::uint32_t copier_lends = 0;
  };
  // The reads in flight of a batch; the end of the last one publishes it.
  struct Batch {
    PostReader* reader;
    std::uint32_t posts;
    bool failed = false;
    std::vector<SlotIndex> slots;
    Rma::Done resumed{};  // of resume()
  };
  using BatchPtr = std::shared_ptr<Batch>;

  void line_came(const Line& line, bool for_posts);
  void read_ring();
  void read_slots(const BatchPtr& batch);
  void read_arguments(const BatchPtr& batch);
  void read_arguments_of(const BatchPtr& batch, const SlotRequestBody& body);
  void read_array(const BatchPtr& batch, LocalRef ref, std::uint64_t bytes, bool zeroed);
  void know_range(const BatchPtr& batch, LocalRef ref);
  void arguments_came(const BatchPtr& batch);
  void publish(std::uint32_t posts);

  RemoteMemory& remote_;
  HostFabric& node_;
  WorldRank rank_;
  std::uint32_t world_size_;
  bool reads_posts_;
  bool polling_ = false;
  std::uint32_t seen_tail_ = 0;
  std::uint32_t fetched_ = 0;
  std::uint32_t quiet_ = 0;
  copy::Offer offer_ = copy::Offer::none;
  std::uint32_t turns_ = 0;
  BatchPtr batch_;
  std::shared_ptr<void> stage_;          // while a stage is in flight
  std::vector<Rma::Done> looked_;        // to be called after the poll in flight or the next one
  std::vector<Rma::Done> looked_later_;  // after the poll that follows
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace outrigger::fabric::dpu
