#include "mpi/completion/request_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "fake_mpi.hpp"
#include "mpi/collectives/offloaded_collective.hpp"

namespace outrigger::mpi::test {
namespace {

MPI_Request request(std::uint64_t number) {
  return FakeMpi::handle<MPI_Request>(number);
}

TEST(RequestTable, HoldsWhatAMapHolds) {
  static constinit detail::RequestTable table;  // like the library's: never destroyed
  std::map<std::uint64_t, Operation*> model;
  std::array<Operation, 4> operations;
  std::mt19937_64 random(1);
  // Few keys, so that they repeat; many steps, so that entries are moved back past the table's end.
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t key = random() % 300;
    if (model.contains(key)) {
      table.erase(key);
      model.erase(key);
    } else if (step % 1000 < 700) {
      model[key] = &operations[key % operations.size()];
      table.insert(key, model[key]);
    } else {
      table.erase(key);  // one that is missing
    }
    if (step % 50 != 0) continue;
    for (std::uint64_t each = 0; each < 300; ++each) {
      const auto found = model.find(each);
      ASSERT_EQ(table.find(each), found == model.end() ? nullptr : found->second) << each << " in step " << step;
    }
    std::size_t visited = 0;
    table.each([&](const Operation&) { ++visited; });
    ASSERT_EQ(visited, model.size());
  }
}

TEST(RequestTable, FindsNothingBeforeTheFirstInsertion) {
  static constinit detail::RequestTable table;  // like the library's: never destroyed
  EXPECT_EQ(table.find(1), nullptr);
  table.erase(1);
}

class Requests : public ::testing::Test {
 protected:
  Requests() {
    insert_request(request(7), first_);
    insert_request(request(9), second_);
  }
  ~Requests() override {
    erase_request(request(7));
    erase_request(request(9));
  }
  Operation first_;
  Operation second_;
};

TEST(OutstandingRequests, AreCounted) {
  EXPECT_TRUE(nothing_outstanding());
  count_outstanding();
  count_outstanding();
  uncount_outstanding();
  EXPECT_FALSE(nothing_outstanding());
  uncount_outstanding();
  EXPECT_TRUE(nothing_outstanding());
}

TEST_F(Requests, AreNotFoundOnceNobodyUsesTheirOperation) {
  first_.holders = 0;
  EXPECT_FALSE(find_request(request(7)));
  EXPECT_EQ(first_.holders, 0U);
}

TEST_F(Requests, AreHeldWhileTheyAreLookedAt) {
  {
    const OperationHold found = find_request(request(7));
    ASSERT_TRUE(found);
    EXPECT_EQ(&*found, &first_);
    EXPECT_EQ(first_.holders, 2U);
  }
  EXPECT_EQ(first_.holders, 1U);
  EXPECT_FALSE(find_request(request(8)));
}

TEST_F(Requests, AreFoundAmongOthers) {
  const std::vector<MPI_Request> given{request(8), request(9), request(7), request(9)};
  std::vector<std::pair<std::size_t, Operation*>> found;
  find_requests(given, [&](std::size_t index, Operation& operation) { found.emplace_back(index, &operation); });
  const std::vector<std::pair<std::size_t, Operation*>> expected{{1, &second_}, {2, &first_}, {3, &second_}};
  EXPECT_EQ(found, expected);
  std::set<Operation*> all;
  each_request([&](Operation& operation) { all.insert(&operation); });
  EXPECT_EQ(all, (std::set<Operation*>{&first_, &second_}));
}

}  // namespace
}  // namespace outrigger::mpi::test
