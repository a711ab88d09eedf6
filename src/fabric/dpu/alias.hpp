// Ranks' memory that the network card treats as this DPU's own: exported by the rank and imported here. Bytes that are
// read from one rank then go straight to another, and not through the DPU.
//
// Imports are cached and dropped with the registration they belong to. Ids of ranges are never reused, so freed memory
// is never found; a user of an import holds it.
//
// Thread rule: one thread.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>

#include "protocol/ids.hpp"

namespace outrigger::fabric::dpu {

// Imports exported handles: UCX, or a test's.
class Importer {
 public:
  Importer() = default;
  Importer(const Importer&) = delete;
  Importer& operator=(const Importer&) = delete;
  virtual ~Importer() = default;
  // nullptr if refused.
  [[nodiscard]] virtual ucp_mem_h import(std::span<const std::byte> exported) = 0;
  virtual void release(ucp_mem_h memory) = 0;
};

class UcxImporter final : public Importer {
 public:
  explicit UcxImporter(ucp_context_h context) : context_(context) {}
  // The context is about to be destroyed, and all imports with it.
  void close() { context_ = nullptr; }
  [[nodiscard]] ucp_mem_h import(std::span<const std::byte> exported) override;
  void release(ucp_mem_h memory) override;

 private:
  ucp_context_h context_;
};

// True if memory can be exported in this context; importers need that too. Tries it on a page.
[[nodiscard]] bool exports_memory(ucp_context_h context);

class ImportedMemory {
 public:
  ImportedMemory(std::shared_ptr<Importer> importer, ucp_mem_h memory)
      : importer_(std::move(importer)), memory_(memory) {}
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;
  ~ImportedMemory() { importer_->release(memory_); }
  [[nodiscard]] ucp_mem_h get() const { return memory_; }

 private:
  std::shared_ptr<Importer> importer_;
  ucp_mem_h memory_;
};
using ImportedPtr = std::shared_ptr<const ImportedMemory>;

// nullptr if refused.
[[nodiscard]] ImportedPtr import_memory(const std::shared_ptr<Importer>& importer, std::span<const std::byte> exported);

class ImportCache {
 public:
  // Ranges of all ranks. At the limit the least recently used one is dropped; nullptr if all are in use.
  static constexpr std::size_t kMost = 1024;

  struct Exported {
    WorldRank rank;
    RegionId region;
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    std::span<const std::byte> handle;
  };

  explicit ImportCache(std::shared_ptr<Importer> importer, std::size_t most = kMost)
      : importer_(std::move(importer)), most_(most) {}

  // nullptr if the range is refused now or earlier, not exported, or overlaps one in use (UCX treats overlapping ranges
  // as one).
  [[nodiscard]] ImportedPtr use(const Exported& exported);
  // Reads into it have failed: do not use it again.
  void refuse(WorldRank rank, RegionId region);
  // Its registration is gone.
  void forget(WorldRank rank, RegionId region);
  void forget(WorldRank rank);

  // For tests.
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    WorldRank rank;
    RegionId region;
    std::uint64_t base;
    std::uint64_t bytes;
    ImportedPtr memory;  // nullptr if refused
  };
  using Entries = std::list<Entry>;  // the most recently used first
  [[nodiscard]] static std::uint64_t name_of(WorldRank rank, RegionId region) {
    return std::uint64_t{rank.value()} << 32U | region.value();
  }
  [[nodiscard]] static bool in_use(const Entry& entry) { return entry.memory.use_count() > 1; }
  Entries::iterator drop(Entries::iterator entry);
  // False: an overlapping range is in use.
  [[nodiscard]] bool drop_overlapping(const Exported& exported);
  [[nodiscard]] bool make_room();

  std::shared_ptr<Importer> importer_;
  std::size_t most_;
  Entries entries_;
  std::unordered_map<std::uint64_t, Entries::iterator> by_name_;
};

}  // namespace outrigger::fabric::dpu
