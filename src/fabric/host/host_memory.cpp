#include "fabric/host/host_memory.hpp"

#include <cstring>

#include "fabric/host/lanes/cma.hpp"

namespace outrigger::fabric {

NodeMemory::View HostMemory::view(const MemoryRef& memory, std::uint64_t bytes) {
  const RankMemory* owner = ranks_.find(memory.owner);
  if (owner == nullptr) return View{MoveStatus::owner_lost, nullptr, nullptr};
  if (!owner->accessible(memory.region, memory.address, bytes)) return View{MoveStatus::memory_fault, nullptr, nullptr};
  std::byte* mapped = owner->mapped(memory.region, memory.address, bytes);
  return View{MoveStatus::ok, mapped, owner->hold(memory.region)};
}

MoveStatus HostMemory::read(const MemoryRef& from, std::span<std::byte> to) {
  const View source = view(from, to.size());
  if (source.status != MoveStatus::ok) return source.status;
  if (source.bytes == nullptr) return read_from_process(ranks_.find(from.owner)->pid(), from.address, to);
  std::memcpy(to.data(), source.bytes, to.size());
  return MoveStatus::ok;
}

MoveStatus HostMemory::write(const MemoryRef& to, std::span<const std::byte> from) {
  const View destination = view(to, from.size());
  if (destination.status != MoveStatus::ok) return destination.status;
  if (destination.bytes == nullptr) return write_to_process(ranks_.find(to.owner)->pid(), to.address, from);
  std::memcpy(destination.bytes, from.data(), from.size());
  return MoveStatus::ok;
}

}  // namespace outrigger::fabric
