// What UCX reports of a connection decides how chunks go over it.
#include <gtest/gtest.h>

#include <utility>

#include "fabric/ucx/worker.hpp"

namespace outrigger::testing {
namespace {

class Nothing final : public fabric::ucx::WorkerEvents {
  ucs_status_t arrived(std::span<const std::byte> /*header*/, void* /*data*/, std::size_t /*bytes*/,
                       bool /*rendezvous*/) override {
    return UCS_OK;
  }
};

// Of a connection from a worker to itself.
bool moves_memory(const fabric::ucx::Context& context) {
  Nothing nothing;
  bool broken = false;
  auto worker = fabric::ucx::Worker::open(context, nothing);
  EXPECT_TRUE(worker) << worker.error();
  auto endpoint = fabric::ucx::Endpoint::open(worker.value(), worker.value().address(), broken);
  EXPECT_TRUE(endpoint) << endpoint.error();
  const bool moves = endpoint.value().moves_memory();
  for (int turn = 0; turn < 1000; ++turn)
    (void)worker.value().progress();  // UCX 1.13 dislikes an end while it connects
  return moves;
}

TEST(Endpoints, OverTcpProcessorsCopy) {
  auto context = fabric::ucx::Context::open("tcp");
  ASSERT_TRUE(context) << context.error();
  EXPECT_FALSE(moves_memory(context.value()));
}

TEST(Endpoints, RdmaMovesMemory) {
  auto context = fabric::ucx::Context::open("rc,ud");
  if (!context) GTEST_SKIP() << "no RDMA device: " << context.error();
  EXPECT_TRUE(moves_memory(context.value()));
}

}  // namespace
}  // namespace outrigger::testing
