// Ranks come and go. Coming, each goes through stages:
//
//   connecting   it is told who is here
//   wired        it has answered, and lets its network rest when it has seen so
//   proving      what is written to its memory is read back without its help
//   trying       so are exported handles, where it offers some
//   reached      or, at any stage, failed
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

// What has become of a rank, each once: connected (then the rank may leave its network alone), then reached without the
// rank's help; or a reason why not.
struct Attached {
  enum class What { wired, reached, failed };
  What what;
  WorldRank rank;
  std::string reason;
  std::uint32_t reach = 0;  // of `reached`: kReach* bits
};

class Attachments {
 public:
  // `process`: the number of this one among all that have been started for the host.
  Attachments(const DpuOptions& options, HostFabric& node, RemoteRanks& ranks, std::uint32_t process,
              std::uint32_t world_size)
      : options_(options), node_(node), ranks_(ranks), process_(process), world_size_(world_size) {}
  // Memory that ranks export is imported from now on.
  void use_imports(const std::shared_ptr<Importer>& importer, ImportCache& imports);

  // As DpuFabric's.
  [[nodiscard]] Status add(WorldRank rank, bool serves, const RankAddress& address);
  [[nodiscard]] std::optional<Attached> next();
  void look_after(Clock::time_point now);
  void drop(WorldRank rank);
  [[nodiscard]] std::optional<WorldRank> unreachable(Clock::time_point now);
  [[nodiscard]] const std::string& lanes() const { return lanes_; }

  // The rank's answer to what it was told.
  void answered(WorldRank rank);
  // The next stage, where what has been read of the rank allows it.
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
  std::shared_ptr<Importer> importer_;  // null: there is no alias
  ImportCache* imports_ = nullptr;
  std::string lanes_;
  std::vector<Waiting> waiting_;  // to be connected
  std::deque<Attached> attached_;
  std::deque<RankMessage> hellos_;  // UCX may send them when their ranks are gone
};

}  // namespace outrigger::fabric::dpu
