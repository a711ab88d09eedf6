#include "mpi/choice/native_cores.hpp"

#include <dirent.h>
#include <sys/types.h>

#include <charconv>
#include <cstring>

namespace outrigger::mpi {
namespace {

// Those of this process that are on `from` go to `to`.
void move_threads(const cpu_set_t& from, const cpu_set_t& to) {
  DIR* threads = ::opendir("/proc/self/task");
  if (threads == nullptr) return;
  while (const dirent* entry = ::readdir(threads)) {
    pid_t thread = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, thread).ptr != end || thread <= 0) continue;
    cpu_set_t here;
    if (::sched_getaffinity(thread, sizeof(here), &here) != 0 || !CPU_EQUAL(&here, &from)) continue;
    static_cast<void>(::sched_setaffinity(thread, sizeof(to), &to));
  }
  ::closedir(threads);
}

}  // namespace

bool read_cpus(std::string_view text, cpu_set_t& cpus) {
  CPU_ZERO(&cpus);
  while (!text.empty()) {
    unsigned cpu = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
    if (error != std::errc{} || cpu >= CPU_SETSIZE) return false;
    CPU_SET(cpu, &cpus);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return true;
    if (text.front() != ',' || text.size() == 1) return false;
    text.remove_prefix(1);
  }
  return false;
}

NativeCores::NativeCores(std::string_view cpus, client::Client& client) : client_(client) {
  if (cpus.empty() || !read_cpus(cpus, free_)) return;
  if (::sched_getaffinity(0, sizeof(kept_), &kept_) != 0 || CPU_EQUAL(&kept_, &free_)) return;
  possible_.store(true, std::memory_order_relaxed);
}

void NativeCores::note_native(const void* communicator, bool now) {
  const void* last = offloaded_last_.load(std::memory_order_relaxed);
  const bool alone = last == nullptr || last == communicator;
  const std::uint32_t in_a_row = natives_in_a_row_.load(std::memory_order_relaxed);
  if (in_a_row < kInARow) natives_in_a_row_.store(in_a_row + 1, std::memory_order_relaxed);
  if (native_.load(std::memory_order_relaxed)) return;
  if (in_a_row >= kInARow || (alone && (now || in_a_row >= kInARowAlone))) move(true);
}

void NativeCores::note_offloaded(const void* communicator) {
  natives_in_a_row_.store(0, std::memory_order_relaxed);
  offloaded_last_.store(communicator, std::memory_order_relaxed);
  if (native_.load(std::memory_order_relaxed)) move(false);
}

void NativeCores::move(bool native) {
  const std::lock_guard lock(mutex_);
  if (native_.exchange(native, std::memory_order_relaxed) == native) return;
  if (native) {
    client_.courses().note_native_cores(true);
    move_threads(kept_, free_);
  } else {
    move_threads(free_, kept_);
    client_.courses().note_native_cores(false);
  }
}

}  // namespace outrigger::mpi
