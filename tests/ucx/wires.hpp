// Several nodes in one process for tests of the wire: a service process each, with memory that is mapped or private.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fabric/ucx/wire.hpp"

namespace outrigger::testing {

// Zeroes as the kernel gives them: what of it no test touches costs nothing.
class ZeroedMemory {
 public:
  explicit ZeroedMemory(std::size_t bytes)
      : memory_(static_cast<std::byte*>(std::calloc(bytes, 1))), bytes_(memory_.get(), bytes) {}

  [[nodiscard]] std::span<std::byte>& bytes() { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::span<std::byte> bytes_;
};

// A rank's memory: one mapped and one private range, both from kBase on.
class FakeMemory final : public fabric::NodeMemory {
 public:
  static constexpr std::uint64_t kBase = 0x10000;
  static constexpr RegionId kMapped{2};

  explicit FakeMemory(std::size_t bytes) : mapped_(std::make_shared<ZeroedMemory>(bytes)), private_(bytes) {}

  View view(const MemoryRef& memory, std::uint64_t bytes) override {
    if (lost_) return View{fabric::MoveStatus::owner_lost, nullptr, nullptr};
    std::byte* place = find(memory, bytes);
    if (place == nullptr) return View{fabric::MoveStatus::memory_fault, nullptr, nullptr};
    if (memory.region != kMapped) return View{};
    return View{fabric::MoveStatus::ok, place, mapped_};
  }
  fabric::MoveStatus read(const MemoryRef& from, std::span<std::byte> to) override {
    reads_.push_back(from.address - kBase);
    return copy(from, to.size(), [&](std::byte* place) { std::memcpy(to.data(), place, to.size()); });
  }
  fabric::MoveStatus write(const MemoryRef& to, std::span<const std::byte> from) override {
    return copy(to, from.size(), [&](std::byte* place) { std::memcpy(place, from.data(), from.size()); });
  }

  [[nodiscard]] std::span<std::byte>& range(RegionId region) {
    return region == kMapped ? mapped_->bytes() : private_.bytes();
  }
  // Somebody outside keeps the mapped range.
  [[nodiscard]] bool held() const { return mapped_.use_count() > 1; }
  void lose() { lost_ = true; }
  // Offsets of what was read so far, one after the other.
  [[nodiscard]] const std::vector<std::uint64_t>& reads() const { return reads_; }

 private:
  std::byte* find(const MemoryRef& memory, std::uint64_t bytes) {
    const std::span<std::byte> all = range(memory.region);
    const std::uint64_t offset = memory.address - kBase;
    return offset > all.size() || bytes > all.size() - offset ? nullptr : all.data() + offset;
  }
  template <class Copy>
  fabric::MoveStatus copy(const MemoryRef& memory, std::uint64_t bytes, Copy&& how) {
    if (lost_) return fabric::MoveStatus::owner_lost;
    std::byte* place = find(memory, bytes);
    if (place == nullptr) return fabric::MoveStatus::memory_fault;
    how(place);
    return fabric::MoveStatus::ok;
  }

  std::shared_ptr<ZeroedMemory> mapped_;
  ZeroedMemory private_;
  std::vector<std::uint64_t> reads_;
  bool lost_ = false;
};

inline constexpr std::array<RegionId, 2> kRegions{FakeMemory::kMapped, kPrivateRegion};

class Moved final : public fabric::MoveCompletion {
 public:
  void moved(const fabric::MoveOutcome& outcome) override {
    EXPECT_FALSE(outcome_) << "ended twice";
    EXPECT_EQ(outcome.reach, Reach::wire);
    outcome_ = outcome;
  }
  [[nodiscard]] bool ended() const { return outcome_.has_value(); }
  [[nodiscard]] fabric::MoveStatus status() const { return outcome_.value().status; }

 private:
  std::optional<fabric::MoveOutcome> outcome_;
};

inline fabric::ucx::WireOptions tiny_options() {
  fabric::ucx::WireOptions options;
  options.chunk_bytes = 4096;
  options.rendezvous_above_bytes = 512;
  options.peer_window_bytes = 8192;
  options.window_bytes = 16384;
  options.send_buffers = 2;
  options.receive_buffers = 2;
  return options;
}

inline Block block(std::uint32_t node, RegionId region, std::uint64_t offset, std::uint64_t bytes) {
  return Block{MemoryRef{WorldRank{node}, region, FakeMemory::kBase + offset}, bytes};
}

inline std::byte pattern(std::uint64_t i, std::uint64_t seed) {
  return static_cast<std::byte>((i + seed) * 0x9E3779B97F4A7C15ULL >> 56);
}

inline void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(i, seed);
}

// The transports of the tests: OUTRIGGER_UCX_TLS as for service processes; empty: all but shared memory.
inline std::string transports() {
  const char* wanted = std::getenv("OUTRIGGER_UCX_TLS");
  return wanted == nullptr ? "" : wanted;
}

// Networks that move memory by themselves, and those where processors copy: other protocols, both work over TCP.
inline const auto kNetworks = ::testing::Bool();
inline std::string network_name(const ::testing::TestParamInfo<bool>& network) {
  return network.param ? "MovesMemory" : "Copies";
}

// Node i serves world rank i with service process i.
class Wires : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr std::uint64_t kMemoryBytes = 16U << 20;

  void open(std::size_t nodes, const fabric::ucx::WireOptions& options = {}, std::uint64_t bytes = kMemoryBytes) {
    open(std::vector<fabric::ucx::WireOptions>(nodes, options), bytes);
  }
  void open(const std::vector<fabric::ucx::WireOptions>& options, std::uint64_t bytes = kMemoryBytes) {
    for (fabric::ucx::WireOptions each : options) {
      each.moves_memory = GetParam();
      if (each.transports.empty()) each.transports = transports();
      memories_.push_back(std::make_unique<FakeMemory>(bytes));
      auto opened = fabric::ucx::Wire::open(each, *memories_.back());
      ASSERT_TRUE(opened) << opened.error();
      wires_.push_back(std::move(opened).value());
      addresses_.push_back(wires_.back()->address());
    }
  }
  // After every address is known.
  void introduce() {
    job_map_ = make_job_map();
    for (std::uint32_t i = 0; i < wires_.size(); ++i) {
      const Status introduced = wires_[i]->introduce(job_map_, SpId{i});
      ASSERT_TRUE(introduced) << introduced.error();
    }
  }
  void start(std::size_t nodes, const fabric::ucx::WireOptions& options = {}, std::uint64_t bytes = kMemoryBytes) {
    open(nodes, options, bytes);
    introduce();
  }
  [[nodiscard]] JobMap make_job_map() const {
    std::vector<std::byte> descriptors;
    for (std::uint32_t i = 0; i < addresses_.size(); ++i) {
      NodeDescriptor descriptor;
      descriptor.name = std::string("n").append(std::to_string(i));
      descriptor.secret.fill(static_cast<std::uint8_t>(i + 1));
      descriptor.addresses = {addresses_[i]};
      descriptor.ranks = {RankAssignment{WorldRank{i}, 0}};
      encode_descriptor(descriptor, descriptors);
    }
    auto job_map = decode_job_map(descriptors, static_cast<std::uint32_t>(addresses_.size()));
    EXPECT_TRUE(job_map) << job_map.error();
    return std::move(job_map).value();
  }

  [[nodiscard]] fabric::ucx::Wire& wire(std::size_t i) { return *wires_[i]; }
  [[nodiscard]] FakeMemory& memory(std::size_t i) { return *memories_[i]; }

  // UCX 1.13 aborts if a worker is destroyed before its answer to a new connection is sent. The answer needs both ends
  // and UCX's own thread, which accepts connections, so this gives them time to run.
  void TearDown() override { settle(); }
  void settle() {
    for (int pause = 0; pause < 10; ++pause) {
      for (int round = 0; round < 20; ++round) progress_all();
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  }

  virtual void progress_all() {
    for (const auto& each : wires_) {
      if (each != nullptr) (void)each->progress();
    }
  }
  // However little of the time a busy machine gives to this, it is some rounds.
  bool run_until(const std::function<bool()>& done, std::chrono::milliseconds at_most = std::chrono::seconds(60)) {
    constexpr int kRoundsAtLeast = 200;
    const auto deadline = std::chrono::steady_clock::now() + at_most;
    for (int round = 0; !done(); ++round) {
      if (round >= kRoundsAtLeast && std::chrono::steady_clock::now() > deadline) return false;
      progress_all();
    }
    return true;
  }
  void run_for(std::chrono::milliseconds time) {
    (void)run_until([] { return false; }, time);
  }
  // Node `there` moves its bytes to `here`, by a pull of `here` or a push of `there`.
  void begin(bool pulls, std::uint32_t there, const Block& from, std::uint32_t here, const Block& to, Moved& moved) {
    if (pulls) {
      wire(here).pull(SpId{there}, from, to, moved);
    } else {
      wire(there).push(SpId{here}, from, to, moved);
    }
  }
  // A small move forth and back works.
  void expect_works(std::uint32_t here, std::uint32_t there) {
    Moved pulled;
    Moved pushed;
    wire(here).pull(SpId{there}, block(there, kPrivateRegion, 3, 100), block(here, kPrivateRegion, 5, 100), pulled);
    wire(here).push(SpId{there}, block(here, FakeMemory::kMapped, 0, 20000),
                    block(there, FakeMemory::kMapped, 1, 20000), pushed);
    ASSERT_TRUE(run_until([&] { return pulled.ended() && pushed.ended(); }));
    EXPECT_EQ(pulled.status(), fabric::MoveStatus::ok);
    EXPECT_EQ(pushed.status(), fabric::MoveStatus::ok);
    EXPECT_TRUE(std::equal(memory(here).range(FakeMemory::kMapped).begin(),
                           memory(here).range(FakeMemory::kMapped).begin() + 20000,
                           memory(there).range(FakeMemory::kMapped).begin() + 1));
  }
  // Messages that have come to node `here`.
  std::vector<std::pair<SpId, std::string>> messages(std::size_t here) {
    std::vector<std::pair<SpId, std::string>> all;
    SpId from;
    std::vector<std::byte> message;
    while (wire(here).receive(from, message)) {
      all.emplace_back(from, std::string(reinterpret_cast<const char*>(message.data()), message.size()));
    }
    return all;
  }
  void send(std::size_t here, std::uint32_t to, const std::string& text) {
    wire(here).send(SpId{to}, std::as_bytes(std::span(text)));
  }

  std::vector<std::unique_ptr<FakeMemory>> memories_;
  std::vector<std::vector<std::byte>> addresses_;
  JobMap job_map_;
  std::vector<std::unique_ptr<fabric::ucx::Wire>> wires_;
};

}  // namespace outrigger::testing
