// MPI_Pcontrol names phases, as IPM and Intel's tools have it:
//
//     MPI_Pcontrol(1, "solve")     begins phase "solve"
//     MPI_Pcontrol(-1, "solve")    ends it
//     MPI_Pcontrol(7)              begins "phase 7", from 5 on; also in Fortran, where the call has no name
//     MPI_Pcontrol(-7)             ends it
//
// Other tools take the levels 0 to 4 alone as orders, such as on and off. The arguments do not show whether there is a
// name: without one, that word is what a register holds. So a name is readable memory with printable characters, and a
// program that has given another order than 1 begins no phases by name any more.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "base/accessible_memory.hpp"
#include "base/cross_memory.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/ledger_rows.hpp"
#include "mpi/report/phases.hpp"

namespace outrigger::mpi {
namespace {

constexpr std::int64_t kLeastNumber = 5;
constexpr std::int64_t kMostOrder = kLeastNumber - 1;
constexpr std::uintptr_t kPage = 4096;

constinit std::atomic<bool> gives_orders = false;

// False: not all of it can be read.
bool read_at(std::uintptr_t address, std::span<char> to) {
  return to.empty() || read_cross_memory(::getpid(), address, std::as_writable_bytes(to)) == 0;
}

// Cut like all names of phases. Empty: there is no name. The kernel reads it, as the address may be any.
std::string name_at(std::uintptr_t address) {
  if (!may_make_rare_calls()) return {};
  std::array<char, report::kNameBytes - 1> text{};
  const std::span<char> all(text);
  const std::size_t on_page = std::min(all.size(), kPage - address % kPage);
  if (!read_at(address, all.first(on_page))) return {};
  const bool ends_there = std::ranges::find(text, '\0') < text.begin() + on_page;
  if (!ends_there && !read_at(address + on_page, all.subspan(on_page))) return {};
  const std::string name(text.begin(), std::ranges::find(text, '\0'));
  const bool printable = std::ranges::all_of(name, [](char letter) { return letter >= ' ' && letter <= '~'; });
  return printable ? name : std::string();
}

std::string phase_of(std::int64_t level, std::uintptr_t address) {
  const std::int64_t number = level < 0 ? -level : level;
  if (number >= kLeastNumber) return "phase " + std::to_string(number);
  const bool begins_none = level > 0 && gives_orders.load(std::memory_order_relaxed);
  return number != 1 || begins_none ? std::string() : name_at(address);
}

void note_level(std::int64_t level, std::uintptr_t name) {
  if (level != 1 && level >= 0 && level <= kMostOrder) gives_orders.store(true, std::memory_order_relaxed);
  const std::string phase = phase_of(level, name);
  if (phase.empty()) return;
  if (level > 0) {
    begin_phase(phase.c_str());
  } else {
    end_phase(phase.c_str());
  }
}

struct NamesPhases {
  template <Call call, class... Words>
  static bool passes_at_once(Words... /*words*/) {
    return !observing();
  }
  template <Call call, class... Words>
  static int run(const CallSite& site, Word level, Word name, Words... words) {
    note_level(argument<int>(level), name);
    return site.pass(call, level, name, words...);
  }
};

}  // namespace

OUTRIGGER_ENTRY(Pcontrol, 6, NamesPhases)  // as many words as registers hold on x86-64

}  // namespace outrigger::mpi
