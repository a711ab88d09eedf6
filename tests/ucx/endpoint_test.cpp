// UCX's report about a connection decides how chunks go over it.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "fabric/ucx/route.hpp"
#include "fabric/ucx/worker.hpp"

namespace outrigger::testing {
namespace {

class Nothing final : public fabric::ucx::WorkerEvents {
  ucs_status_t arrived(std::span<const std::byte> /*header*/, void* /*data*/, std::size_t /*bytes*/,
                       bool /*rendezvous*/) override {
    return UCS_OK;
  }
};

// True if the network moves memory in a connection from a worker to itself.
bool moves_memory(const fabric::ucx::Context& context) {
  Nothing nothing;
  bool broken = false;
  auto worker = fabric::ucx::Worker::open(context, nothing);
  EXPECT_TRUE(worker) << worker.error();
  auto endpoint = fabric::ucx::Endpoint::open(worker.value(), worker.value().address(), broken);
  EXPECT_TRUE(endpoint) << endpoint.error();
  const bool moves = !endpoint.value().lanes().memory.empty();
  for (int turn = 0; turn < 1000; ++turn)
    (void)worker.value().progress();  // UCX 1.13 dislikes an end while it connects
  return moves;
}

TEST(Lanes, AreReadFromWhatUcxPrints) {
  const auto lanes = fabric::ucx::lanes_in(
      "#\n# UCP endpoint to <no debug data>\n#\n#               peer: <no debug data>\n"
      "#                 lane[0]:  2:rc_verbs/mlx5_0:1.0 md[1]   -> md[1]/ib/sysdev[3] rma_bw#0 am am_bw#0\n"
      "#                 lane[1]:  5:rc_verbs/mlx5_1:1.0 md[2]   -> md[2]/ib/sysdev[4] rma_bw#1\n"
      "#                 lane[2]:  5:rc_verbs/mlx5_1:1.1 md[2]   -> md[2]/ib/sysdev[4] rma_bw#2 am_bw#1\n"
      "#                 lane[3]:  7:ud_verbs/mlx5_0:1.0 md[1]   -> md[1]/ib/sysdev[3] wireup\n"
      "#\n#                tag_send: 0..<egr/short>..1 / to\n");
  EXPECT_EQ(lanes.memory, (std::vector<std::string>{"rc_verbs/mlx5_0:1", "rc_verbs/mlx5_1:1"}));
  EXPECT_EQ(lanes.messages, (std::vector<std::string>{"rc_verbs/mlx5_0:1", "rc_verbs/mlx5_1:1"}));
  const auto tcp =
      fabric::ucx::lanes_in("#   lane[0]:  0:tcp/eth0.100.0 md[0] -> md[0]/tcp/sysdev[255] amo#0 am\n# lane[1]");
  EXPECT_EQ(tcp.messages, std::vector<std::string>{"tcp/eth0.100"});
  EXPECT_TRUE(tcp.memory.empty());
  EXPECT_EQ(text_of(fabric::ucx::route_over(tcp)), "messages (tcp/eth0.100)");
  EXPECT_EQ(text_of(fabric::ucx::route_over(lanes)), "rdma (rc_verbs/mlx5_0:1,rc_verbs/mlx5_1:1)");
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
