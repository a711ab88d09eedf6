// Real processes: a keeper, its service processes and forked ranks, also when some of them die.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <thread>

#include "base/file_text.hpp"
#include "client/memory/program_memory.hpp"
#include "client/start/attach.hpp"
#include "support/eventually.hpp"

namespace outrigger {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using client::RankEndpoint;

// ---- processes of this machine --------------------------------------------------------------------------------------

std::vector<std::string> command_line_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  std::vector<std::string> words;
  std::string word;
  while (std::getline(file, word, '\0')) words.push_back(word);
  return words;
}

// Field by number as in proc(5); 3 is the state.
std::string stat_field(pid_t pid, int number) {
  const std::string all = text_of_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t end_of_name = all.rfind(')');
  if (end_of_name == std::string::npos) return {};
  std::istringstream rest(all.substr(end_of_name + 1));
  std::string field;
  for (int i = 3; i <= number; ++i) rest >> field;
  return field;
}

std::vector<pid_t> processes_where(const std::function<bool(pid_t, const std::vector<std::string>&)>& wanted) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::atoi(name.c_str());
    if (stat_field(pid, 3) == "Z") continue;
    if (wanted(pid, command_line_of(pid))) found.push_back(pid);
  }
  return found;
}

// The keepers of which this test is the leader.
std::vector<pid_t> keepers() {
  const std::string leader = std::to_string(::getpid());
  return processes_where([&](pid_t, const std::vector<std::string>& words) {
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i] == "--leader-pid" && words[i + 1] == leader) return true;
    }
    return false;
  });
}

std::vector<pid_t> services_of(pid_t keeper) {
  return processes_where([&](pid_t pid, const std::vector<std::string>& words) {
    return words.size() == 2 && words[1] == "serve" && stat_field(pid, 4) == std::to_string(keeper);
  });
}

double cpu_seconds(pid_t pid) {
  const double ticks = std::stod(stat_field(pid, 14)) + std::stod(stat_field(pid, 15));
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

bool alive(pid_t pid) {
  return ::kill(pid, 0) == 0 && stat_field(pid, 3) != "Z";
}

// ---- ranks as forked children ---------------------------------------------------------------------------------------

constexpr std::size_t kTextBytes = 512;
constexpr std::uint32_t kNoMore = ~0U;  // for JobState::go

// Shared between the test and its ranks.
struct JobState {
  std::atomic<std::uint32_t> attached;
  std::atomic<std::uint32_t> go;
  std::atomic<std::uint32_t> posted;
  std::array<std::array<char, kTextBytes>, 16> text;  // one message per rank
};

class Job {
 public:
  using Body = std::function<int(Job&, RankEndpoint&, std::uint32_t)>;

  Job(std::uint32_t ranks, std::uint32_t services, std::uint32_t reach = kReachAll) : ranks_(ranks) {
    state_ = static_cast<JobState*>(
        ::mmap(nullptr, sizeof(JobState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    client::KeeperOptions options;
    options.daemon_path = OUTRIGGER_DAEMON;
    options.world_size = ranks;
    options.local_size = ranks;
    options.services = services;
    options.reach_allowed = reach;
    options.init_timeout_ms = 30000;
    keeper_address_ = client::start_keeper(options);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    for (const pid_t pid : pids_) {
      if (pid > 0) {
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
      }
    }
    for (const pid_t pid : keepers()) ::kill(pid, SIGKILL);
    ::munmap(state_, sizeof(JobState));
  }

  [[nodiscard]] const Result<client::KeeperAddress>& address() const { return keeper_address_; }
  [[nodiscard]] JobState& state() { return *state_; }
  [[nodiscard]] std::uint32_t ranks() const { return ranks_; }
  [[nodiscard]] std::string text(std::uint32_t rank) const { return state_->text[rank].data(); }

  void say(std::uint32_t rank, const std::string& text) {
    std::strncpy(state_->text[rank].data(), text.c_str(), kTextBytes - 1);
  }

  void start(const Body& body) {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      const pid_t pid = ::fork();
      if (pid == 0) ::_exit(run_rank(body, rank));
      pids_.push_back(pid);
    }
  }

  // The exit status of waitpid; nullopt: it did not end in time.
  std::optional<int> wait_for(std::uint32_t rank, std::chrono::milliseconds limit) {
    int status = 0;
    if (!eventually([&] { return ::waitpid(pids_[rank], &status, WNOHANG) == pids_[rank]; }, limit))
      return std::nullopt;
    pids_[rank] = -1;
    return status;
  }
  [[nodiscard]] pid_t pid(std::uint32_t rank) const { return pids_[rank]; }

 private:
  int run_rank(const Body& body, std::uint32_t rank) {
    client::AttachOptions attach;
    attach.keeper = keeper_address_.value();
    attach.world_rank = WorldRank{rank};
    attach.world_size = ranks_;
    attach.local_rank = rank;
    attach.local_size = ranks_;
    Result<client::AttachedEndpoint> client = client::attach(attach);
    if (!client) {
      say(rank, client.error());
      return 99;
    }
    state_->attached.fetch_add(1);
    return body(*this, *client.value(), rank);
  }

  std::uint32_t ranks_;
  JobState* state_ = nullptr;
  Result<client::KeeperAddress> keeper_address_ = Error{"not started"};
  std::vector<pid_t> pids_;
};

std::shared_ptr<const client::Group> world(RankEndpoint& client, std::uint32_t size, std::uint32_t me) {
  std::vector<WorldRank> members;
  for (std::uint32_t i = 0; i < size; ++i) members.emplace_back(i);
  return client.define_group(GroupId{1, 2}, members, GroupRank{me});
}

client::PendingOperationPtr post_alltoall(RankEndpoint& client, const std::shared_ptr<const client::Group>& group,
                                          std::uint64_t sequence, const std::byte* send, std::byte* receive,
                                          std::uint64_t block_bytes) {
  client::OperationRequest request;
  request.group = group;
  request.sequence = sequence;
  request.send.base = send;
  request.receive.base = receive;
  request.send.block_bytes = request.receive.block_bytes = block_bytes;
  request.send.stride_bytes = request.receive.stride_bytes = static_cast<std::int64_t>(block_bytes);
  return client.post(request);
}

// 0: every byte is right. Memory is private in odd operations if cross-memory attach works.
int alltoall_rank(Job& job, RankEndpoint& client, std::uint32_t me) {
  constexpr std::uint64_t kBlock = 40'000;
  const std::uint32_t n = job.ranks();
  const auto group = world(client, n, me);
  std::vector<std::byte> own_send(n * kBlock);
  std::vector<std::byte> own_receive(n * kBlock);
  auto* shared_send = static_cast<std::byte*>(client.heap().allocate_for_program(n * kBlock));
  auto* shared_receive = static_cast<std::byte*>(client.heap().allocate_for_program(n * kBlock));
  if (shared_send == nullptr || shared_receive == nullptr) return 10;
  for (std::uint64_t sequence = 0; sequence < 20; ++sequence) {
    const bool shared = !client.reached_by(kReachCma) || sequence % 2 == 0;
    std::byte* send = shared ? shared_send : own_send.data();
    std::byte* receive = shared ? shared_receive : own_receive.data();
    for (std::uint32_t to = 0; to < n; ++to) {
      for (std::uint64_t i = 0; i < kBlock; ++i) {
        send[to * kBlock + i] = static_cast<std::byte>(me * 5 + to * 11 + i + sequence);
      }
    }
    const auto operation = post_alltoall(client, group, sequence, send, receive, kBlock);
    if (!operation) return 11;
    while (!client.poll(*operation)) {
      if (const auto fatal = client.fatal()) {
        job.say(me, *fatal);
        return 12;
      }
      client.wait_for_completion(1ms);
    }
    if (operation->result.status != CompletionStatus::ok) return 13;
    for (std::uint32_t from = 0; from < n; ++from) {
      for (std::uint64_t i = 0; i < kBlock; ++i) {
        if (receive[from * kBlock + i] != static_cast<std::byte>(from * 5 + me * 11 + i + sequence)) return 14;
      }
    }
  }
  for (void* memory : {shared_send, shared_receive}) client::ProgramMemory::of_process().release(memory);
  return 0;
}

// Rank 0 computes for ever; the others wait for an operation that it never posts.
int waiting_rank(Job& job, RankEndpoint& client, std::uint32_t me) {
  constexpr std::uint64_t kBlock = 1000;
  const auto group = world(client, job.ranks(), me);
  std::vector<std::byte> send(job.ranks() * kBlock);
  std::vector<std::byte> receive(job.ranks() * kBlock);
  if (me == 0) {
    job.state().posted.fetch_add(1);
    while (true) ::pause();
  }
  const auto operation = post_alltoall(client, group, 0, send.data(), receive.data(), kBlock);
  job.state().posted.fetch_add(1);
  while (!client.poll(*operation)) {
    if (const auto fatal = client.fatal()) {
      job.say(me, *fatal);
      return 42;
    }
    client.wait_for_completion(10ms);
  }
  return 1;
}

bool everything_gone() {
  return keepers().empty();
}

void expect_clean_exit(Job& job) {
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
    const auto status = job.wait_for(rank, 60s);
    ASSERT_TRUE(status) << "rank " << rank << " hangs";
    EXPECT_EQ(*status, 0) << "rank " << rank << ": " << job.text(rank);
  }
  EXPECT_TRUE(eventually(everything_gone)) << "the keeper has not ended";
}

// ---- tests ----------------------------------------------------------------------------------------------------------

class Processes : public ::testing::TestWithParam<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> {};

TEST_P(Processes, AlltoallsDeliverEveryByteAndCleanUp) {
  const auto [ranks, services, reach] = GetParam();
  Job job(ranks, services, reach);
  ASSERT_TRUE(job.address()) << job.address().error();
  job.start(alltoall_rank);
  expect_clean_exit(job);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Processes,
                         ::testing::Combine(::testing::Values(1U, 4U, 8U), ::testing::Values(1U, 2U),
                                            ::testing::Values(kReachAll, kReachMapped)));

// Waits until all ranks are in place in waiting_rank(); returns the pid of the only service process.
pid_t wait_until_posted(Job& job) {
  if (!eventually([&] { return job.state().posted.load() == job.ranks(); })) return -1;
  const auto keeper = keepers();
  if (keeper.size() != 1) return -1;
  const auto services = services_of(keeper.front());
  return services.empty() ? -1 : services.front();
}

// Kills the only service process; returns its replacement's pid, or -1.
pid_t replaced_after_kill(pid_t service) {
  const pid_t keeper = keepers().front();
  ::kill(service, SIGKILL);
  pid_t other = -1;
  static_cast<void>(eventually([&] {
    const auto services = services_of(keeper);
    if (services.size() == 1 && services.front() != service) other = services.front();
    return other > 0;
  }));
  return other;
}

TEST(ProcessFailure, SevenKilledServiceProcessesEndTheJobWithAMessage) {
  Job job(3, 1);
  ASSERT_TRUE(job.address()) << job.address().error();
  ::testing::internal::CaptureStderr();
  job.start(waiting_rank);
  pid_t service = wait_until_posted(job);
  ASSERT_GT(service, 0);
  for (int replaced = 0; replaced < 6; ++replaced) {
    service = replaced_after_kill(service);
    ASSERT_GT(service, 0) << "nobody takes its place";
  }
  ::kill(service, SIGKILL);
  for (const std::uint32_t rank : {1U, 2U}) {
    const auto status = job.wait_for(rank, 60s);
    ASSERT_TRUE(status) << "rank " << rank << " hangs";
    EXPECT_EQ(WEXITSTATUS(*status), 42);
    EXPECT_NE(job.text(rank).find("service process 0 (pid " + std::to_string(service) + ")"), std::string::npos);
    EXPECT_NE(job.text(rank).find("was killed by signal 9"), std::string::npos) << job.text(rank);
  }
  const auto computing = job.wait_for(0, 60s);
  ASSERT_TRUE(computing) << "the computing rank was not ended";
  EXPECT_TRUE(WIFSIGNALED(*computing));
  EXPECT_TRUE(eventually(everything_gone));
  const std::string printed = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(printed.find("was killed by signal 9"), std::string::npos) << printed;
}

TEST(ProcessFailure, ServiceProcessesContinueWithoutTheirKeeper) {
  Job job(2, 2);
  ASSERT_TRUE(job.address()) << job.address().error();
  job.start(waiting_rank);
  ASSERT_GT(wait_until_posted(job), 0);
  const pid_t keeper = keepers().front();
  const std::vector<pid_t> services = services_of(keeper);
  ASSERT_EQ(services.size(), 2U);
  ::kill(keeper, SIGKILL);
  EXPECT_FALSE(job.wait_for(1, 1s)) << "it has given up";
  for (const pid_t service : services) EXPECT_TRUE(alive(service));
  for (const pid_t service : services) ::kill(service, SIGKILL);
  const auto status = job.wait_for(1, 60s);
  ASSERT_TRUE(status) << "the waiting rank hangs";
  EXPECT_EQ(WEXITSTATUS(*status), 42);
  EXPECT_NE(job.text(1).find("the keeper of this node is gone (killed?), and so is the service process of this rank"),
            std::string::npos)
      << job.text(1);
  for (const pid_t service : services) EXPECT_TRUE(eventually([&] { return !alive(service); }));
}

TEST(ProcessFailure, KilledRankLeavesTheOthersServed) {
  Job job(3, 1);
  ASSERT_TRUE(job.address()) << job.address().error();
  // Ranks 1 and 2 use a group of their own after rank 0 has been killed.
  job.start([](Job& shared, RankEndpoint& client, std::uint32_t me) {
    shared.state().posted.fetch_add(1);
    if (!eventually([&] { return shared.state().go.load() != 0; })) return 3;
    if (me == 0) return 1;
    const auto group = client.define_group(GroupId{5, 5}, {WorldRank{1}, WorldRank{2}}, GroupRank{me - 1});
    std::vector<std::byte> send(2000, static_cast<std::byte>(me));
    std::vector<std::byte> receive(2000);
    const auto operation = post_alltoall(client, group, 0, send.data(), receive.data(), 1000);
    const auto deadline = Clock::now() + 40s;
    while (!client.poll(*operation)) {
      if (client.fatal()) return 2;
      if (Clock::now() > deadline) return 3;
    }
    return receive[0] == std::byte{1} && receive[1999] == std::byte{2} ? 0 : 4;
  });
  ASSERT_TRUE(eventually([&] { return job.state().posted.load() == 3; }));
  ::kill(job.pid(0), SIGKILL);
  ASSERT_TRUE(job.wait_for(0, 10s));
  job.state().go.store(1);
  for (const std::uint32_t rank : {1U, 2U}) {
    const auto status = job.wait_for(rank, 60s);
    ASSERT_TRUE(status);
    EXPECT_EQ(*status, 0) << "rank " << rank;
  }
  EXPECT_TRUE(eventually(everything_gone));
}

// Rank 0 is killed; the others post operations for which they would need it, one when told to.
int bereaved_rank(Job& job, RankEndpoint& client, std::uint32_t me) {
  constexpr std::uint64_t kBlock = 1000;
  const auto group = world(client, job.ranks(), me);
  std::vector<std::byte> send(job.ranks() * kBlock);
  std::vector<std::byte> receive(job.ranks() * kBlock);
  for (std::uint64_t sequence = 0;; ++sequence) {
    while (me == 0 || job.state().go.load() == sequence) std::this_thread::sleep_for(1ms);
    if (job.state().go.load() == kNoMore) return 0;
    const auto operation = post_alltoall(client, group, sequence, send.data(), receive.data(), kBlock);
    if (!operation) return 11;
    while (!client.poll(*operation)) {
      if (client.fatal()) return 12;
      client.wait_for_completion(1ms);
    }
    if (operation->result.status != CompletionStatus::peer_lost) return 13;
    job.state().posted.fetch_add(1);
  }
}

// Kills these service processes of the only keeper, and waits for their replacements.
bool replaced_after_kills(const std::vector<pid_t>& victims, std::size_t of) {
  for (const pid_t victim : victims) ::kill(victim, SIGKILL);
  const pid_t keeper = keepers().front();
  return eventually([&] {
    const auto services = services_of(keeper);
    const auto is_victim = [&](pid_t pid) { return std::ranges::find(victims, pid) != victims.end(); };
    return services.size() == of && std::ranges::none_of(services, is_victim);
  });
}

class LostRank : public ::testing::TestWithParam<std::uint32_t> {};

// Each service process is killed, then all: the rank's own one and its peers must know.
TEST_P(LostRank, IsKnownToServiceProcessesThatStartLater) {
  const std::uint32_t services = GetParam();
  Job job(4, services);
  ASSERT_TRUE(job.address()) << job.address().error();
  job.start(bereaved_rank);
  ASSERT_TRUE(eventually([&] { return job.state().attached.load() == job.ranks(); }));
  ::kill(job.pid(0), SIGKILL);
  ASSERT_TRUE(job.wait_for(0, 10s));
  const auto next_is_lost = [&] {
    const std::uint32_t posted = job.state().posted.load();
    job.state().go.fetch_add(1);
    return eventually([&] { return job.state().posted.load() == posted + job.ranks() - 1; });
  };
  ASSERT_TRUE(next_is_lost()) << "the living ones have not dropped it";
  const std::vector<pid_t> first = services_of(keepers().front());
  ASSERT_EQ(first.size(), services);
  for (const pid_t service : first) {
    ASSERT_TRUE(replaced_after_kills({service}, services));
    ASSERT_TRUE(next_is_lost()) << "ranks wait for a rank that was lost before";
  }
  ASSERT_TRUE(replaced_after_kills(services_of(keepers().front()), services));
  ASSERT_TRUE(next_is_lost()) << "ranks wait for a rank that was lost before";
  job.state().go.store(kNoMore);
  for (std::uint32_t rank = 1; rank < job.ranks(); ++rank) EXPECT_EQ(job.wait_for(rank, 60s), 0) << "rank " << rank;
  EXPECT_TRUE(eventually(everything_gone));
}

TEST_P(LostRank, IsKnownIfServiceProcessesDieWithIt) {
  Job job(4, GetParam());
  ASSERT_TRUE(job.address()) << job.address().error();
  job.start(bereaved_rank);
  ASSERT_TRUE(eventually([&] { return job.state().attached.load() == job.ranks(); }));
  const std::vector<pid_t> services = services_of(keepers().front());
  job.state().go.fetch_add(1);
  ::kill(job.pid(0), SIGKILL);
  ASSERT_TRUE(replaced_after_kills(services, GetParam()));
  EXPECT_TRUE(eventually([&] { return job.state().posted.load() == job.ranks() - 1; })) << "ranks wait for a lost rank";
  job.state().go.store(kNoMore);
  for (std::uint32_t rank = 1; rank < job.ranks(); ++rank) EXPECT_EQ(job.wait_for(rank, 60s), 0) << "rank " << rank;
  EXPECT_TRUE(eventually(everything_gone));
}

INSTANTIATE_TEST_SUITE_P(Services, LostRank, ::testing::Values(1U, 2U));

TEST(ProcessFailure, MissingRankIsRefusedWithAReasonAndCleanUp) {
  client::KeeperOptions options;
  options.daemon_path = OUTRIGGER_DAEMON;
  options.world_size = options.local_size = 2;
  options.init_timeout_ms = 3000;
  const Result<client::KeeperAddress> address = client::start_keeper(options);
  ASSERT_TRUE(address) << address.error();
  client::AttachOptions attach;
  attach.keeper = address.value();
  attach.world_size = attach.local_size = 2;
  const auto client = client::attach(attach);
  ASSERT_FALSE(client);
  EXPECT_NE(client.error().find("1 of 2 ranks of this node appeared within 3000 ms"), std::string::npos)
      << client.error();
  EXPECT_TRUE(eventually(everything_gone));
}

TEST(ProcessIdle, ServiceProcessSleepsWhileRanksComputeWithOperationsOpen) {
  Job job(2, 1);
  ASSERT_TRUE(job.address()) << job.address().error();
  job.start(waiting_rank);
  const pid_t service = wait_until_posted(job);
  ASSERT_GT(service, 0);
  const auto pause = std::chrono::seconds(std::getenv("OUTRIGGER_LONG_TESTS") != nullptr ? 10 : 3);
  const double limit = 0.01 * static_cast<double>(pause.count());
  double used = limit;
  double keeper_used = limit;
  for (int tries = 0; tries < 4 && (used >= limit || keeper_used >= limit); ++tries) {
    std::this_thread::sleep_for(50ms);  // on a busy machine they may still be active
    const double before = cpu_seconds(service);
    const double keeper_before = cpu_seconds(keepers().front());
    std::this_thread::sleep_for(pause);
    used = cpu_seconds(service) - before;
    keeper_used = cpu_seconds(keepers().front()) - keeper_before;
  }
  EXPECT_LT(used, limit);
  EXPECT_LT(keeper_used, limit);
}

}  // namespace
}  // namespace outrigger
