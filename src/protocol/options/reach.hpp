// The routes of bytes: their names, and the ones that a user may select (OUTRIGGER_REACH). Reports, the keeper's
// command line and the launcher use this table.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "protocol/memory.hpp"
#include "protocol/options/settings.hpp"
#include "protocol/wire/control.hpp"

namespace outrigger {

struct ReachRow {
  std::string_view name;
  std::optional<Reach> counted;  // counter of its bytes; nullopt: the rank counts them itself
  std::uint32_t bit;             // of kReachAll; 0: never forbidden
  std::uint32_t brings;          // routes that it requires: selected and removed together
  bool selectable;               // in OUTRIGGER_REACH
  std::string_view when;
  std::string_view cost;
};

// In the order of reports.
inline constexpr std::array kReaches{
    ReachRow{"mapped", Reach::mapped, kReachMapped, 0, true,
             "memory from MPI_Alloc_mem; with `--shared-heap on` any large allocation",
             "one copy by the service process"},
    ReachRow{"xpmem", Reach::xpmem, kReachXpmem, 0, true, "any other memory, if the kernel has the module XPMEM",
             "one copy by the service process"},
    ReachRow{"cma", Reach::cma, kReachCma, 0, true, "any other memory, if the kernel allows cross-memory attach",
             "one copy when the other side is mapped"},
    ReachRow{"copier", Reach::copier, kReachCopier, 0, true, "if neither side is mapped",
             "one copy, by a thread of a rank on the service process's core or by a rank that waits"},
    ReachRow{"relay", Reach::relay, 0, 0, false, "the same, for small blocks and without such a thread",
             "two copies by the service process"},
    ReachRow{"rdma", Reach::rdma, kReachRdma, 0, true, "service processes on a DPU; without it DPUs are not used",
             "registered memory is read into the DPU and written from there"},
    ReachRow{"alias", Reach::alias, kReachAlias, kReachRdma, true,
             "the same, if the network has exported memory handles",
             "the network moves it from one rank's memory to the other's"},
    ReachRow{"wire", Reach::wire, 0, 0, false, "ranks on different nodes",
             "the network; private memory is staged in chunks"},
    ReachRow{"own", std::nullopt, 0, 0, false, "a rank's block to itself", "one copy, by the rank if it is small"},
    ReachRow{"bounce", std::nullopt, 0, 0, true,
             "scattered small pieces; all unmapped memory if cross-memory attach is denied",
             "ranks pack and unpack; always allowed"},
};

[[nodiscard]] constexpr std::string_view name_of(Reach reach) {
  for (const ReachRow& row : kReaches) {
    if (row.counted == reach) return row.name;
  }
  return "unknown";
}

// Which memory is reached, and how. OUTRIGGER_REACH has names with commas between them: only these reaches are allowed;
// one with `-` in front is taken away. The others have variables of their own.
struct ReachSetting {
  std::uint32_t reach = kReachAll;
  bool heap = false;
  bool wait_copies = true;
  bool huge_pages = true;
  bool operator==(const ReachSetting&) const = default;
};

// A part of ReachSetting with a variable of its own.
struct ReachSwitch {
  const char* variable;
  bool ReachSetting::*on;
};
inline constexpr std::array kReachSwitches{ReachSwitch{setting::kSharedHeap, &ReachSetting::heap},
                                           ReachSwitch{setting::kWaitCopies, &ReachSetting::wait_copies},
                                           ReachSwitch{setting::kHugePages, &ReachSetting::huge_pages}};

namespace detail {

// All routes that are removed with a row.
constexpr std::uint32_t depending_on(const ReachRow& row) {
  std::uint32_t bits = row.bit;
  for (const ReachRow& other : kReaches) bits |= (other.brings & row.bit) != 0 ? other.bit : 0;
  return bits;
}

constexpr bool apply_reach_word(ReachSetting& setting, bool& listed, std::string_view word) {
  const bool allow = !word.starts_with('-');
  if (!allow) word.remove_prefix(1);
  for (const ReachRow& row : kReaches) {
    if (row.name != word || !row.selectable || (!allow && row.bit == 0)) continue;
    if (allow && !listed) setting.reach = 0;
    listed = listed || allow;
    setting.reach = allow ? setting.reach | row.bit | row.brings : setting.reach & ~depending_on(row);
    return true;
  }
  return false;
}

}  // namespace detail

// Allocates nothing. Returns the first unknown word, or nullopt.
constexpr std::optional<std::string_view> read_reach(std::string_view text, ReachSetting& setting) {
  bool listed = false;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    if (!detail::apply_reach_word(setting, listed, word)) return word;
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return std::nullopt;
}

// Says what to write instead of a word that read_reach() refuses.
[[nodiscard]] std::string reach_remedy(std::string_view refused);

// Bits as a list for another process, and back; `none` for none.
[[nodiscard]] std::string reach_list(std::uint32_t reach);
[[nodiscard]] Result<std::uint32_t> parse_reach_list(std::string_view text);

}  // namespace outrigger
