#include "client/memory/xpmem_segment.hpp"

#include <cstddef>

namespace outrigger::client {
namespace {

constexpr std::uintptr_t kOwnerOnly = 0600;
constexpr auto kAllAddresses = static_cast<std::size_t>(-1);

}  // namespace

XpmemSegment XpmemSegment::make() {
  const XpmemCalls* calls = xpmem_calls();
  if (calls == nullptr) return {};
  auto* permit = reinterpret_cast<void*>(kOwnerOnly);  // NOLINT(performance-no-int-to-ptr): the library wants it so
  return XpmemSegment(calls->make(nullptr, kAllAddresses, kXpmemPermitMode, permit));
}

XpmemSegment& XpmemSegment::operator=(XpmemSegment&& other) noexcept {
  if (this != &other) {
    reset();
    id_ = std::exchange(other.id_, kNoXpmemSegment);
  }
  return *this;
}

void XpmemSegment::reset() {
  if (id_ == kNoXpmemSegment) return;
  static_cast<void>(xpmem_calls()->remove(id_));
  id_ = kNoXpmemSegment;
}

}  // namespace outrigger::client
