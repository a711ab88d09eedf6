#include "fabric/dpu/remote_memory.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "protocol/shared/exported_memory.hpp"

namespace outrigger::fabric::dpu {
namespace {

// UCX may read past the end of a key with a wrong length: it finds zeros there.
constexpr std::size_t kPaddedKeyBytes = 4096;

ucp_rkey_h unpack(ucp_ep_h endpoint, std::span<const std::byte> packed) {
  std::array<std::byte, kPaddedKeyBytes> padded{};
  if (packed.empty() || packed.size() > padded.size() / 2) return nullptr;
  std::ranges::copy(packed, padded.begin());
  ucp_rkey_h key = nullptr;
  return ucp_ep_rkey_unpack(endpoint, padded.data(), &key) == UCS_OK ? key : nullptr;
}

}  // namespace

Result<std::unique_ptr<RemoteMemory>> RemoteMemory::connect(Rma& rma, const ucx::Worker& worker,
                                                            const RankAddress& address, SegmentView mirror) {
  std::unique_ptr<RemoteMemory> memory(new RemoteMemory(rma, mirror));
  const bool here = address.machine != 0 && address.machine == this_machine();
  const auto peer = here ? ucx::Endpoint::Peer::same_machine : ucx::Endpoint::Peer::watched;
  Result<ucx::Endpoint> endpoint = ucx::Endpoint::open(worker, address.worker, memory->broken_, peer);
  if (!endpoint) return Error{endpoint.error()};
  memory->endpoint_ = std::move(endpoint).value();
  ucp_rkey_h key = unpack(memory->endpoint(), address.segment_key);
  if (key == nullptr) return Error{"the memory key of a rank's segment is invalid"};
  memory->segment_ = std::make_shared<const RemoteRange>(kArenaRegion, address.segment_base,
                                                         SegmentView::segment_bytes(), key, std::span<std::byte>());
  return memory;
}

RemoteMemory::~RemoteMemory() {
  alive_.reset();
  for (auto& [index, waiting] : std::exchange(loading_, {})) {
    for (const Waiting& one : waiting) one.then(nullptr);
  }
  for (Rma::Done& done : awaiting_flush_) rma_.later([done = std::move(done)] { done(false); });
}

// A read may end after this and the mirror are gone: closing a connection does not always cancel reads in UCX. So the
// buffer and the key live until the read ends.
void RemoteMemory::fetch_bytes(const void* part, const std::shared_ptr<std::vector<std::byte>>& to, Rma::Done done) {
  rma_.get(endpoint(), address_of(part), segment_->key(), *to,
           [to, segment = segment_, done = std::move(done)](bool ok) { done(ok); });
}

void RemoteMemory::fetch(const void* part, std::size_t bytes, Done done) {
  const auto came = std::make_shared<std::vector<std::byte>>(bytes);
  auto* to = const_cast<std::byte*>(static_cast<const std::byte*>(part));
  fetch_bytes(part, came, [to, came, done = std::move(done), alive = std::weak_ptr(alive_)](bool ok) {
    const bool copies = ok && !alive.expired();
    if (copies) std::ranges::copy(*came, to);
    done(copies);
  });
}

void RemoteMemory::look_at(const void* part, std::size_t bytes, Came came) {
  const auto room = std::make_shared<std::vector<std::byte>>(bytes);
  fetch_bytes(part, room, [room, came = std::move(came)](bool ok) {
    came(ok ? std::span<const std::byte>(*room) : std::span<const std::byte>());
  });
}

// This is a copy because networks read put data late. The rank must not see a count before the completions that it
// counts: it would not look again until the next change.
void RemoteMemory::store(const void* part, std::size_t bytes, Done done) {
  const auto* first = static_cast<const std::byte*>(part);
  const auto copy = std::make_shared<const std::vector<std::byte>>(first, first + bytes);
  rma_.put(endpoint(), address_of(part), segment_->key(), *copy,
           [copy, segment = segment_, done = std::move(done)](bool ok) { done(ok); });
}

void RemoteMemory::when_flushed(Done done) {
  awaiting_flush_.push_back(std::move(done));
  if (!std::exchange(flushing_, true)) {
    // In the next turn, so that all puts of this turn share the flush.
    rma_.later([this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) flush();
    });
  }
}

void RemoteMemory::flush() {
  auto waiting = std::make_shared<std::vector<Rma::Done>>(std::exchange(awaiting_flush_, {}));
  rma_.flush(endpoint(), [this, waiting, alive = std::weak_ptr(alive_)](bool ok) {
    if (!alive.expired()) {
      if (awaiting_flush_.empty()) {
        flushing_ = false;
      } else {
        flush();
      }
    }
    for (const Rma::Done& done : *waiting) done(ok);
  });
}

void RemoteMemory::with_range(RegionId region, const std::function<void(const RemoteRangePtr&)>& then) {
  if (region == kArenaRegion) return then(segment_);
  if (!is_keyed(region)) return then(nullptr);
  const std::uint32_t index = key_index(region);
  const auto known = ranges_.find(index);
  if (known != ranges_.end() && known->second->region() == region) return then(known->second);
  std::vector<Waiting>& waiting = loading_[index];
  waiting.push_back(Waiting{region, then});
  if (waiting.size() == 1) load_range(index);
}

void RemoteMemory::load_range(std::uint32_t index) {
  const auto came = [this, index, alive = std::weak_ptr(alive_)](std::span<const std::byte> bytes) {
    if (alive.expired()) return;
    KeyEntry entry;  // of no region
    if (bytes.size() == sizeof(entry)) std::memcpy(&entry, bytes.data(), sizeof(entry));
    range_loaded(index, entry);
  };
  look_at(&mirror_.key(index), sizeof(KeyEntry), came);
}

void RemoteMemory::range_loaded(std::uint32_t index, const KeyEntry& entry) {
  const RegionId id{entry.region};
  RemoteRangePtr range;
  const std::optional<PackedKeys> keys = keys_of(entry);
  if (is_keyed(id) && key_index(id) == index && keys && entry.bytes <= ~entry.base) {
    ucp_rkey_h key = unpack(endpoint(), keys->key);
    if (key != nullptr) range = std::make_shared<const RemoteRange>(id, entry.base, entry.bytes, key, keys->exported);
  }
  if (range) {
    const auto before = ranges_.find(index);
    if (before != ranges_.end() && on_replaced) on_replaced(before->second->region());
    ranges_[index] = range;
  }
  std::vector<Waiting> again;
  for (Waiting& waiting : std::exchange(loading_[index], {})) {
    const bool found = range && range->region() == waiting.region;
    if (!found && !std::exchange(waiting.again, true)) {
      again.push_back(std::move(waiting));
    } else {
      waiting.then(found ? range : nullptr);
    }
  }
  if (again.empty()) return;
  std::vector<Waiting>& waiting = loading_[index];
  const bool loads = !waiting.empty();
  std::ranges::move(again, std::back_inserter(waiting));
  if (!loads) load_range(index);
}

void RemoteMemory::get(const MemoryRef& from, std::span<std::byte> to, NodeMemory::Accessed done) {
  with_range(from.region, [this, from, to, done = std::move(done)](const RemoteRangePtr& range) {
    if (!range || !range->holds(from.address, to.size())) {
      return rma_.later([done] { done(MoveStatus::memory_fault); });
    }
    rma_.get(endpoint(), from.address, range->key(), to,
             [done, range](bool ok) { done(ok ? MoveStatus::ok : MoveStatus::owner_lost); });
  });
}

void RemoteMemory::get_into(const MemoryRef& from, std::uint64_t bytes, ucp_mem_h memory, std::uint64_t to,
                            NodeMemory::Accessed done) {
  with_range(from.region, [this, from, bytes, memory, to, done = std::move(done)](const RemoteRangePtr& range) {
    if (!range || !range->holds(from.address, bytes)) {
      return rma_.later([done] { done(MoveStatus::memory_fault); });
    }
    rma_.get_into(endpoint(), from.address, range->key(), memory, to, bytes,
                  [done, range](bool ok) { done(ok ? MoveStatus::ok : MoveStatus::owner_lost); });
  });
}

RemoteRangePtr RemoteMemory::trial_range(const ExportTrial& trial) const {
  if (trial.exported.empty() || kExportTrialBytes > ~trial.base) return nullptr;
  ucp_rkey_h key = unpack(endpoint(), trial.key);
  if (key == nullptr) return nullptr;
  return std::make_shared<const RemoteRange>(RegionId(), trial.base, kExportTrialBytes, key, trial.exported);
}

void RemoteMemory::put(const MemoryRef& to, std::span<const std::byte> from, NodeMemory::Accessed done) {
  with_range(to.region, [this, to, from, done = std::move(done)](const RemoteRangePtr& range) {
    if (!range || !range->holds(to.address, from.size())) {
      return rma_.later([done] { done(MoveStatus::memory_fault); });
    }
    rma_.put(endpoint(), to.address, range->key(), from, [this, done, range, alive = std::weak_ptr(alive_)](bool ok) {
      if (!ok || alive.expired()) return done(MoveStatus::owner_lost);
      when_flushed([done](bool flushed) { done(flushed ? MoveStatus::ok : MoveStatus::owner_lost); });
    });
  });
}

}  // namespace outrigger::fabric::dpu
