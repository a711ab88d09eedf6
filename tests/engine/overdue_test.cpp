// Ranks whose counts differ: some have left the call to their MPI, and the others' operation fails instead of waiting
// for ever.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <vector>

#include "cluster.hpp"

namespace outrigger::engine::testing {
namespace {

constexpr std::uint64_t kSmallBytes = 40;
const std::array<std::vector<std::uint32_t>, 4> kPlacementsOfDiffering{
    std::vector<std::uint32_t>{0, 0}, {0, 1}, {0, 0, 1}, {0, 1, 2, 0, 1, 2}};

using Post = std::function<PostedOperation(Cluster&, std::uint32_t rank)>;

std::vector<Post> all_sized() {
  std::vector<Post> all;
  for (const std::uint32_t root : {0U, 1U}) {
    all.push_back([root](Cluster& cluster, std::uint32_t rank) { return cluster.to_root(rank, 0, kSmallBytes, root); });
    all.push_back(
        [root](Cluster& cluster, std::uint32_t rank) { return cluster.from_root(rank, 0, kSmallBytes, root); });
    all.push_back([root](Cluster& cluster, std::uint32_t rank) { return cluster.reduce(rank, 0, kSmallBytes, root); });
    for (const Algorithm algorithm : {Algorithm::flat, Algorithm::hierarchical}) {
      all.push_back(
          [=](Cluster& cluster, std::uint32_t rank) { return cluster.bcast(rank, 0, kSmallBytes, root, algorithm); });
    }
  }
  for (const Algorithm algorithm : {Algorithm::ring_pull, Algorithm::scatter_dest}) {
    all.push_back(
        [=](Cluster& cluster, std::uint32_t rank) { return cluster.operation(rank, 0, kSmallBytes, algorithm); });
  }
  for (const Algorithm algorithm : {Algorithm::flat, Algorithm::node_pull, Algorithm::hierarchical}) {
    all.push_back(
        [=](Cluster& cluster, std::uint32_t rank) { return cluster.gather(rank, 0, kSmallBytes, algorithm); });
  }
  for (const Algorithm algorithm : {Algorithm::sliced_pull, Algorithm::rooted}) {
    all.push_back([=](Cluster& cluster, std::uint32_t rank) {
      return cluster.allreduce(rank, 0, kSmallBytes, {ReduceOperation::sum, ElementType::float32}, algorithm);
    });
  }
  all.push_back(
      [](Cluster& cluster, std::uint32_t rank) { return cluster.prefix(rank, 0, kSmallBytes, Collective::iscan); });
  return all;
}

void look(Cluster& cluster) {
  for (std::uint32_t sp = 0; sp < cluster.services(); ++sp) static_cast<void>(cluster.engine(sp).look_for_passed());
  cluster.settle();
}

bool some_wait(Cluster& cluster, const std::vector<std::uint32_t>& posted) {
  return std::ranges::any_of(posted, [&](std::uint32_t rank) { return !cluster.completed(rank, 0); });
}

// Each rank in turn is the only native one, and the only one that posts.
TEST(Overdue, WhoWaitsForRanksThatWentNativeFails) {
  std::uint64_t failed = 0;
  for (const auto& placement : kPlacementsOfDiffering) {
    const auto ranks = static_cast<std::uint32_t>(placement.size());
    for (const Post& post : all_sized()) {
      for (std::uint32_t one = 0; one < 2 * ranks; ++one) {
        Cluster cluster(placement);
        std::vector<std::uint32_t> posted;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          if ((rank == one % ranks) == (one < ranks)) {
            cluster.native_calls.emplace(rank, NativeCalls::after(0).one_more());
          } else {
            posted.push_back(rank);
            cluster.post(post(cluster, rank));
          }
        }
        cluster.settle();
        const bool waited = some_wait(cluster, posted);
        look(cluster);
        look(cluster);
        EXPECT_FALSE(some_wait(cluster, posted));
        for (const std::uint32_t rank : posted) {
          const fabric::CompletionRecord& record = cluster.completion(rank, 0).record;
          if (record.status == CompletionStatus::ok) continue;
          ++failed;
          EXPECT_TRUE(waited);
          EXPECT_EQ(record.status, CompletionStatus::passed_natively);
          EXPECT_TRUE(cluster.native_calls.contains(record.passed_by.value()));
        }
        EXPECT_EQ(cluster.broken(), std::nullopt);
      }
    }
  }
  EXPECT_GT(failed, 500U);
}

// It has left as many calls to its MPI as the others had, and computes.
TEST(Overdue, WhoIsLateIsWaitedFor) {
  for (const auto& placement : kPlacementsOfDiffering) {
    const auto ranks = static_cast<std::uint32_t>(placement.size());
    for (std::uint32_t late = 0; late < ranks; ++late) {
      Cluster cluster(placement);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        cluster.native_calls.emplace(rank, NativeCalls::after(rank == late ? 0 : 1).one_more().one_more());
        PostedOperation operation = cluster.operation(rank, 0, kSmallBytes, Algorithm::ring_pull);
        operation.native_calls = 2;
        if (rank != late) cluster.post(operation);
      }
      for (int i = 0; i < 20; ++i) look(cluster);
      EXPECT_FALSE(cluster.completed((late + 1) % ranks, 0));
      PostedOperation operation = cluster.operation(late, 0, kSmallBytes, Algorithm::ring_pull);
      operation.native_calls = 2;
      cluster.post(operation);
      cluster.settle();
      for (std::uint32_t rank = 0; rank < ranks; ++rank) EXPECT_TRUE(cluster.bytes_right(rank, 0, kSmallBytes));
      EXPECT_TRUE(cluster.idle());
    }
  }
}

// A message to each service process after 2, 4, 8 and 16 checks.
TEST(Overdue, IsAskedAboutLessAndLessOften) {
  Cluster cluster({0, 1, 2});
  cluster.post(cluster.operation(0, 0, kSmallBytes, Algorithm::ring_pull));
  cluster.settle();
  const std::uint64_t sent = cluster.messages_sent;
  look(cluster);
  EXPECT_EQ(cluster.messages_sent, sent);
  for (int i = 1; i < 20; ++i) look(cluster);
  EXPECT_EQ(cluster.messages_sent, sent + 4 * 2);
}

}  // namespace
}  // namespace outrigger::engine::testing
