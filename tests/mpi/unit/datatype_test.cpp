#include "mpi/types/datatype.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "fake_mpi.hpp"
#include "mpi/types/packing.hpp"

namespace outrigger::mpi::test {
namespace {

class Datatypes : public ::testing::Test {
 protected:
  FakeMpi mpi_;
  MPI_Datatype int_ = mpi_.predefined(4);
  MPI_Datatype char_ = mpi_.predefined(1);

  // Each piece begins where the last one ended.
  [[nodiscard]] bool is_dense(MPI_Datatype type) {
    std::int64_t end = 0;
    for (bool any = false; const Piece& piece : mpi_.at(type).typemap) {
      if (any && piece.offset != end) return false;
      end = piece.offset + piece.bytes;
      any = true;
    }
    return true;
  }

  // The shape equals the typemap.
  void expect_right(const std::string& name, MPI_Datatype type) {
    const FakeType& known = mpi_.at(type);
    const TypeShape shape = shape_of(mpi_.job, type);
    std::int64_t size = 0;
    for (const Piece& piece : known.typemap) size += piece.bytes;
    EXPECT_EQ(shape.size, size) << name;
    EXPECT_EQ(shape.extent, known.extent) << name;
    EXPECT_EQ(shape.dense, is_dense(type)) << name;
    if (!shape.dense || size == 0) return;
    EXPECT_EQ(shape.first, known.typemap.front().offset) << name;
  }
};

TEST_F(Datatypes, PredefinedOnesAreDense) {
  const TypeShape shape = shape_of(mpi_.job, int_);
  EXPECT_TRUE(shape.predefined && shape.committed && shape.dense);
  EXPECT_EQ(shape.size, 4);
  EXPECT_TRUE(shape.dense_for(7));
  EXPECT_EQ(mpi_.at(int_).attribute, nullptr);
}

TEST_F(Datatypes, EachConstructorIsLookedThrough) {
  const std::vector<std::pair<std::string, MPI_Datatype>> dense{
      {"dup", mpi_.dup(int_)},
      {"resized", mpi_.resized(-4, 12, int_)},
      {"contiguous", mpi_.contiguous(5, int_)},
      {"contiguous of none", mpi_.contiguous(0, int_)},
      {"vector", mpi_.vector(3, 2, 2, int_)},
      {"vector of one block", mpi_.vector(1, 2, 9, int_)},
      {"hvector", mpi_.hvector(3, 2, 8, int_)},
      {"indexed", mpi_.indexed({2, 0, 1}, {3, 100, 5}, int_)},
      {"hindexed", mpi_.hindexed({1, 2}, {-4, 0}, int_)},
      {"indexed_block", mpi_.indexed_block(2, {1, 3, 5}, int_)},
      {"hindexed_block", mpi_.hindexed_block(2, {8, 16}, int_)},
      {"struct", mpi_.structure({1, 4, 1}, {0, 4, 8}, {int_, char_, int_})},
      {"rows of a matrix", mpi_.subarray({4, 6}, {2, 6}, {1, 0}, MPI_ORDER_C, int_)},
      {"a part of a row", mpi_.subarray({4, 6}, {1, 3}, {2, 1}, MPI_ORDER_C, int_)},
      {"columns in Fortran", mpi_.subarray({4, 6}, {4, 2}, {0, 3}, MPI_ORDER_FORTRAN, int_)},
  };
  for (const auto& [name, type] : dense) {
    ASSERT_TRUE(is_dense(type)) << name;
    expect_right(name, type);
  }
  const std::vector<std::pair<std::string, MPI_Datatype>> with_holes{
      {"vector", mpi_.vector(3, 2, 3, int_)},
      {"hvector", mpi_.hvector(2, 1, 5, int_)},
      {"indexed", mpi_.indexed({1, 1}, {0, 2}, int_)},
      {"out of order", mpi_.indexed({1, 1}, {1, 0}, int_)},
      {"hindexed", mpi_.hindexed({1, 1}, {0, 6}, int_)},
      {"indexed_block", mpi_.indexed_block(1, {0, 1, 3}, int_)},
      {"hindexed_block", mpi_.hindexed_block(1, {0, 8}, int_)},
      {"struct", mpi_.structure({1, 1}, {0, 8}, {char_, int_})},
      {"struct out of order", mpi_.structure({1, 1}, {4, 0}, {int_, int_})},
      {"contiguous of resized ones", mpi_.contiguous(2, mpi_.resized(0, 8, int_))},
      {"columns of a matrix", mpi_.subarray({4, 6}, {4, 2}, {0, 1}, MPI_ORDER_C, int_)},
      // As many bytes as from the first to the last.
      {"a hole, and an int twice", mpi_.structure({1, 1}, {0, 8}, {mpi_.vector(2, 1, 2, int_), int_})},
      {"a column, and an int twice",
       mpi_.structure({1, 1}, {0, 8}, {mpi_.subarray({2, 2}, {2, 1}, {0, 0}, MPI_ORDER_C, int_), int_})},
      {"rows in Fortran", mpi_.subarray({4, 6}, {2, 6}, {1, 0}, MPI_ORDER_FORTRAN, int_)},
  };
  for (const auto& [name, type] : with_holes) {
    ASSERT_FALSE(is_dense(type)) << name;
    expect_right(name, type);
  }
}

TEST_F(Datatypes, AnElementWithAGapBehindIsDenseAlone) {
  const TypeShape shape = shape_of(mpi_.job, mpi_.resized(0, 8, int_));
  EXPECT_TRUE(shape.dense_for(1));
  EXPECT_FALSE(shape.dense_for(2));
}

TEST_F(Datatypes, ADerivedTypeIsLookedThroughOnce) {
  const MPI_Datatype part = mpi_.vector(2, 1, 1, int_);
  const MPI_Datatype type = mpi_.contiguous(3, part);
  for (int i = 0; i < 3; ++i) expect_right("contiguous", type);
  EXPECT_EQ(mpi_.at(type).looks, 1);
  EXPECT_EQ(mpi_.at(part).looks, 1);
  EXPECT_NE(mpi_.at(type).attribute, nullptr);
  EXPECT_EQ(mpi_.at(part).references, 1) << "what the MPI handed out is given back";
}

TEST_F(Datatypes, OneThatIsNotCommittedIsNotRemembered) {
  const MPI_Datatype type = mpi_.contiguous(3, int_);
  mpi_.at(type).committed = false;
  EXPECT_FALSE(shape_of(mpi_.job, type).committed);
  EXPECT_EQ(mpi_.at(type).attribute, nullptr);
  mpi_.at(type).committed = true;
  EXPECT_TRUE(shape_of(mpi_.job, type).committed);
  EXPECT_NE(mpi_.at(type).attribute, nullptr);
}

TEST_F(Datatypes, ATypeThatIsNamedTwiceLevelByLevelIsLookedAtOnceEach) {
  MPI_Datatype type = int_;
  for (int level = 0; level < 24; ++level) {
    type = mpi_.structure({1, 0}, {0, 0}, {type, type});  // 2^24 steps, if each were followed
  }
  const std::size_t types = mpi_.types();
  expect_right("deep", type);
  EXPECT_EQ(mpi_.at(type).looks, 1);
  EXPECT_EQ(mpi_.types(), types);
}

TEST_F(Datatypes, WhereTheMpiNamesCopiesTheLooksAreLimited) {
  mpi_.give_copies();
  MPI_Datatype type = int_;
  for (int level = 0; level < 24; ++level) type = mpi_.structure({1, 0}, {0, 0}, {type, type});
  const std::size_t types = mpi_.types();
  EXPECT_FALSE(shape_of(mpi_.job, type).dense);  // it is, but packing it is correct, too
  EXPECT_EQ(mpi_.types(), types) << "the copies are given back";
}

#if OUTRIGGER_MPI4
TEST_F(Datatypes, OneMadeWithLargeCountsIsNotLookedThrough) {
  const MPI_Datatype type = mpi_.contiguous(3, int_);
  mpi_.at(type).large_counts = true;
  EXPECT_FALSE(shape_of(mpi_.job, type).dense);
  EXPECT_EQ(mpi_.at(type).looks, 0);
}
#endif

TEST_F(Datatypes, ElementsArePackedInTypemapOrder) {
  const MPI_Datatype type = mpi_.indexed({1, 1}, {2, 0}, char_);
  const TypeShape shape = shape_of(mpi_.job, type);
  std::vector<char> elements{'b', '.', 'a', 'd', '.', 'c'};
  std::vector<char> row(4);
  auto* const packed = reinterpret_cast<std::byte*>(row.data());
  const TypedElements from{reinterpret_cast<std::byte*>(elements.data()), 2, type, shape};
  copy_packed(Packing::pack, from, packed, {});
  EXPECT_EQ(std::string(row.begin(), row.end()), "abcd");
  std::vector<char> back(6, '.');
  copy_packed(Packing::unpack, {reinterpret_cast<std::byte*>(back.data()), 2, type, shape}, packed, {});
  EXPECT_EQ(back, elements);
}

}  // namespace
}  // namespace outrigger::mpi::test
