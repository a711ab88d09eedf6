// Entries of this process's threads in the ledger: each thread has one, as long as there are free ones.
//
// Thread rule: any thread.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "mpi/report/ledger_rows.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

// Other processes read it at any time.
template <class Value>
void publish(Value& place, Value value) {
  std::atomic_ref(place).store(value, std::memory_order_relaxed);
}

// A free entry, or one of a thread that has ended. nullptr: there is none.
template <class Entry, std::size_t count>
[[nodiscard]] Entry* take_entry(std::array<Entry, count>& entries) {
  const auto lives = [](std::uint32_t thread) { return ::syscall(SYS_tgkill, ::getpid(), thread, 0) == 0; };
  const std::unique_lock lock = lock_ledger();
  for (Entry& entry : entries) {
    if (entry.thread != 0 && lives(entry.thread)) continue;
    publish(entry.inside, std::uint32_t{0});
    publish(entry.thread, static_cast<std::uint32_t>(::syscall(SYS_gettid)));
    return &entry;
  }
  return nullptr;
}

// This thread's entry for calls with messages.
struct MessageEntry {
  report::PresentMessage* entry = nullptr;  // nullptr: too many threads have one
  const void* named = nullptr;              // the communicator whose name is in the entry
  bool looked = false;                      // for an entry

  // The thread is in no such call, or has left it by longjmp().
  void forget() const {
    if (entry != nullptr) publish(entry->inside, std::uint32_t{0});
  }
};
[[nodiscard]] MessageEntry& message_entry();

}  // namespace outrigger::mpi
