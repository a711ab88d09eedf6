// Messages and moves of allgathers and broadcasts: exactly as in docs/inside/algorithms.md.
#include "sim/whole_job.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "protocol/wire/peer_messages.hpp"

namespace outrigger::sim {
namespace {

// Sizes on the wire, from docs/inside/algorithms.md.
constexpr std::uint64_t kAnnounceBytes = 105;
constexpr std::uint64_t kDeliveredBytes = 68;
constexpr std::uint64_t kReleaseBytes = 47;
constexpr std::uint64_t kRequestBytes = 51;
constexpr std::uint64_t kAnswerBytes = 75;
constexpr std::uint64_t kDoneBytes = 43;
enum class Kind : std::size_t { announce, delivered, release, finished, refusal, request, answer, done, quiesce };

constexpr std::uint64_t kSmall = 4096;
constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;

// The letters of the tables in docs/inside/algorithms.md.
struct Shape {
  std::uint64_t n;                                         // nodes
  std::uint64_t k;                                         // service processes per node
  std::uint64_t l;                                         // ranks per service process
  [[nodiscard]] std::uint64_t s() const { return n * k; }  // service processes
  [[nodiscard]] std::uint64_t r() const { return k * l; }  // ranks per node
  [[nodiscard]] std::uint64_t p() const { return n * r(); }
};
constexpr Shape kShapes[] = {{2, 1, 1}, {2, 2, 2}, {4, 2, 3}, {5, 1, 2}, {3, 4, 1}, {7, 3, 1}, {1, 2, 2}};

std::uint64_t log2_up(std::uint64_t number) {
  return static_cast<std::uint64_t>(std::bit_width(number - 1));
}

// A large block's segments in `hierarchical`.
std::uint64_t segments_of(const Shape& shape) {
  return shape.n < 2 ? 1 : shape.k * (shape.n - 1);
}

// Segments of a broadcast per node, cut so that they can be passed on while others arrive.
std::uint64_t cuts_of(const Shape& shape) {
  constexpr std::uint64_t kPartBytes = 64U << 10;
  const std::uint64_t others = shape.n - 1;
  return others == 0
             ? 1
             : std::max<std::uint64_t>(1, std::min({kLarge / others / kPartBytes, std::uint64_t{8}, 64 / others}));
}

// Between service processes of different nodes, for a small block: all edges of the tree that do not begin at the
// source.
std::uint64_t wants_small(const Shape& shape, std::uint64_t places) {
  return shape.n < 2 ? 0 : places - 1 - log2_up(places);
}

class WholeJob : public ::testing::TestWithParam<Mapping> {
 protected:
  static WholeJobResult counted(const Shape& shape, Collective collective, Algorithm algorithm, std::uint64_t bytes) {
    WholeJobOptions options;
    options.nodes = static_cast<std::uint32_t>(shape.n);
    options.services = static_cast<std::uint32_t>(shape.k);
    options.ranks_per_node = static_cast<std::uint32_t>(shape.r());
    options.collective = collective;
    options.algorithm = algorithm;
    options.mapping = GetParam();
    options.block_bytes = bytes;
    const Result<WholeJobResult> result = count_whole_job(options);
    EXPECT_TRUE(result.ok()) << result.error();
    return result.ok() ? result.value() : WholeJobResult();
  }
  static const engine::EngineCounters::Messages& sent(const WholeJobResult& result, Kind kind) {
    return result.sent[static_cast<std::size_t>(kind)];
  }
  static void expect_messages(const WholeJobResult& result, Kind kind, std::uint64_t count, std::uint64_t bytes_each) {
    EXPECT_EQ(sent(result, kind).count, count) << "kind " << static_cast<std::size_t>(kind);
    EXPECT_EQ(sent(result, kind).bytes, count * bytes_each) << "kind " << static_cast<std::size_t>(kind);
  }
  static void expect_asked(const WholeJobResult& result, std::uint64_t count) {
    expect_messages(result, Kind::request, count, kRequestBytes);
    expect_messages(result, Kind::answer, count, kAnswerBytes);
    expect_messages(result, Kind::done, count, kDoneBytes);
    for (const Kind never : {Kind::finished, Kind::refusal, Kind::quiesce}) EXPECT_EQ(sent(result, never).count, 0U);
  }
};

INSTANTIATE_TEST_SUITE_P(Simulation, WholeJob, ::testing::Values(Mapping::contiguous, Mapping::strided),
                         [](const auto& parameter) {
                           return std::string(parameter.param == Mapping::strided ? "strided" : "contiguous");
                         });

TEST_P(WholeJob, AllgatherFlat) {
  for (const Shape& shape : kShapes) {
    for (const Collective form : {Collective::iallgather, Collective::iallgatherv}) {
      const WholeJobResult result = counted(shape, form, Algorithm::flat, kSmall);
      const std::uint64_t p = shape.p();
      const std::uint64_t far_pairs = p * (p - shape.l);
      const std::uint64_t extents = form == Collective::iallgatherv ? far_pairs * peer::kExtentBytes : 0;
      EXPECT_EQ(sent(result, Kind::announce).count, p * (shape.s() - 1));
      EXPECT_EQ(sent(result, Kind::announce).bytes, p * (shape.s() - 1) * kAnnounceBytes + extents);
      expect_messages(result, Kind::delivered, far_pairs, kDeliveredBytes);
      expect_messages(result, Kind::release, far_pairs, kReleaseBytes);
      expect_asked(result, 0);
      EXPECT_EQ(result.moves, p * (p - 1));
      EXPECT_EQ(result.wire_bytes, p * (p - shape.r()) * kSmall);
    }
  }
}

TEST_P(WholeJob, AllgatherNodePull) {
  for (const Shape& shape : kShapes) {
    for (const Collective form : {Collective::iallgather, Collective::iallgatherv}) {
      const WholeJobResult result = counted(shape, form, Algorithm::node_pull, kSmall);
      const std::uint64_t p = shape.p();
      expect_messages(result, Kind::announce, p * (shape.s() - 1), kAnnounceBytes);
      expect_messages(result, Kind::delivered, 0, 0);
      expect_messages(result, Kind::release, p * (p - shape.l), kReleaseBytes);
      expect_asked(result, p * (shape.n - 1) * (shape.k - 1));
      EXPECT_EQ(result.moves, p * (p - 1));
      EXPECT_EQ(result.wire_moves, p * (shape.n - 1));
      EXPECT_EQ(result.wire_bytes, p * (shape.n - 1) * kSmall);
      EXPECT_EQ(result.most_bytes_from_a_node, shape.r() * (shape.n - 1) * kSmall);
    }
  }
}

TEST_P(WholeJob, AllgatherHierarchical) {
  for (const Shape& shape : kShapes) {
    const std::uint64_t p = shape.p();
    const std::uint64_t siblings = (shape.n - 1) * (shape.k - 1);
    for (const bool large : {false, true}) {
      const std::uint64_t bytes = large ? kLarge : kSmall;
      const std::uint64_t segments = large ? segments_of(shape) : 1;
      const WholeJobResult result = counted(shape, Collective::iallgatherv, Algorithm::hierarchical, bytes);
      expect_messages(result, Kind::announce, p * (shape.s() - 1), kAnnounceBytes);
      expect_messages(result, Kind::release, p * (p - shape.l), kReleaseBytes);
      const std::uint64_t between = large ? (shape.n < 2 ? 0 : shape.n - 2) : wants_small(shape, shape.n);
      expect_asked(result, p * segments * (siblings + between));
      EXPECT_EQ(result.moves, p * (shape.r() - 1) + p * (p - shape.r()) * segments);
      EXPECT_EQ(result.wire_moves, p * (shape.n - 1) * segments);
      EXPECT_EQ(result.wire_bytes, p * (shape.n - 1) * bytes);
      EXPECT_EQ(result.most_bytes_from_a_node, shape.r() * (shape.n - 1) * bytes);  // blocks have the same size
    }
  }
}

// A block that arrives concerns only those that wait for this block.
TEST_P(WholeJob, AllgatherLooksAtFewWaits) {
  for (const Algorithm algorithm : {Algorithm::node_pull, Algorithm::hierarchical}) {
    for (const Shape& shape : {Shape{4, 2, 2}, Shape{4, 2, 8}, Shape{8, 4, 4}}) {
      const WholeJobResult result = counted(shape, Collective::iallgather, algorithm, kLarge);
      EXPECT_LE(result.reconsidered_segments, result.moves) << name_of(algorithm) << ", " << shape.p() << " ranks";
    }
  }
}

TEST_P(WholeJob, BroadcastFlat) {
  for (const Shape& shape : kShapes) {
    const std::uint64_t p = shape.p();
    for (const bool large : {false, true}) {
      const std::uint64_t bytes = large ? kLarge : kSmall;
      const bool in_segments = large && shape.n >= 3;
      const std::uint64_t segments = in_segments ? (shape.n - 1) * cuts_of(shape) : 1;
      const WholeJobResult result = counted(shape, Collective::ibcast, Algorithm::flat, bytes);
      expect_messages(result, Kind::announce, shape.s() - 1 + p - shape.l, kAnnounceBytes);
      expect_messages(result, Kind::release, p - shape.l, kReleaseBytes);
      if (in_segments) {
        expect_asked(result, segments * ((shape.n - 1) * (shape.k - 1) + shape.n - 2));
        EXPECT_EQ(result.moves, shape.r() - 1 + (p - shape.r()) * segments);
        EXPECT_EQ(result.wire_bytes, (shape.n - 1) * bytes);
        EXPECT_EQ(result.bytes_from_the_root_node, bytes);
        EXPECT_LE(result.most_bytes_from_a_node, bytes);
      } else {
        EXPECT_EQ(result.moves, p - 1);
        EXPECT_LE(result.wire_bytes, (shape.s() - 1) * bytes);
        EXPECT_GE(result.wire_bytes, (shape.n - 1) * bytes);
        EXPECT_LE(result.bytes_from_the_root_node, log2_up(shape.s()) * bytes);
      }
    }
  }
}

TEST_P(WholeJob, BroadcastHierarchical) {
  for (const Shape& shape : kShapes) {
    const std::uint64_t p = shape.p();
    const std::uint64_t siblings = (shape.n - 1) * (shape.k - 1);
    for (const bool large : {false, true}) {
      const std::uint64_t bytes = large ? kLarge : kSmall;
      const std::uint64_t cut = (shape.n - 1) * std::max(shape.k, cuts_of(shape));
      const std::uint64_t segments = large && shape.n >= 2 ? cut : 1;
      const WholeJobResult result = counted(shape, Collective::ibcast, Algorithm::hierarchical, bytes);
      expect_messages(result, Kind::announce, shape.s() - 1 + p - shape.l, kAnnounceBytes);
      expect_messages(result, Kind::release, p - shape.l, kReleaseBytes);
      const std::uint64_t between = large ? (shape.n < 2 ? 0 : shape.n - 2) : wants_small(shape, shape.n);
      expect_asked(result, segments * (siblings + between));
      EXPECT_EQ(result.moves, shape.r() - 1 + (p - shape.r()) * segments);
      EXPECT_EQ(result.wire_bytes, (shape.n - 1) * bytes);
      const std::uint64_t from_root = shape.n < 2 ? 0 : large ? 1 : log2_up(shape.n);
      EXPECT_EQ(result.bytes_from_the_root_node, from_root * bytes);
      if (large) {
        EXPECT_LE(result.most_bytes_from_a_node, bytes);
      }
    }
  }
}

TEST(WholeJobOptions, ErrorsNameTheOption) {
  const auto error = [](auto change) {
    WholeJobOptions options;
    change(options);
    const Result<WholeJobResult> result = count_whole_job(options);
    return result.ok() ? std::string() : result.error();
  };
  EXPECT_EQ(error([](WholeJobOptions& o) { o.collective = Collective::ialltoall; }),
            "collective: ialltoall is counted by one service process");
  EXPECT_EQ(error([](WholeJobOptions& o) { o.algorithm = Algorithm::ring_pull; }),
            "algorithm: ring_pull is none of iallgather");
  EXPECT_NE(error([](WholeJobOptions& o) { o.services = 3; }).find("3 does not divide 8"), std::string::npos);
  EXPECT_NE(error([](WholeJobOptions& o) { o.nodes = 4096; }).find("at most 8192"), std::string::npos);
  EXPECT_EQ(error([](WholeJobOptions& o) { o.root = 128; }), "root: 128 of 128 ranks");
}

}  // namespace
}  // namespace outrigger::sim
