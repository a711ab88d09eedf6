#include "service/keeper/supervise/hung_services.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>
#include <utility>

#include "base/file_text.hpp"

namespace outrigger::service {
namespace {

using std::chrono::milliseconds;

bool is_stopped_or_traced(char state) {
  return state == 'T' || state == 't';
}

}  // namespace

std::optional<ProcessSign> sign_of_process(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  const std::string text = text_of_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessSign sign;
  fields >> sign.state;
  std::string skipped;
  constexpr int kFieldsBetween = 10;  // the state is field 3, the time in user mode field 14
  for (int i = 0; i < kFieldsBetween; ++i) fields >> skipped;
  std::uint64_t user_ticks = 0;
  std::uint64_t system_ticks = 0;
  if (!(fields >> user_ticks >> system_ticks)) return std::nullopt;
  const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  if (ticks_per_second <= 0) return std::nullopt;
  sign.cpu = milliseconds((user_ticks + system_ticks) * 1000 / static_cast<std::uint64_t>(ticks_per_second));
  return sign;
}

std::optional<std::string> HungServices::look(std::uint32_t sp, const ServiceSign& sign) {
  if (watched_.size() <= sp) watched_.resize(sp + 1);
  Watched& watched = watched_[sp];
  const ServiceSign last = std::exchange(watched.last, sign);
  const bool first = !std::exchange(watched.seen, true);
  const milliseconds used = sign.process.cpu - last.process.cpu;
  const bool ran = used > milliseconds{0};
  const bool sleeps = !ran && sign.process.state == 'S';
  if (first || sign.turns != last.turns || is_stopped_or_traced(sign.process.state) || (sleeps && !sign.work_waits)) {
    watched.reset();
    return std::nullopt;
  }
  if (!ran && !sleeps) return std::nullopt;  // starved, not hung
  ++watched.looks;
  watched.cpu += used;
  watched.asleep_looks = sleeps ? watched.asleep_looks + 1 : 0;
  const auto seconds = [](auto looks) { return std::chrono::duration<double>(looks * kBetweenLooks).count(); };
  if (watched.asleep_looks >= kLooksUntilLost) {
    return fmt::format("has slept for {:.0f} s though work waits for it", seconds(watched.asleep_looks));
  }
  if (watched.looks < kLooksUntilLost || watched.cpu < kLeastCpu) return std::nullopt;
  return fmt::format("has made no progress for {:.0f} s (state {}, {:.1f} s of CPU time)", seconds(watched.looks),
                     sign.process.state, std::chrono::duration<double>(watched.cpu).count());
}

void HungServices::forget(std::uint32_t sp) {
  if (sp < watched_.size()) watched_[sp] = Watched{};
}

}  // namespace outrigger::service
