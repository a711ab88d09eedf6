// Keeper, service processes and ranks as threads of one process: random allreduces, compared bit by bit with a plain
// loop in rank order.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

#include "client/memory/program_memory.hpp"
#include "reduce/reduce.hpp"
#include "service/node.hpp"

namespace outrigger::testing {
namespace {

using client::RankEndpoint;
using ReducedBytes = std::vector<std::byte>;

constexpr std::array kReduced{
    Reduction{ReduceOperation::sum, ElementType::float64},
    Reduction{ReduceOperation::sum, ElementType::float32},
    Reduction{ReduceOperation::max, ElementType::int32},
    Reduction{ReduceOperation::bxor, ElementType::byte},
    Reduction{ReduceOperation::prod, ElementType::complex_double},
};

// Numbers whose sums are rounded, as bytes of any type.
ReducedBytes contribution_of(const Reduction& reduction, std::uint64_t elements, std::uint32_t rank,
                             std::uint64_t number) {
  ReducedBytes bytes(elements * reduction.element_bytes());
  std::mt19937_64 random(number * 100 + rank);
  const auto fill = [&]<class T>(T /*type*/) {
    for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      const std::uint64_t drawn = random() % 1'000'000;
      T value{};
      if constexpr (std::is_integral_v<T>) {
        value = static_cast<T>(drawn);
      } else {
        value = static_cast<T>(static_cast<double>(drawn) / 7);
      }
      std::memcpy(&bytes[at], &value, sizeof(value));
    }
  };
  if (reduction.type == ElementType::float64) fill(double{});
  if (reduction.type == ElementType::float32) fill(float{});
  if (reduction.type == ElementType::int32) fill(std::int32_t{});
  if (reduction.type == ElementType::byte) fill(std::uint8_t{});
  if (reduction.type == ElementType::complex_double) fill(double{});
  return bytes;
}

// Memory that service processes have mapped or not.
class ReducedBuffer {
 public:
  ReducedBuffer(RankEndpoint& client, bool shared, std::uint64_t bytes) : private_(shared ? 0 : bytes + 1) {
    if (shared) shared_ = static_cast<std::byte*>(client.heap().allocate_for_program(bytes + 1));
    data()[bytes] = std::byte{0x5A};
  }
  ReducedBuffer(const ReducedBuffer&) = delete;
  ReducedBuffer& operator=(const ReducedBuffer&) = delete;
  ~ReducedBuffer() {
    if (shared_ != nullptr) client::ProgramMemory::of_process().release(shared_);
  }
  [[nodiscard]] std::byte* data() { return shared_ != nullptr ? shared_ : private_.data(); }

 private:
  std::byte* shared_ = nullptr;
  ReducedBytes private_;
};

void finish_reduction(RankEndpoint& client, client::PendingOperation& pending) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!client.poll(pending)) {
    ASSERT_FALSE(client.fatal()) << *client.fatal();
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "hangs";
    client.wait_for_completion(std::chrono::microseconds(200));
  }
}

void reduce_as_rank(RankEndpoint& client, std::uint32_t me, std::uint32_t ranks) {
  std::mt19937_64 common(ranks);
  std::mt19937_64 own(me);
  std::vector<WorldRank> members;
  for (std::uint32_t i = 0; i < ranks; ++i) members.emplace_back(i);
  const auto group = client.define_group(GroupId{9, 1}, members, GroupRank{me});
  for (std::uint64_t number = 0; number < 24; ++number) {
    const Reduction reduction = kReduced[common() % kReduced.size()];
    const std::uint64_t elements = number % 8 == 7 ? common() % 60'000 : common() % 300;
    const ReducedBytes mine = contribution_of(reduction, elements, me, number);
    ReducedBuffer send(client, own() % 2 == 0, mine.size());
    ReducedBuffer receive(client, own() % 2 == 0, mine.size());
    if (!mine.empty()) std::memcpy(send.data(), mine.data(), mine.size());
    client::OperationRequest request;
    request.group = group;
    request.sequence = number;
    request.collective = Collective::iallreduce;
    request.algorithm = Algorithm::sliced_pull;
    request.reduction = reduction;
    request.send = client::BufferLayout{send.data(), 0, mine.size(), {}};
    request.receive = client::BufferLayout{receive.data(), 0, mine.size(), {}};
    const client::PendingOperationPtr pending = client.post(request);
    ASSERT_NE(pending, nullptr);
    finish_reduction(client, *pending);
    ASSERT_EQ(pending->result.status, CompletionStatus::ok);
    ReducedBytes wanted = contribution_of(reduction, elements, 0, number);
    for (std::uint32_t rank = 1; rank < ranks; ++rank) {
      reduce::apply(reduction, wanted, contribution_of(reduction, elements, rank, number), wanted);
    }
    const bool same = wanted.empty() || std::memcmp(receive.data(), wanted.data(), wanted.size()) == 0;
    ASSERT_TRUE(same) << "operation " << number << ", rank " << me << ", " << elements << " of "
                      << name_of(reduction.type);
    ASSERT_EQ(receive.data()[mine.size()], std::byte{0x5A}) << "behind the result";
  }
}

class Reductions : public ::testing::TestWithParam<std::pair<std::uint32_t, std::uint32_t>> {};

TEST_P(Reductions, AreRightToTheBit) {
  NodeOptions options;
  std::tie(options.ranks, options.services) = GetParam();
  Node node(options);
  auto clients = node.attach_all();
  for (const auto& client : clients) ASSERT_TRUE(client) << client.error();
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] { reduce_as_rank(*clients[rank].value(), rank, options.ranks); });
  }
  for (std::thread& thread : threads) thread.join();
  clients.clear();
  EXPECT_EQ(node.finish(), 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Reductions,
                         ::testing::Values(std::pair{1U, 1U}, std::pair{2U, 1U}, std::pair{2U, 2U}, std::pair{5U, 1U},
                                           std::pair{8U, 2U}),
                         [](const auto& shape) {
                           return std::to_string(shape.param.first) + "Ranks" + std::to_string(shape.param.second) +
                                  "Services";
                         });

}  // namespace
}  // namespace outrigger::testing
