#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "client/memory/program_memory.hpp"
#include "fake_node.hpp"

namespace outrigger::client::test {
namespace {

// Runs `body` in a forked child, which exits with its result.
template <class Body>
int in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class Fork : public ::testing::Test {
 protected:
  Fork() : client_(node_.attach()), group_(client_->define_group(GroupId{1, 1}, world(8), GroupRank(3))) {}

  OperationRequest request() {
    OperationRequest made;
    made.group = group_;
    made.send = BufferLayout{bytes_.data(), 1, 1, {}};
    made.receive = BufferLayout{bytes_.data(), 1, 1, {}};
    return made;
  }

  std::array<std::byte, 8> bytes_{};
  FakeNode node_;
  AttachedEndpoint client_;
  std::shared_ptr<const Group> group_;
};

TEST_F(Fork, ChildIsInert) {
  auto operation = client_->post(request());
  const int failed_step = in_child([&] {
    if (client_->post(request()) != nullptr) return 1;
    if (client_->poll(*operation)) return 2;
    if (client_->fatal()) return 3;
    if (client_->heap().allocate_for_program(4096) != nullptr) return 4;
    if (client_->staging().allocate(64) != nullptr) return 5;
    if (client_->define_group(GroupId{2, 2}, world(2), GroupRank(0)) != nullptr) return 6;
    client_->wait_for_completion(std::chrono::milliseconds(1));
    if (client_->usage().slots != 0) return 7;
    operation.reset();
    group_.reset();
    client_.reset();
    return 0;
  });
  EXPECT_EQ(failed_step, 0);
  EXPECT_FALSE(node_.said_goodbye());
  // The parent continues unchanged.
  EXPECT_EQ(client_->fatal(), std::nullopt);
  node_.complete(node_.take_post().value());
  EXPECT_TRUE(client_->poll(*operation));
  EXPECT_FALSE(node_.take_post(std::chrono::milliseconds(5)));
}

// Tells the other side that this one has reached a point.
class Signal {
 public:
  Signal() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Signal() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  void give() const { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }
  void await() const {
    char text = 0;
    EXPECT_EQ(::read(ends_[0], &text, 1), 1);
  }

 private:
  std::array<int, 2> ends_{};
};

TEST_F(Fork, ParentAndChildHaveMemoryOfTheirOwn) {
  auto* memory = static_cast<int*>(client_->heap().allocate_for_program(8192));
  ASSERT_NE(memory, nullptr);
  ASSERT_NE(client_->region_of(memory, 8192), kPrivateRegion);
  memory[0] = 41;
  memory[1500] = 42;
  const Signal parent_wrote;
  const pid_t child = ::fork();
  if (child == 0) {
    parent_wrote.await();
    const auto failed_step = [&] {
      if (memory[0] != 41 || memory[1500] != 42) return 1;
      memory[0] = 99;
      memory[1500] = 99;
      // Grandchildren have memory of their own, too.
      const int grandchild = in_child([&] {
        if (memory[0] != 99) return 1;
        memory[0] = 100;
        return 0;
      });
      if (grandchild != 0) return 2;
      if (memory[0] != 99) return 3;
      if (!release(memory)) return 4;
      if (release(memory)) return 5;
      return 0;
    };
    ::_exit(failed_step());
  }
  memory[0] = 43;
  parent_wrote.give();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(memory[0], 43);
  EXPECT_EQ(memory[1500], 42);
  EXPECT_TRUE(release(memory));
}

// The next allocation is mapped again, once an operation has used it.
TEST_F(Fork, MemoryOfAfterAForkIsSharedAgain) {
  void* before = client_->heap().allocate_for_program(8192);
  const RegionId first = client_->region_of(before, 1);
  EXPECT_EQ(in_child([] { return 0; }), 0);
  auto* after = static_cast<std::byte*>(client_->heap().allocate_for_program(8192));
  ASSERT_NE(after, nullptr);
  EXPECT_TRUE(eventually([&] {
    const auto operation = client_->post(request());
    node_.complete(node_.take_post().value());
    EXPECT_TRUE(client_->poll(*operation));
    const RegionId region = client_->region_of(after, 8192);
    return region != kPrivateRegion && region != first;
  }));
  EXPECT_EQ(client_->region_of(before, 1), kPrivateRegion);
  EXPECT_TRUE(release(before));
  EXPECT_TRUE(release(after));
}

// A network card with registrations of the pages keeps using the same ones.
TEST_F(Fork, HeldMemoryStaysTheSameInTheParent) {
  auto* memory = static_cast<std::byte*>(client_->heap().allocate_for_program(3 * 4096));
  const RegionId region = client_->region_of(memory, 1);
  std::byte* seen = node_.at(LocalRef{region.value(), 0, reinterpret_cast<std::uintptr_t>(memory)}, 3 * 4096);
  ASSERT_NE(seen, nullptr);
  memory[0] = std::byte{1};
  ProgramMemory::of_process().hold_at_forks(memory + 4096);
  const Signal parent_wrote;
  const pid_t child = ::fork();
  if (child == 0) {
    parent_wrote.await();
    ::_exit(memory[0] == std::byte{1} && memory[8192] == std::byte{0} ? 0 : 1);
  }
  memory[0] = std::byte{2};
  seen[8192] = std::byte{3};
  EXPECT_EQ(seen[0], std::byte{2});
  EXPECT_EQ(memory[8192], std::byte{3});
  parent_wrote.give();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(release(memory));
}

TEST_F(Fork, NothingOfOursIsOpenAfterExec) {
  void* memory = client_->heap().allocate_for_program(4096);
  void* staging = client_->staging().allocate(64);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.find("outrigger") == std::string::npos && target.find("socket:") == std::string::npos) continue;
    const int fd = std::stoi(entry.path().filename().string());
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << target;
  }
  client_->staging().release(staging);
  EXPECT_TRUE(release(memory));
}

TEST_F(Fork, WhileOtherThreadsPostAndAllocate) {
  node_.start_serving();
  std::atomic<bool> stop{false};
  std::atomic<bool> stop_allocating{false};
  std::thread poster([&] {
    while (!stop) {
      const auto operation = client_->post(request());
      EXPECT_TRUE(finish(*client_, *operation));
    }
  });
  std::thread allocator([&] {
    while (!stop_allocating) {
      void* memory = client_->heap().allocate_for_program(4096);
      EXPECT_NE(memory, nullptr);
      EXPECT_TRUE(release(memory));
    }
  });
  for (int i = 0; i < 30; ++i) {
    if (i == 15) {  // after 32 forks with new memory each there would be none left for later tests
      stop_allocating = true;
      allocator.join();
    }
    EXPECT_EQ(in_child([&] { return client_->post(request()) == nullptr ? 0 : 1; }), 0);
  }
  stop = true;
  poster.join();
  EXPECT_EQ(client_->fatal(), std::nullopt);
}

}  // namespace
}  // namespace outrigger::client::test
