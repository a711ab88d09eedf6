// Two ranks of one service process for tests of copies between private memory: this process, and a child that only has
// memory.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "client/copies/copier.hpp"
#include "fabric_fixture.hpp"

namespace outrigger::testing {

inline constexpr WorldRank kHere{0};       // this process
inline constexpr WorldRank kElsewhere{1};  // a child
inline constexpr std::uint64_t kBytes = 3 << 20;

inline std::byte byte_at(std::uint64_t i) {
  return static_cast<std::byte>(i * 11 + (i >> 8));
}

inline std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// Real copiers get time enough on a busy machine; takers of the tests' are given up soon.
class Copiers : public ::testing::Test {
 protected:
  static fabric::HostFabricOptions with_patience(std::chrono::milliseconds patience) {
    fabric::HostFabricOptions options;
    options.lending.copier_patience = options.lending.rank_patience = patience;
    return options;
  }
  explicit Copiers(std::chrono::milliseconds patience = std::chrono::seconds(8))
      : Copiers(patience, copy::CoreShare::own) {}
  Copiers(std::chrono::milliseconds patience, copy::CoreShare share)
      : memory_(kBytes), other_(kBytes), fabric_(with_patience(patience)) {
    for (std::uint64_t i = 0; i < kBytes; ++i) memory_[i] = byte_at(i);
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true) ::pause();
    }
    std::memset(memory_.data(), 0, kBytes);
    fabric_.add_rank(kHere, make_rank(kHere, ::getpid()));
    fabric_.add_rank(kElsewhere, make_rank(kElsewhere, child_));
    for (const WorldRank rank : {kHere, kElsewhere}) fabric_.rank(rank)->set_probe(address_of(&probe_));
    fabric_.share_core(share);
    fabric_.expect_copier(kHere);
  }
  ~Copiers() override { end_child(); }

  void end_child() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }

  CopyQueue& copy_queue() { return fabric_.rank(kHere)->segment().header().copies; }
  Block mine(std::uint64_t offset, std::uint64_t bytes) const {
    return Block{MemoryRef{kHere, kPrivateRegion, address_of(memory_.data()) + offset}, bytes};
  }
  Block mine_too(std::uint64_t offset, std::uint64_t bytes) const {
    return Block{MemoryRef{kHere, kPrivateRegion, address_of(other_.data()) + offset}, bytes};
  }
  Block childs(std::uint64_t offset, std::uint64_t bytes) const {
    return Block{MemoryRef{kElsewhere, kPrivateRegion, address_of(memory_.data()) + offset}, bytes};
  }

  void start_copier() {
    cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    int cpu = 0;
    while (!CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) ++cpu;
    copier_.start(copy_queue(), pages_, cpu);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!copier_.runs() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    ASSERT_TRUE(copier_.runs());
  }

  // Pretends that the rank has a copier, so that jobs are given but not done.
  void pretend_copier(pid_t tid) { copy_queue().copier_tid.store(tid, std::memory_order_release); }

  void progress_until(const Ended& ended, std::chrono::milliseconds at_most = std::chrono::seconds(60)) {
    const auto deadline = std::chrono::steady_clock::now() + at_most;
    while (!ended.ended() && std::chrono::steady_clock::now() < deadline) (void)fabric_.progress();
  }

  struct Outcome {
    fabric::MoveStatus status = fabric::MoveStatus::memory_fault;
    Reach reach = Reach::wire;
  };
  Outcome move(const Block& from, const Block& to) {
    Ended ended;
    fabric_.move(from, to, nullptr, ended);
    progress_until(ended);
    EXPECT_TRUE(ended.ended());
    if (!ended.ended()) return {};
    EXPECT_EQ(fabric_.moves_in_flight(), 0U);
    return Outcome{ended.status(), ended.reach()};
  }

  void expect_bytes(const std::vector<std::byte>& memory, std::uint64_t at, std::uint64_t from, std::uint64_t bytes) {
    for (std::uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(memory[at + i], byte_at(from + i)) << at + i;
  }

  std::vector<std::byte> memory_;
  std::vector<std::byte> other_;
  std::uint64_t probe_ = 0x1234'5678'9ABC'DEF0;
  pid_t child_ = -1;
  fabric::HostFabric fabric_;
  client::HugePages pages_;  // none: it has nothing else to do than to copy
  client::Copier copier_;    // ends before the fabric, whose memory it uses
};

}  // namespace outrigger::testing
