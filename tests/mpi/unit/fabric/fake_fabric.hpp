// A library with libfabric's way to a completion queue, as the calls of its headers take it.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace outrigger::mpi::test {

struct FakeQueue;
struct QueueTable {
  std::size_t bytes;
  ssize_t (*read)(FakeQueue* queue, void* entries, std::size_t count);
  int (*other)(FakeQueue* queue);
};
struct FakeQueue {
  std::size_t kind;
  void* context;
  void* common;
  const QueueTable* table;
};
// Kind of queues whose provider gives them their table after they have been opened.
inline constexpr std::size_t kTableComesLater = 1000;
void give_table(FakeQueue& queue);

struct FakeDomain;
struct DomainTable {
  std::size_t bytes;
  int (*open_vector)(FakeDomain* domain);
  int (*open_queue)(FakeDomain* domain, void* attributes, FakeQueue** queue, void* context);
};
struct FakeDomain {
  std::size_t kind;
  void* context;
  void* common;
  const DomainTable* table;
};
struct FakeFabric;
struct FabricTable {
  std::size_t bytes;
  int (*open_domain)(FakeFabric* fabric, void* information, FakeDomain** domain, void* context);
};
struct FakeFabric {
  std::size_t kind;
  void* context;
  void* common;
  const FabricTable* table;
};

}  // namespace outrigger::mpi::test

extern "C" int fi_fabric(void* attributes, outrigger::mpi::test::FakeFabric** fabric, void* context);
