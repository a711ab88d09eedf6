// Bytes to and from another member, in order: through shared memory, or between nodes. Nothing waits.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <span>

namespace outrigger::group {

class Stream {
 public:
  Stream() = default;
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Takes as many bytes of `head`, and then of `body`, as there is room for now. Returns how many.
  [[nodiscard]] virtual std::size_t write(std::span<const std::byte> head, std::span<const std::byte> body) = 0;
  // Fills `head`, and then `body`, with what has come. Returns how many bytes.
  [[nodiscard]] virtual std::size_t read(std::span<std::byte> head, std::span<std::byte> body) = 0;
  // Nothing more will be read or written, and what is on its way need not arrive.
  virtual void abandon() {}
  // Nothing more can come or go: the other member has ended, or has destroyed its group.
  [[nodiscard]] virtual bool is_closed() const { return false; }
  // Nothing more can go. Bytes that came before may still be read, until the stream is closed.
  [[nodiscard]] virtual bool is_broken() const { return false; }
  // Becomes readable and writable as the stream does; -1: there is none.
  [[nodiscard]] virtual int descriptor() const { return -1; }
};

}  // namespace outrigger::group
