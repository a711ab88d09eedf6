// Time from post to completion through a service process. All ranks are clients in one thread; the service process is a
// thread on its own core (OUTRIGGER_BENCH_SERVICE_CPU, by default the last one allowed).
#include <benchmark/benchmark.h>
#include <sched.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "service/node.hpp"
#include "service/notices/log.hpp"
#include "service/placement/cores.hpp"

namespace outrigger {
namespace {

using client::RankEndpoint;

int service_cpu() {
  if (const char* cpu = std::getenv("OUTRIGGER_BENCH_SERVICE_CPU")) return std::atoi(cpu);
  const auto topology = service::read_topology();
  return topology && topology.value().cores.size() > 1 ? topology.value().cores.back().cpus.front() : -1;
}

void keep_off(int cpu) {
  cpu_set_t set;
  if (cpu < 0 || ::sched_getaffinity(0, sizeof(set), &set) != 0) return;
  CPU_CLR(static_cast<std::size_t>(cpu), &set);
  (void)::sched_setaffinity(0, sizeof(set), &set);
}

class Ranks {
 public:
  Ranks(std::uint32_t count, std::uint64_t block_bytes, bool shared) : block_bytes_(block_bytes) {
    testing::NodeOptions options;
    options.ranks = count;
    if (const int cpu = service_cpu(); cpu >= 0) {
      keep_off(cpu);
      options.service_cpus = {cpu};
    }
    node_ = std::make_unique<testing::Node>(options);
    std::vector<WorldRank> members;
    for (std::uint32_t i = 0; i < count; ++i) members.emplace_back(i);
    for (auto& attached : node_->attach_all()) {
      if (!attached) std::abort();
      clients_.push_back(std::move(attached).value());
    }
    const std::uint64_t bytes = std::uint64_t{count} * block_bytes;
    private_.resize(shared ? 0 : 2 * std::uint64_t{count} * bytes);
    for (std::uint32_t i = 0; i < count; ++i) {
      groups_.push_back(clients_[i]->define_group(GroupId{3, 3}, members, GroupRank{i}));
      for (std::vector<std::byte*>* side : {&send_, &receive_}) {
        std::byte* memory = shared ? static_cast<std::byte*>(clients_[i]->heap().allocate_for_program(bytes))
                                   : private_.data() + (side == &send_ ? i : count + i) * bytes;
        std::fill_n(memory, bytes, std::byte{1});
        side->push_back(memory);
      }
    }
  }

  void alltoall(Algorithm algorithm) {
    std::vector<client::PendingOperationPtr> pending;
    for (std::uint32_t i = 0; i < clients_.size(); ++i) {
      client::OperationRequest request;
      request.group = groups_[i];
      request.sequence = sequence_;
      request.algorithm = algorithm;
      request.send.base = send_[i];
      request.receive.base = receive_[i];
      request.send.block_bytes = request.receive.block_bytes = block_bytes_;
      request.send.stride_bytes = request.receive.stride_bytes = static_cast<std::int64_t>(block_bytes_);
      pending.push_back(clients_[i]->post(request));
    }
    posted_ = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < clients_.size(); ++i) {
      while (!clients_[i]->poll(*pending[i])) {
      }
    }
    ++sequence_;
  }

  [[nodiscard]] std::chrono::steady_clock::time_point posted() const { return posted_; }
  [[nodiscard]] std::uint64_t bytes_per_operation() const { return clients_.size() * clients_.size() * block_bytes_; }

 private:
  std::uint64_t block_bytes_;
  std::unique_ptr<testing::Node> node_;
  std::vector<client::AttachedEndpoint> clients_;
  std::vector<std::shared_ptr<const client::Group>> groups_;
  std::vector<std::byte> private_;
  std::vector<std::byte*> send_;
  std::vector<std::byte*> receive_;
  std::uint64_t sequence_ = 0;
  std::chrono::steady_clock::time_point posted_;
};

void alltoall(benchmark::State& state) {
  const auto ranks = static_cast<std::uint32_t>(state.range(0));
  const auto block_bytes = static_cast<std::uint64_t>(state.range(1));
  const auto algorithm = static_cast<Algorithm>(state.range(3));
  Ranks job(ranks, block_bytes, state.range(2) != 0);
  std::chrono::duration<double> posting{0};
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    job.alltoall(algorithm);
    posting += job.posted() - begin;
  }
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["post_us_per_rank"] = 1e6 * posting.count() / iterations / ranks;
  state.SetBytesProcessed(static_cast<std::int64_t>(job.bytes_per_operation()) * state.iterations());
}

BENCHMARK(alltoall)
    ->ArgNames({"ranks", "block", "mapped", "algorithm"})
    ->Args({8, 8, 1, 1})
    ->Args({8, 1024, 1, 1})
    ->Args({8, 1024, 1, 2})
    ->Args({8, 1024, 0, 1})
    ->Args({2, 1 << 16, 1, 1})
    ->Args({2, 1 << 20, 1, 1})
    ->Args({4, 1 << 20, 1, 1})
    ->Args({4, 1 << 20, 1, 2})
    ->Args({4, 1 << 20, 0, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace outrigger

int main(int argc, char** argv) {
  outrigger::service::start_log("benchmark");
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
