#include "mpi/types/blocks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "../../client/fake_node.hpp"
#include "fake_mpi.hpp"

namespace outrigger::mpi::test {
namespace {

using Extents = std::vector<PairExtent>;

class BlocksTest : public ::testing::Test {
 protected:
  FakeMpi mpi_;
  MPI_Datatype int_ = mpi_.predefined(4);
  TypeShape int_shape_ = shape_of(mpi_.job, int_);
  std::array<std::byte, 256> buffer_{};
  client::BufferLayout handed_;
  Blocks blocks_{handed_};

  [[nodiscard]] Extents extents() const { return {blocks_.layout().extents.begin(), blocks_.layout().extents.end()}; }
  // Two ints, at 4 and 12.
  [[nodiscard]] MPI_Datatype spread() { return mpi_.vector(2, 1, 2, mpi_.hindexed({1}, {4}, int_)); }
};

TEST_F(BlocksTest, RegularOnesAreHandedOverInTheBuffer) {
  blocks_.set_regular(buffer_.data(), 3, int_, int_shape_, 4);
  EXPECT_TRUE(blocks_.dense());
  EXPECT_EQ(blocks_.total_bytes(), 48U);
  EXPECT_EQ(blocks_.largest_bytes(), 12U);
  blocks_.use_buffer();
  EXPECT_EQ(blocks_.layout().base, buffer_.data());
  EXPECT_EQ(blocks_.layout().block_bytes, 12U);
  EXPECT_EQ(blocks_.handed(3), buffer_.data() + 36);
  EXPECT_TRUE(blocks_.layout().extents.empty());
}

TEST_F(BlocksTest, ASharedOneIsOneForAll) {
  blocks_.set_shared(buffer_.data(), 3, int_, int_shape_, 4);
  EXPECT_EQ(blocks_.total_bytes(), 12U);
  EXPECT_EQ(blocks_.bytes_of(2), 12U);
  blocks_.use_buffer();
  EXPECT_EQ(blocks_.handed(3), buffer_.data());
}

TEST_F(BlocksTest, OfTypesWithHolesAreNotDense) {
  const MPI_Datatype type = spread();
  blocks_.set_regular(buffer_.data(), 1, type, shape_of(mpi_.job, type), 2);
  EXPECT_FALSE(blocks_.dense());
  blocks_.set_regular(buffer_.data(), 0, type, shape_of(mpi_.job, type), 2);
  EXPECT_TRUE(blocks_.dense()) << "nothing is";
}

TEST_F(BlocksTest, IrregularOnesHaveAnExtentEach) {
  const MPI_Datatype type = mpi_.hindexed({2}, {8}, int_);  // 8 bytes from 8 on
  const std::array<int, 3> counts{1, 0, 2};
  const std::array<int, 3> displacements{2, 50, 0};
  blocks_.set_irregular(buffer_.data(), counts.data(), displacements.data(), type, shape_of(mpi_.job, type), 3);
  EXPECT_TRUE(blocks_.dense());
  EXPECT_EQ(blocks_.total_bytes(), 24U);
  EXPECT_EQ(blocks_.largest_bytes(), 16U);
  blocks_.use_buffer();
  EXPECT_EQ(extents(), (Extents{{24, 8}, {0, 0}, {8, 16}}));
  EXPECT_EQ(blocks_.handed(0), buffer_.data() + 24);
}

TEST_F(BlocksTest, TypesOfEmptyOnesAreNotLookedAt) {
  const std::array<int, 2> counts{0, 2};
  const std::array<int, 2> displacements{3, 16};
  const std::array<MPI_Datatype, 2> types{FakeMpi::handle<MPI_Datatype>(1'000'000), int_};
  blocks_.set_typed(mpi_.job, buffer_.data(), counts.data(), displacements.data(), types.data(), 2);
  blocks_.use_buffer();
  EXPECT_EQ(extents(), (Extents{{0, 0}, {16, 8}}));
}

class BlocksOfNeighbors : public BlocksTest {
 protected:
  // Rank 2 at the places 0 and 2, rank 7 at 1.
  NeighborSide side_{3, {0, 2, 1}, {2, 7}, {0, 2, 3}};

  void set(std::int64_t count_of_last) {
    blocks_.set_neighbors(side_, buffer_.data(), [&](std::uint32_t place) {
      return Blocks::Element{place == 2 ? count_of_last : 1, 32 * static_cast<std::int64_t>(place), int_, int_shape_};
    });
  }
};

TEST_F(BlocksOfNeighbors, SeveralOfOneAreHandedOverAsOne) {
  set(3);
  EXPECT_FALSE(blocks_.dense());  // they are apart in the buffer
  EXPECT_EQ(pair_with(blocks_, 2).peer, 0U);
  EXPECT_EQ(pair_with(blocks_, 2).bytes, 16U);
  EXPECT_EQ(pair_with(blocks_, 7).peer, 2U);
  EXPECT_EQ(pair_with(blocks_, 7).bytes, 4U);
  EXPECT_EQ(pair_with(blocks_, 3).bytes, 0U);
  EXPECT_EQ(rank_of(blocks_, 1), 2U);
}

class StagedBlocks : public BlocksOfNeighbors {
 protected:
  ~StagedBlocks() override { blocks_.reset(client_.get()); }
  client::test::FakeNode node_;
  client::AttachedEndpoint client_ = node_.attach();
};

TEST_F(StagedBlocks, ArePackedOneBehindTheOther) {
  const MPI_Datatype type = spread();
  std::string text = "....AAAA....BBBBCCCC....DDDD";  // 12 bytes from one to the next
  blocks_.set_regular(text.data(), 1, type, shape_of(mpi_.job, type), 2);
  ASSERT_TRUE(blocks_.use_staging(*client_));
  EXPECT_TRUE(blocks_.staged());
  EXPECT_EQ(blocks_.handed(1) - blocks_.handed(0), 16) << "each block is aligned";
  blocks_.copy(Packing::pack, {}, 2);
  const auto block = [&](std::uint32_t peer) {
    return std::string(reinterpret_cast<const char*>(blocks_.handed(peer)), blocks_.bytes_of(peer));
  };
  EXPECT_EQ(block(0), "AAAABBBB");
  EXPECT_EQ(block(1), "CCCCDDDD");
}

TEST_F(StagedBlocks, OfOneNeighborFollowEachOther) {
  set(3);
  ASSERT_TRUE(blocks_.use_staging(*client_));
  EXPECT_EQ(extents(), (Extents{{0, 16}, {16, 4}}));
  EXPECT_EQ(blocks_.handed(1) - blocks_.handed(0), 4);
  EXPECT_EQ(blocks_.handed(2) - blocks_.handed(0), 16);
}

TEST_F(StagedBlocks, LeaveOneOutWhereItIsInItsPlace) {
  std::string text = "AAAABBBBCCCC";
  blocks_.set_regular(text.data(), 1, int_, int_shape_, 3);
  ASSERT_TRUE(blocks_.use_staging(*client_));
  for (std::uint32_t peer = 0; peer < 3; ++peer) *blocks_.handed(peer) = std::byte{'x'};
  blocks_.copy(Packing::unpack, {}, 1);
  EXPECT_EQ(text.substr(4, 4), "BBBB");
  EXPECT_EQ(text[0], 'x');
  EXPECT_EQ(text[8], 'x');
}

TEST_F(BlocksTest, KeptTypesOutliveTheProgramsOwn) {
  const MPI_Datatype a = spread();
  const MPI_Datatype b = mpi_.contiguous(2, int_);
  const std::array<int, 4> counts{1, 1, 1, 1};
  const std::array<int, 4> displacements{0, 20, 40, 60};
  const std::array<MPI_Datatype, 4> types{a, a, int_, b};
  blocks_.set_typed(mpi_.job, buffer_.data(), counts.data(), displacements.data(), types.data(), 4);
  const std::size_t before = mpi_.types();
  blocks_.keep_type();
  EXPECT_EQ(mpi_.types(), before + 2) << "one for two in a row, none for a predefined one";
  blocks_.keep_type();
  EXPECT_EQ(mpi_.types(), before + 2);
  blocks_.reset(nullptr);
  EXPECT_EQ(mpi_.types(), before);
}

}  // namespace
}  // namespace outrigger::mpi::test
