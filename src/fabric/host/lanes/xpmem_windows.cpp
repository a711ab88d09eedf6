#include "fabric/host/lanes/xpmem_windows.hpp"

#include <setjmp.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace outrigger::fabric {
namespace {

constexpr std::uint64_t kHighestAttached = 1ULL << 62;  // beyond a process's address space; offsets are signed

constexpr std::array kFaults{SIGBUS, SIGSEGV};

// Continuation after a fault in this thread's copy. nullptr: no copy in progress.
thread_local sigjmp_buf* volatile way_out = nullptr;
std::array<struct sigaction, kFaults.size()> former_actions;

void on_fault(int signal, siginfo_t* /*info*/, void* /*context*/) {
  if (way_out != nullptr) siglongjmp(*way_out, 1);
  // Not our fault: with the former handler restored the instruction faults again.
  for (std::size_t i = 0; i < kFaults.size(); ++i) {
    if (kFaults[i] == signal) ::sigaction(signal, &former_actions[i], nullptr);
  }
}

bool install() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  bool all = true;
  for (std::size_t i = 0; i < kFaults.size(); ++i) all &= ::sigaction(kFaults[i], &action, &former_actions[i]) == 0;
  return all;
}

// Leaving a handler by a jump leaves its signal blocked.
void unblock() {
  sigset_t faults;
  ::sigemptyset(&faults);
  for (const int fault : kFaults) ::sigaddset(&faults, fault);
  ::pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

}  // namespace

std::unique_ptr<XpmemWindows> XpmemWindows::open(const XpmemCalls& calls, std::int64_t segment) {
  if (segment == kNoXpmemSegment) return nullptr;
  const std::int64_t access = calls.get(segment, kXpmemReadWrite, kXpmemPermitMode, nullptr);
  if (access == -1) return nullptr;
  return std::unique_ptr<XpmemWindows>(new XpmemWindows(calls, access));
}

XpmemWindows::~XpmemWindows() {
  for (const Window& window : windows_) static_cast<void>(calls_.detach(window.ours));
  static_cast<void>(calls_.release(access_));
}

std::byte* XpmemWindows::at(std::uint64_t address, std::uint64_t bytes) {
  if (address > kHighestAttached || bytes > kHighestAttached - address) return nullptr;
  const auto holds = [=](const Window& window) {
    return address >= window.first && address + bytes <= window.first + window.bytes;
  };
  const auto found = std::find_if(windows_.rbegin(), windows_.rend(), holds);
  if (found != windows_.rend()) {
    std::rotate(std::prev(found.base()), found.base(), windows_.end());
  } else if (!attach(address, bytes)) {
    return nullptr;
  }
  const Window& window = windows_.back();
  return window.ours + (address - window.first);
}

bool XpmemWindows::attach(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t first = address / kAlignment * kAlignment;
  const std::uint64_t end = (address + bytes + kAlignment - 1) / kAlignment * kAlignment;
  const XpmemCalls::Place place{access_, static_cast<off_t>(first)};
  void* ours = calls_.attach(place, end - first, nullptr);
  if (ours == reinterpret_cast<void*>(-1)) return false;  // NOLINT(performance-no-int-to-ptr): how it says so
  if (windows_.size() == kMostWindows) {
    static_cast<void>(calls_.detach(windows_.front().ours));
    windows_.erase(windows_.begin());
  }
  windows_.push_back(Window{first, end - first, static_cast<std::byte*>(ours)});
  return true;
}

bool copy_guarded(std::byte* to, const std::byte* from, std::size_t bytes) {
  static const bool installed = install();
  if (!installed) return false;
  sigjmp_buf here;
  if (sigsetjmp(here, 0) != 0) {
    way_out = nullptr;
    unblock();
    return false;
  }
  way_out = &here;
  std::memmove(to, from, bytes);
  way_out = nullptr;
  return true;
}

}  // namespace outrigger::fabric
