// Reads and writes of a rank's control segment over the network, from and to its mirror (remote_memory.hpp, or a
// test's).
//
// Thread rule: one thread. Callbacks never come from inside these calls.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "protocol/shared/segment.hpp"

namespace outrigger::fabric::dpu {

class SegmentAccess {
 public:
  using Done = std::function<void(bool ok)>;
  // Empty on failure.
  using Came = std::function<void(std::span<const std::byte> bytes)>;

  SegmentAccess() = default;
  SegmentAccess(const SegmentAccess&) = delete;
  SegmentAccess& operator=(const SegmentAccess&) = delete;

  [[nodiscard]] virtual SegmentView mirror() const = 0;
  // Reads or writes a part of the segment, from and to the mirror. `part` points into the mirror.
  virtual void fetch(const void* part, std::size_t bytes, Done done) = 0;
  // Passes the bytes only to `came`.
  virtual void look_at(const void* part, std::size_t bytes, Came came) = 0;
  // Writes the mirror's present contents, which may change at once.
  virtual void store(const void* part, std::size_t bytes, Done done) = 0;
  // After all puts so far; several callers share a flush.
  virtual void when_flushed(Done done) = 0;

 protected:
  ~SegmentAccess() = default;
};

}  // namespace outrigger::fabric::dpu
