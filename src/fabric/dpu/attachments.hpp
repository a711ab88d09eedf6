// Attaches and detaches ranks. An arriving rank goes through these stages:
//
//   connecting   hello sent, with this process's address
//   wired        it has answered, and stops driving its network when it has seen so
//   proving      a write to its memory is read back without its help
//   trying       the same for exported handles, if it offers some
//   reached      or, from any stage, failed
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "fabric/dpu/alias.hpp"
#include "fabric/dpu/dpu_options.hpp"
#include "fabric/dpu/remote_ranks.hpp"
#include "fabric/host/host_fabric.hpp"

namespace outrigger::fabric::dpu {

// Result for a rank, each once: first `wired` (the rank may stop driving its network), then `reached` (its memory works
// without its help), or `failed` with the reason.
struct Attached {
  enum class What { wired, reached, failed };
  What what;
  WorldRank rank;
  std::string reason;
  std::uint32_t reach = 0;  // of `reached`: kReach* bits
};

class Attachments {
 public:
  // `process`: this process's number among all that were started for the host.
  Attachments(const DpuOptions& options, HostFabric& node, RemoteRanks& ranks, std::uint32_t process,
              std::uint32_t world_size)
      : options_(options), node_(node), ranks_(ranks), process_(process), world_size_(world_size) {}
  // From now on imports memory that ranks export.
  void use_imports(const std::shared_ptr<Importer>& importer, ImportCache& imports);

  // See DpuFabric.
  [[nodiscard]] Status add(WorldRank rank, bool serves, const RankAddress& address);
  [[nodiscard]] std::optional<Attached> next();
  void look_after(Clock::time_point now);
  void drop(WorldRank rank);
  [[nodiscard]] std::optional<WorldRank> unreachable(Clock::time_point now);
  [[nodiscard]] const std::string& lanes() const { return lanes_; }

  // The rank has answered the hello.
  void answered(WorldRank rank);
  // Enters the next stage if the rank's state allows it.
  void step(RemoteRank& rank);

 private:
  void connect_waiting();
  [[nodiscard]] Status begin(WorldRank rank, bool serves, const RankAddress& address);
  [[nodiscard]] Result<RemoteRank*> connect(WorldRank rank, bool serves, const RankAddress& address);
  void say_hello(RemoteRank& rank);
  void prove(RemoteRank& rank);
  void read_proof(WorldRank number);
  void proof_read(WorldRank number, std::uint32_t proof);
  void try_alias(RemoteRank& rank);
  void leave(RemoteRank& rank);
  void write_proof(RemoteRank& rank, std::uint32_t of_rank_quiet, Rma::Done done);
  void tell(RemoteRank& rank, Attached::What what, const std::string& reason = {});

  struct Waiting {
    WorldRank rank;
    RankAddress address;
  };

  const DpuOptions& options_;
  HostFabric& node_;
  RemoteRanks& ranks_;
  std::uint32_t process_;
  std::uint32_t world_size_;
  std::shared_ptr<Importer> importer_;  // nullptr without alias
  ImportCache* imports_ = nullptr;
  std::string lanes_;
  std::vector<Waiting> waiting_;  // to be connected
  std::deque<Attached> attached_;
  std::deque<RankMessage> hellos_;  // kept: UCX may send them after their ranks are gone
};

}  // namespace outrigger::fabric::dpu
