#include "mpi/intranode/scratch_memory.hpp"

#include <atomic>
#include <new>

#include "mpi/native/die.hpp"

namespace outrigger::mpi {
namespace {

constinit std::atomic<std::size_t> kept_by_all = 0;

}  // namespace

void ScratchMemory::grow(std::size_t bytes) {
  release();
  base_.reset(new (std::nothrow) std::byte[bytes]);
  if (base_ == nullptr) die("there is no memory to pack %zu bytes (OUTRIGGER_INTRANODE=off needs none)", bytes);
  bytes_ = bytes;
}

void ScratchMemory::keep_or_release() {
  reserved_ = kept_by_all.fetch_add(bytes_, std::memory_order_relaxed) + bytes_ <= kKeptByAll;
  if (reserved_) return;
  kept_by_all.fetch_sub(bytes_, std::memory_order_relaxed);
  release();
}

void ScratchMemory::release() {
  if (reserved_) kept_by_all.fetch_sub(bytes_, std::memory_order_relaxed);
  base_.reset();
  bytes_ = 0;
  reserved_ = false;
}

}  // namespace outrigger::mpi
