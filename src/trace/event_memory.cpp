#include "trace/event_memory.hpp"

#include <new>
#include <utility>

namespace outrigger::trace {
namespace {

constexpr std::uint64_t kMagic = 0x4F55545254524331ULL;

}  // namespace

Result<Memory> Memory::create() {
  Result<UniqueFd> fd = create_sealed_memory("outrigger-trace", kBytes, Backing::on_touch);
  if (!fd) return Error{fd.error()};
  Result<Mapping> mapping = Mapping::map(fd.value().get(), kBytes);
  if (!mapping) return Error{mapping.error()};
  Memory memory = blank(std::move(mapping).value());
  memory.fd_ = std::move(fd).value();
  return memory;
}

Result<Memory> Memory::create_private() {
  Result<Mapping> mapping = Mapping::anonymous(kBytes);
  if (!mapping) return Error{mapping.error()};
  return blank(std::move(mapping).value());
}

Memory Memory::blank(Mapping mapping) {
  Memory memory;
  memory.mapping_ = std::move(mapping);
  new (memory.mapping_.base()) Header;
  memory.header().magic = kMagic;
  return memory;
}

Result<Memory> Memory::open(const UniqueFd& fd) {
  if (const Status safe = check_sealed_memory(fd.get(), kBytes); !safe) return Error{safe.error()};
  Result<Mapping> mapping = Mapping::map(fd.get(), kBytes);
  if (!mapping) return Error{mapping.error()};
  Memory memory;
  memory.mapping_ = std::move(mapping).value();
  if (memory.header().magic != kMagic) return Error{"the memory for a rank's trace has another format"};
  return memory;
}

}  // namespace outrigger::trace
