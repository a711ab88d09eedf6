// One rank's memory on the host of this DPU: a connection, the key of its control segment, and the keys of its other
// registrations, from the segment's key table.
//
// The segment has a mirror here with the same layout. Reads copy the rank's part into it; writes change the mirror
// first. So code for mapped segments also works on the mirror.
//
// Thread rule: one thread. May be destroyed while its operations are in flight: callbacks look it up again.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/shared_memory.hpp"
#include "fabric/dpu/rma.hpp"
#include "fabric/dpu/segment_access.hpp"
#include "fabric/node_memory.hpp"
#include "fabric/ucx/worker.hpp"
#include "protocol/shared/segment.hpp"
#include "protocol/wire/rank_address.hpp"

namespace outrigger::fabric::dpu {

// A registered range of the rank's memory.
class RemoteRange {
 public:
  // `exported`: a packed exported handle of the same memory, or empty.
  RemoteRange(RegionId region, std::uint64_t base, std::uint64_t bytes, ucp_rkey_h key,
              std::span<const std::byte> exported)
      : region_(region), base_(base), bytes_(bytes), key_(key), exported_(exported.begin(), exported.end()) {}
  RemoteRange(const RemoteRange&) = delete;
  RemoteRange& operator=(const RemoteRange&) = delete;
  ~RemoteRange() { ucp_rkey_destroy(key_); }

  [[nodiscard]] RegionId region() const { return region_; }
  [[nodiscard]] std::uint64_t base() const { return base_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] ucp_rkey_h key() const { return key_; }
  [[nodiscard]] std::span<const std::byte> exported() const { return exported_; }
  [[nodiscard]] bool holds(std::uint64_t address, std::uint64_t bytes) const {
    const std::uint64_t offset = address - base_;
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }

 private:
  RegionId region_;
  std::uint64_t base_;
  std::uint64_t bytes_;
  ucp_rkey_h key_;
  std::vector<std::byte> exported_;
};
using RemoteRangePtr = std::shared_ptr<const RemoteRange>;

class RemoteMemory final : public SegmentAccess {
 public:
  // `mirror`: has segment_bytes() and must outlive this.
  [[nodiscard]] static Result<std::unique_ptr<RemoteMemory>> connect(Rma& rma, const ucx::Worker& worker,
                                                                     const RankAddress& address, SegmentView mirror);
  // Waiting callbacks are notified that the memory is lost.
  ~RemoteMemory();

  [[nodiscard]] ucp_ep_h endpoint() const { return endpoint_.get(); }
  [[nodiscard]] ucx::Lanes lanes() const { return endpoint_.lanes(); }
  [[nodiscard]] bool broken() const { return broken_; }

  [[nodiscard]] SegmentView mirror() const override { return mirror_; }
  void fetch(const void* part, std::size_t bytes, Done done) override;
  void look_at(const void* part, std::size_t bytes, Came came) override;
  void store(const void* part, std::size_t bytes, Done done) override;
  void when_flushed(Done done) override;

  // Calls back with the range of that id, or nullptr if the rank has none; at once if it is known.
  void with_range(RegionId region, const std::function<void(const RemoteRangePtr&)>& then);
  // Called with the id of a range that has been replaced by another.
  std::function<void(RegionId)> on_replaced;

  // Both spans must stay until `done`, even if this or the rank goes away.
  void get(const MemoryRef& from, std::span<std::byte> to, NodeMemory::Accessed done);
  void put(const MemoryRef& to, std::span<const std::byte> from, NodeMemory::Accessed done);
  // Like get(), into memory of another process that `memory` imports; `to` is an address there.
  void get_into(const MemoryRef& from, std::uint64_t bytes, ucp_mem_h memory, std::uint64_t to,
                NodeMemory::Accessed done);
  // The memory that the rank offers for a trial of exported handles; nullptr if the offer is invalid.
  [[nodiscard]] RemoteRangePtr trial_range(const ExportTrial& trial) const;

 private:
  RemoteMemory(Rma& rma, SegmentView mirror) : rma_(rma), mirror_(mirror) {}
  void fetch_bytes(const void* part, const std::shared_ptr<std::vector<std::byte>>& to, Rma::Done done);
  void load_range(std::uint32_t index);
  void range_loaded(std::uint32_t index, const KeyEntry& entry);
  void flush();
  [[nodiscard]] std::uint64_t address_of(const void* part) const {
    return segment_->base() + static_cast<std::uint64_t>(static_cast<const std::byte*>(part) - mirror_.base());
  }

  struct Waiting {
    RegionId region;
    std::function<void(const RemoteRangePtr&)> then;
    bool again = false;  // another one was found, whose key may have been read too early
  };
  Rma& rma_;
  SegmentView mirror_;
  bool broken_ = false;
  ucx::Endpoint endpoint_;
  RemoteRangePtr segment_;
  std::unordered_map<std::uint32_t, RemoteRangePtr> ranges_;  // by index in the key table
  std::unordered_map<std::uint32_t, std::vector<Waiting>> loading_;
  std::vector<Rma::Done> awaiting_flush_;
  bool flushing_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace outrigger::fabric::dpu
