#include "mpi/polite/contention_watch.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "client/quiet_thread.hpp"
#include "mpi/polite/core_contention.hpp"

namespace outrigger::mpi {
namespace {

constexpr std::size_t kStackBytes = 64U << 10;
// Linux has them since 5.9. Older C libraries do not name them.
constexpr long kCloseRange = 436;
constexpr unsigned kUnshare = 1U << 1;

// The second number of "ran waited slices".
std::optional<std::chrono::nanoseconds> without_core_in(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  std::int64_t nanoseconds = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data() + space + 1, end, nanoseconds).ec != std::errc{}) return std::nullopt;
  return std::chrono::nanoseconds(nanoseconds);
}

class ContentionWatch {
 public:
  ContentionWatch(std::string figures, void (*change)(bool)) : figures_(std::move(figures)), change_(change) {}

  [[nodiscard]] bool start() { return client::start_quiet_thread(thread_, kStackBytes, &ContentionWatch::run, this); }
  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      stops_ = true;
    }
    wake_up_.notify_one();
    ::pthread_join(thread_, nullptr);
  }

 private:
  static void* run(void* self) {
    static_cast<ContentionWatch*>(self)->watch();
    return nullptr;
  }

  void watch() {
    // The program's descriptors are limited. This thread's table is empty, and its own.
    if (::syscall(kCloseRange, 0U, ~0U, kUnshare) != 0) return;
    const UniqueFd figures(::open(figures_.c_str(), O_RDONLY | O_CLOEXEC));
    CoreContention core;
    bool polite = false;
    std::unique_lock lock(mutex_);
    while (!wake_up_.wait_for(lock, CoreContention::kBetweenLooks, [this] { return stops_; })) {
      const std::optional<CoreContention::Look> seen = look(figures.get());
      if (!seen) return;  // the thread has ended
      if (std::exchange(polite, core.next(*seen)) != polite) change_(polite);
    }
  }

  [[nodiscard]] static std::optional<CoreContention::Look> look(int figures) {
    std::array<char, 96> text{};
    const ssize_t bytes = ::pread(figures, text.data(), text.size(), 0);
    if (bytes <= 0) return std::nullopt;
    const auto without_core = without_core_in({text.data(), static_cast<std::size_t>(bytes)});
    if (!without_core) return std::nullopt;
    return CoreContention::Look{time_on(CLOCK_MONOTONIC), *without_core};
  }

  const std::string figures_;  // path
  void (*change_)(bool);
  pthread_t thread_{};
  std::mutex mutex_;
  std::condition_variable wake_up_;
  bool stops_ = false;
};

// Until stop_contention_watch(); without it, until the end of the process, like its thread.
constinit ContentionWatch* watcher = nullptr;
constinit pid_t owner = 0;

}  // namespace

bool start_contention_watch(void (*change)(bool polite)) {
  const std::string path = "/proc/self/task/" + std::to_string(::syscall(SYS_gettid)) + "/schedstat";
  auto* const made = new ContentionWatch(path, change);
  if (!made->start()) {
    delete made;
    return false;
  }
  watcher = made;
  owner = ::getpid();
  return true;
}

void stop_contention_watch() {
  if (watcher == nullptr || owner != ::getpid()) return;  // a forked child has no such thread
  watcher->stop();
  delete std::exchange(watcher, nullptr);
}

}  // namespace outrigger::mpi
