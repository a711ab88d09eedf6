// Ranks' counts outlive the ranks: the keeper writes them if no rank called MPI_Finalize.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "report/ledger.hpp"
#include "service/keeper/events.hpp"
#include "service/keeper/ranks/process_end.hpp"
#include "service/node.hpp"

namespace outrigger::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

report::Ledger make_ledger(std::uint32_t rank, const std::string& path) {
  report::Ledger ledger = std::move(report::Ledger::create()).value();
  ledger.header().world_rank = rank;
  ledger.header().world_size = 2;
  report::set_text(ledger.header().path, path);
  report::LedgerRow& row = ledger.row(ledger.header().row_count++);
  row.kind = static_cast<std::uint32_t>(index_of(CallKind{CollectiveCall::barrier, CallForm::blocking}));
  row.calls = 5;
  return ledger;
}

std::vector<client::AttachedEndpoint> attach_both(Node& node) {
  std::vector<client::AttachedEndpoint> clients(2);
  std::thread other([&] { clients[1] = std::move(client::attach(node.attach_options(1))).value(); });
  clients[0] = std::move(client::attach(node.attach_options(0))).value();
  other.join();
  return clients;
}

class Counts : public ::testing::Test {
 protected:
  Counts() : path_(fs::temp_directory_path() / ("outrigger-counts-" + std::to_string(::getpid()))) {}
  ~Counts() override { fs::remove(path_); }

  // Two ranks arrive and leave, with ledgers as `before_they_go` changes them. nullptr: no report was written.
  template <class Change>
  Json written_after(const Change& before_they_go) {
    {
      NodeOptions options;
      options.ranks = 2;
      Node node(options);
      const std::vector<report::Ledger> ledgers = [this] {
        std::vector<report::Ledger> made;
        for (std::uint32_t rank = 0; rank < 2; ++rank)
          made.push_back(make_ledger(rank, rank == 0 ? path_ : fs::path()));
        return made;
      }();
      std::vector<client::AttachedEndpoint> clients = attach_both(node);
      for (std::uint32_t rank = 0; rank < 2; ++rank)
        clients[rank]->control().show(ControlKind::counts, ledgers[rank].fd());
      before_they_go(ledgers);
      clients.clear();
    }
    std::ifstream file(path_);
    return file ? Json::parse(file) : Json();
  }

 private:
  fs::path path_;
};

TEST_F(Counts, AreWrittenWhenRanksEndWithoutFinalize) {
  const Json report = written_after([](const auto& /*ledgers*/) {});
  EXPECT_EQ(report["counted_ranks"], Json::parse("[[0, 1]]"));
  EXPECT_EQ(report["calls"][0]["calls"], 10);
  EXPECT_EQ(report["calls"][0]["offloaded"], 0);
  EXPECT_EQ(report["ended"]["how"], "lost");  // this process still runs
}

TEST_F(Counts, NameTheRankThatAborted) {
  const Json report = written_after([](const std::vector<report::Ledger>& ledgers) {
    ledgers[1].header().state = static_cast<std::uint32_t>(report::LedgerState::aborting);
    ledgers[1].header().code = 7;
  });
  EXPECT_EQ(report["ended"], Json::parse(R"({"how": "aborted", "code": 7, "signal": null, "rank": 1, "text": ""})"));
}

TEST_F(Counts, AreNotWrittenIfRank0HasWrittenThem) {
  const Json report = written_after([](const std::vector<report::Ledger>& ledgers) {
    ledgers[0].header().state = static_cast<std::uint32_t>(report::LedgerState::finalized);
  });
  EXPECT_TRUE(report.is_null());
}

TEST(ProcessEnd, IsKnownForAnUnreapedChild) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(3);
  const UniqueFd pidfd = service::exit_event_of(child);
  const auto status = service::end_status_of(child, pidfd.get(), std::chrono::seconds(30));
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(status.has_value());
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 3);
  EXPECT_FALSE(
      service::end_status_of(::getpid(), service::exit_event_of(::getpid()).get(), std::chrono::milliseconds(1)));
}

}  // namespace
}  // namespace outrigger::testing
