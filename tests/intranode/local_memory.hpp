// Direct copies between members that are threads or fibers of one process, and members that cannot copy.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "intranode/flag.hpp"
#include "intranode/peer_memory.hpp"

namespace outrigger::intranode {

class LocalMemory final : public PeerMemory {
 public:
  // `known`: memory of all members, copied as ordinary memory is. Other addresses may be none: the kernel copies.
  LocalMemory(std::uint32_t members, std::span<const std::byte> known)
      : kernel_(std::vector<pid_t>(members, ::getpid())), known_(known) {}

  // From now on one copy of so many fails, after a part; 0: none.
  void fail(std::uint64_t seed, std::uint64_t one_of) {
    random_.seed(seed);
    one_of_ = one_of;
  }
  bool read(std::uint32_t member, std::uint64_t address, std::span<std::byte> to) override {
    if (fails()) return kernel_.read(member, address, to.first(to.size() / 2)) && false;
    if (!knows(address, to.size())) return kernel_.read(member, address, to);
    steps::reads(at(address), to.size());
    std::memcpy(to.data(), at(address), to.size());
    return true;
  }
  bool write(std::uint32_t member, std::uint64_t address, std::span<const std::byte> from) override {
    if (fails()) return kernel_.write(member, address, from.first(from.size() / 2)) && false;
    if (!knows(address, from.size())) return kernel_.write(member, address, from);
    steps::writes(at(address), from.size());
    std::memcpy(at(address), from.data(), from.size());
    return true;
  }

 private:
  static std::byte* at(std::uint64_t address) {
    return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
  }
  [[nodiscard]] bool knows(std::uint64_t address, std::size_t bytes) const {
    const auto first = reinterpret_cast<std::uintptr_t>(known_.data());
    return address >= first && address - first <= known_.size() && bytes <= known_.size() - (address - first);
  }
  [[nodiscard]] bool fails() { return one_of_ != 0 && random_() % one_of_ == 0; }

  CrossMemory kernel_;
  std::span<const std::byte> known_;
  std::mt19937_64 random_;
  std::uint64_t one_of_ = 0;
};

}  // namespace outrigger::intranode
