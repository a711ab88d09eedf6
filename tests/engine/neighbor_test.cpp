// Neighbor exchanges: the moved blocks, announcements, waits, and repetitions after a restart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cluster.hpp"

namespace outrigger::engine::testing {
namespace {

constexpr std::uint64_t kHaloBytes = 24;

// By [source][destination].
using Edges = std::vector<std::vector<bool>>;

Edges no_edges(std::size_t ranks) {
  return Edges(ranks, std::vector<bool>(ranks, false));
}

// Each rank and the next, both ways.
Edges row(std::size_t ranks, bool periodic = false) {
  Edges edges = no_edges(ranks);
  for (std::size_t i = 0; i + 1 < ranks; ++i) edges[i][i + 1] = edges[i + 1][i] = true;
  if (periodic) edges[0][ranks - 1] = edges[ranks - 1][0] = true;
  return edges;
}

PostedOperation halo(Cluster& cluster, const Edges& edges, std::uint32_t rank, std::uint64_t sequence = 0) {
  std::vector<std::uint32_t> destinations;
  std::vector<std::uint32_t> sources;
  for (std::uint32_t other = 0; other < edges.size(); ++other) {
    if (edges[rank][other]) destinations.push_back(other);
    if (edges[other][rank]) sources.push_back(other);
  }
  return cluster.between_neighbors(rank, sequence, kHaloBytes, destinations, sources);
}

void post_all(Cluster& cluster, const Edges& edges) {
  for (std::uint32_t rank = 0; rank < edges.size(); ++rank) cluster.post(halo(cluster, edges, rank));
}

// Blocks of neighbors are placed, and nothing else has been written.
void expect_exchanged(Cluster& cluster, const Edges& edges, std::uint64_t sequence = 0) {
  for (std::uint32_t rank = 0; rank < edges.size(); ++rank) {
    ASSERT_TRUE(cluster.completed(rank, sequence)) << rank;
    EXPECT_EQ(cluster.completion(rank, sequence).record.status, CompletionStatus::ok);
    const std::vector<std::byte>& received = cluster.buffers(rank, sequence).receive;
    for (std::uint32_t source = 0; source < edges.size(); ++source) {
      for (std::uint64_t i = 0; i < kHaloBytes; ++i) {
        const std::byte expected = edges[source][rank] ? Cluster::pattern(source, rank, i) : std::byte{0xEE};
        ASSERT_EQ(received[source * kHaloBytes + i], expected) << source << " -> " << rank;
      }
    }
  }
  EXPECT_TRUE(cluster.idle());
  EXPECT_EQ(cluster.broken(), std::nullopt);
}

std::uint64_t count(const Edges& edges) {
  std::uint64_t all = 0;
  for (const auto& from : edges) all += static_cast<std::uint64_t>(std::count(from.begin(), from.end(), true));
  return all;
}

TEST(Neighbors, GetTheBlocksOfTheirsAndNoOthers) {
  Edges one_way = no_edges(6);
  one_way[0][3] = one_way[3][5] = one_way[5][5] = one_way[2][0] = one_way[2][1] = one_way[2][4] = true;
  for (const Edges& edges : {row(6), row(6, true), no_edges(6), one_way}) {
    for (const auto& placement :
         {std::vector<std::uint32_t>{0, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 4, 5}, {0, 0, 1, 1, 2, 2}, {0, 1, 0, 1, 2, 0}}) {
      Cluster cluster(placement);
      post_all(cluster, edges);
      cluster.settle();
      expect_exchanged(cluster, edges);
      EXPECT_EQ(cluster.moves_done, count(edges));
    }
  }
}

// Two announcements and two releases for each pair of neighbors, whatever the size of the group.
TEST(Neighbors, AloneHearOfEachOther) {
  for (const std::uint32_t ranks : {4U, 8U, 32U}) {
    std::vector<std::uint32_t> placement(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) placement[rank] = rank;
    Cluster cluster(placement);
    const Edges edges = row(ranks);
    post_all(cluster, edges);
    cluster.settle();
    expect_exchanged(cluster, edges);
    EXPECT_EQ(cluster.messages_sent, 4 * (ranks - 1));
  }
}

// One announcement per service process, which covers only its ranks between the first and the last neighbor.
TEST(Neighbors, AreAnnouncedToOncePerServiceProcess) {
  Cluster cluster({0, 1, 1, 1, 1, 1, 1});
  Edges edges = no_edges(7);
  edges[0][3] = edges[0][5] = true;
  cluster.hold_messages = true;
  cluster.post(halo(cluster, edges, 0));
  cluster.settle();
  ASSERT_EQ(cluster.letters.size(), 1U);
  const auto message = peer::decode(cluster.letters.front().message);
  ASSERT_TRUE(message);
  const auto& announce = std::get<peer::Announce>(message->body);
  EXPECT_EQ(announce.first, 2U);
  EXPECT_EQ(announce.count, 3U);
}

TEST(Neighbors, AreNotWaitedForByOthers) {
  Cluster cluster({0, 1, 1, 2, 2});
  const Edges edges = row(5);
  for (const std::uint32_t rank : {0U, 1U, 4U}) cluster.post(halo(cluster, edges, rank));
  cluster.settle();
  EXPECT_TRUE(cluster.completed(0, 0));
  EXPECT_FALSE(cluster.completed(1, 0));
  EXPECT_FALSE(cluster.completed(4, 0));
  cluster.post(halo(cluster, edges, 2));
  cluster.settle();
  EXPECT_TRUE(cluster.completed(1, 0));
  EXPECT_FALSE(cluster.completed(4, 0));
  cluster.post(halo(cluster, edges, 3));
  cluster.settle();
  expect_exchanged(cluster, edges);
}

// It may be any number of operations ahead.
TEST(Neighbors, WhoHasNoneIsDoneAtOnce) {
  Cluster cluster({0, 1, 2});
  Edges edges = no_edges(3);
  edges[0][1] = edges[1][0] = true;
  for (std::uint64_t sequence = 0; sequence < 200; ++sequence) cluster.post(halo(cluster, edges, 2, sequence));
  cluster.settle();
  EXPECT_TRUE(cluster.completed(2, 199));
  EXPECT_EQ(cluster.messages_sent, 0U);
  EXPECT_TRUE(cluster.idle());
  for (std::uint64_t sequence = 0; sequence < 200; ++sequence) {
    for (const std::uint32_t rank : {0U, 1U}) cluster.post(halo(cluster, edges, rank, sequence));
  }
  cluster.settle();
  for (const std::uint64_t sequence : {0U, 100U, 199U}) expect_exchanged(cluster, edges, sequence);
}

TEST(Neighbors, WithoutBytesAreToldThatThereAreNone) {
  Cluster cluster({0, 1});
  const Edges edges = row(2);
  PostedOperation silent = halo(cluster, edges, 0);
  silent.send.extents[1].bytes = 0;
  cluster.post(std::move(silent));
  cluster.post(halo(cluster, edges, 1));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_TRUE(cluster.idle());
}

TEST(Neighbors, WhoSendMoreThanThereIsRoomForAreTruncated) {
  Cluster cluster({0, 1});
  const Edges edges = row(2);
  PostedOperation small = halo(cluster, edges, 0);
  small.receive.extents[1].bytes = kHaloBytes / 2;
  cluster.post(std::move(small));
  cluster.post(halo(cluster, edges, 1));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.completion(0, 0).record.status, CompletionStatus::truncated);
  EXPECT_EQ(cluster.completion(1, 0).record.status, CompletionStatus::ok);
}

// Any service process is restarted when some blocks are placed; also with blocks in one direction only.
TEST(Neighbors, AreReplayedFromTheMarks) {
  const std::vector<std::uint32_t> placement{0, 1, 1, 2};
  Edges one_way = no_edges(4);
  one_way[0][1] = one_way[0][3] = one_way[1][2] = one_way[2][3] = one_way[3][3] = true;
  for (const Edges& edges : {row(4, true), one_way}) {
    for (std::uint32_t restarted = 0; restarted < 3; ++restarted) {
      for (std::uint32_t first = 0; first < 3; ++first) {
        Cluster cluster(placement);
        cluster.hold_moves = true;
        post_all(cluster, edges);
        cluster.settle();
        static_cast<void>(cluster.finish_move(first));
        static_cast<void>(cluster.finish_move((first + 1) % 3));
        cluster.settle();
        cluster.restart(restarted);
        for (std::uint32_t rank = 0; rank < 4; ++rank) {
          if (placement[rank] != restarted) continue;
          const bool done = cluster.completed(rank, 0);
          if (!done) {
            PostedOperation again = halo(cluster, edges, rank);
            again.marks.assign(4, 0);
            for (std::uint32_t from = 0; from < 4; ++from) again.marks[from] = cluster.marked(rank, 0, from);
            cluster.post(std::move(again));
          }
          cluster.engine(restarted).restore_progress(WorldRank{rank}, GroupId{1, 1}, done ? 1 : 0);
        }
        cluster.hold_moves = false;
        cluster.settle();
        expect_exchanged(cluster, edges);
      }
    }
  }
}

TEST(Neighbors, AreInOrderAndInTheGroup) {
  const auto rejected = [](const auto& change) {
    Cluster cluster({0, 0, 0});
    PostedOperation posted = halo(cluster, row(3), 1);
    change(posted);
    cluster.post(std::move(posted));
    cluster.settle();
    return cluster.completion(1, 0).record.status == CompletionStatus::rejected;
  };
  EXPECT_FALSE(rejected([](PostedOperation& /*posted*/) {}));
  EXPECT_TRUE(rejected([](PostedOperation& posted) { std::swap(posted.send.neighbors[0], posted.send.neighbors[1]); }));
  EXPECT_TRUE(rejected([](PostedOperation& posted) { posted.send.neighbors[1] = posted.send.neighbors[0]; }));
  EXPECT_TRUE(rejected([](PostedOperation& posted) { posted.receive.neighbors[1] = GroupRank{3}; }));
  EXPECT_TRUE(rejected([](PostedOperation& posted) { posted.send.extents.clear(); }));
  EXPECT_TRUE(rejected([](PostedOperation& posted) { posted.collective = Collective::ialltoallw; }));
}

}  // namespace
}  // namespace outrigger::engine::testing
