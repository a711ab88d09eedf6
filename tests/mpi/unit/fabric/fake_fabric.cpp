#include "fake_fabric.hpp"

#include <cerrno>

namespace outrigger::mpi::test {
namespace {

// The number of entries that are there is the queue's kind.
ssize_t read_queue(FakeQueue* queue, void* /*entries*/, std::size_t /*count*/) {
  return queue->kind == 0 ? -EAGAIN : static_cast<ssize_t>(queue->kind);
}
int other_of_queue(FakeQueue* /*queue*/) {
  return 7;
}
// As linkers do it, words come before it.
struct {
  void* before[2];
  QueueTable table;
} const queue_table_in_library{{}, {sizeof(QueueTable), &read_queue, &other_of_queue}};
const QueueTable& queue_table = queue_table_in_library.table;

int open_vector(FakeDomain* /*domain*/) {
  return 8;
}
int open_queue(FakeDomain* /*domain*/, void* attributes, FakeQueue** queue, void* context) {
  if (attributes == nullptr) return -EINVAL;
  const std::size_t kind = *static_cast<std::size_t*>(attributes);
  *queue = new FakeQueue{kind, context, nullptr, kind == kTableComesLater ? nullptr : &queue_table};
  return 0;
}
const DomainTable domain_table{sizeof(DomainTable), &open_vector, &open_queue};

int open_domain(FakeFabric* /*fabric*/, void* /*information*/, FakeDomain** domain, void* context) {
  *domain = new FakeDomain{1, context, nullptr, &domain_table};
  return 0;
}
const FabricTable fabric_table{sizeof(FabricTable), &open_domain};
FakeFabric the_fabric{1, nullptr, nullptr, &fabric_table};

}  // namespace
}  // namespace outrigger::mpi::test

void outrigger::mpi::test::give_table(FakeQueue& queue) {
  queue.table = &queue_table;
}

// All share one, as some providers of libfabric do.
int fi_fabric(void* /*attributes*/, outrigger::mpi::test::FakeFabric** fabric, void* /*context*/) {
  *fabric = &outrigger::mpi::test::the_fabric;
  return 0;
}
