#include "mpi/polite/fabric_reads.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "fabric/fake_fabric.hpp"

namespace outrigger::mpi::test {
namespace {

constexpr ssize_t kRedirected = 99;
const void* last_queue = nullptr;

ssize_t read_elsewhere(void* queue, void* /*entries*/, std::size_t /*count*/) {
  last_queue = queue;
  return kRedirected;
}

void here() {}

class FabricReads : public testing::Test {
 protected:
  static void SetUpTestSuite() { prepare_fabric_reads(reinterpret_cast<const void*>(&here)); }
  void TearDown() override { redirect_fabric_reads(nullptr); }

  // As an MPI opens it.
  FakeQueue* queue_with(std::size_t entries) {
    FakeFabric* fabric = nullptr;
    EXPECT_EQ(fi_fabric(nullptr, &fabric, nullptr), 0);
    FakeDomain* domain = nullptr;
    EXPECT_EQ(fabric->table->open_domain(fabric, nullptr, &domain, nullptr), 0);
    domains_.emplace_back(domain);
    FakeQueue* queue = nullptr;
    EXPECT_EQ(domain->table->open_queue(domain, &entries, &queue, nullptr), 0);
    queues_.emplace_back(queue);
    return queue;
  }
  static ssize_t read(FakeQueue* queue) { return queue->table->read(queue, nullptr, 1); }

  std::vector<std::unique_ptr<FakeDomain>> domains_;
  std::vector<std::unique_ptr<FakeQueue>> queues_;
};

TEST_F(FabricReads, AreNativeUntilTheyAreRedirected) {
  FakeQueue* const queue = queue_with(3);
  EXPECT_TRUE(has_fabric_queues());
  EXPECT_EQ(read(queue), 3);
  redirect_fabric_reads(&read_elsewhere);
  EXPECT_EQ(read(queue), kRedirected);
  EXPECT_EQ(last_queue, queue);
  EXPECT_EQ(native_read(queue)(queue, nullptr, 1), 3);
  redirect_fabric_reads(nullptr);
  EXPECT_EQ(read(queue), 3);
}

TEST_F(FabricReads, OfLaterQueuesAreRedirectedToo) {
  redirect_fabric_reads(&read_elsewhere);
  FakeQueue* const queue = queue_with(0);
  EXPECT_EQ(read(queue), kRedirected);
  EXPECT_EQ(native_read(queue)(queue, nullptr, 1), -EAGAIN);
}

// fi_fabric() may return the same object to all.
TEST_F(FabricReads, EachQueueHasItsOwnFunction) {
  FakeQueue* const one = queue_with(1);
  FakeQueue* const other = queue_with(2);
  redirect_fabric_reads(&read_elsewhere);
  EXPECT_EQ(native_read(one)(one, nullptr, 1), 1);
  EXPECT_EQ(native_read(other)(other, nullptr, 1), 2);
}

TEST_F(FabricReads, OfQueuesThatGetTheirTableLaterAreNative) {
  redirect_fabric_reads(&read_elsewhere);
  FakeQueue* const queue = queue_with(kTableComesLater);
  ASSERT_EQ(queue->table, nullptr);
  const FakeQueue* const other = queue_with(4);
  give_table(*queue);
  EXPECT_EQ(read(queue), static_cast<ssize_t>(kTableComesLater));
  EXPECT_EQ(native_read(queue)(queue, nullptr, 1), static_cast<ssize_t>(kTableComesLater));
  EXPECT_NE(queue->table, other->table);
}

TEST_F(FabricReads, OtherFunctionsAndErrorsAreLeftAlone) {
  FakeQueue* const queue = queue_with(0);
  EXPECT_EQ(queue->table->other(queue), 7);
  FakeDomain* const domain = domains_.back().get();
  EXPECT_EQ(domain->table->open_vector(domain), 8);
  FakeQueue* none = nullptr;
  EXPECT_EQ(domain->table->open_queue(domain, nullptr, &none, nullptr), -EINVAL);
  EXPECT_EQ(none, nullptr);
}

}  // namespace
}  // namespace outrigger::mpi::test
