// Random calls of small teams under many orders of their steps, and what happens if a step is left out.
#include "explorer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "intranode/shared_copy.hpp"
#include "local_memory.hpp"
#include "random_calls.hpp"

namespace outrigger::intranode {
namespace {

// A waiter that only looks: the explorer chooses when.
constexpr WaitPolicy kLook{.spins = UINT32_MAX};
constexpr std::size_t kMost = 300;

struct ExploredTeam {
  // 0: without branches.
  explicit ExploredTeam(std::uint32_t members, std::size_t together = 0)
      : size(members),
        branch(together),
        fd(ControlArea::create(size).value()),
        area(ControlArea::attach(fd.get(), size).value()),
        buffers(size * buffer_bytes()) {}
  // As new.
  void reset(Explorer& explorer) const {
    std::memset(static_cast<void*>(&area.member(0)), 0, ControlArea::bytes(size));
    explorer.watch({reinterpret_cast<const std::byte*>(&area.member(0)), ControlArea::bytes(size)}, buffers);
  }
  // Watched memory that no collective uses.
  [[nodiscard]] std::byte* shared() const { return reinterpret_cast<std::byte*>(&area.member(0).said_late + 1); }
  [[nodiscard]] std::size_t buffer_bytes() const { return RandomCalls::buffer_bytes(size, kMost); }
  [[nodiscard]] std::span<std::byte> buffer(std::uint32_t rank) {
    return std::span(buffers).subspan(rank * buffer_bytes(), buffer_bytes());
  }
  std::uint32_t size;
  std::size_t branch;
  UniqueFd fd;
  ControlArea area;
  Bytes buffers;
};

// Direct copies: in some runs there are none, in some they fail now and then, in some one member can make none.
std::string open(Team& team, LocalMemory& memory, std::uint64_t seed) {
  if (seed % 8 == 0) return team.open() == Outcome::done ? "" : "open() has ended";
  const bool none = seed % 8 == 1;
  if (none && team.rank() == 0) memory.fail(seed, 1);
  if (team.open(memory) != Outcome::done) return "open() has ended";
  if (team.copies_directly() == none) return none ? "direct copies of some" : "no direct copies";
  if (seed % 16 >= 12) team.copy_directly_from(kUntriedDirectBytes);
  if (seed % 8 == 2 || seed % 8 == 3) memory.fail(seed + team.rank(), 4);
  return "";
}

// One run of `calls` random calls.
std::string run_calls(Explorer& explorer, ExploredTeam& team, Choices& choices, std::uint64_t seed, int calls) {
  team.reset(explorer);
  return explorer.run(team.size, choices, [&](std::uint32_t rank) -> std::string {
    Waiter waiter(kLook);
    Team own(team.area, rank, waiter);
    if (team.branch != 0) own.divide(Branches::in_a_row(team.size, team.branch));
    LocalMemory memory(team.size, team.buffers);
    if (std::string wrong = open(own, memory, seed); !wrong.empty()) return wrong;
    RandomCalls random(own, seed, kMost, team.shared(), team.buffer(rank));
    for (int call = 0; call < calls; ++call) {
      if (const std::string wrong = random.next(); !wrong.empty()) return wrong;
    }
    return "";
  });
}

// The first error in `runs`, or nothing.
std::string explore(Explorer& explorer, std::uint64_t runs) {
  std::array<ExploredTeam, 4> teams{ExploredTeam(2), ExploredTeam(3), ExploredTeam(3, 2), ExploredTeam(4, 2)};
  RandomChoices choices(1, runs);
  for (std::uint64_t seed = 0; choices.next_run(teams[seed % teams.size()].size); ++seed) {
    if (std::string wrong = run_calls(explorer, teams[seed % teams.size()], choices, seed, 8); !wrong.empty()) {
      return "seed " + std::to_string(seed) + ": " + wrong;
    }
  }
  return "";
}

TEST(ExplorerTest, NoOrderOfStepsGivesAWrongResult) {
  Explorer explorer;
  EXPECT_EQ(explore(explorer, 3000), "");
}

TEST(ExplorerTest, EveryStepIsNeeded) {
  Explorer explorer;
  ASSERT_EQ(explore(explorer, 200), "");
  const std::set<std::string> sites = explorer.sites();
  EXPECT_GE(sites.size(), 30U);
  for (const std::string& site : sites) {
    for (const Mutation mutation : {Mutation::dropped, Mutation::unordered}) {
      explorer.mutate(mutation, site);
      EXPECT_NE(explore(explorer, 400'000), "") << site << (mutation == Mutation::dropped ? " dropped" : " unordered");
    }
  }
}

// The lender's part where the owner copies nothing.
void write_all(SharedCopy& copy, LocalMemory& memory, std::span<const std::byte> block, std::uint64_t address) {
  bool complete = true;
  for (std::uint64_t done = 0; done < block.size() && copy.take_piece(); done += kPieceUnit) {
    complete = memory.write(0, address + done, block.subspan(done, kPieceUnit)) && complete;
  }
  copy.tell_lent(complete);
}

// A copy of which the owner reads some pieces, or none, before its call fails: its memory is then its own.
std::string abandon_copy(Explorer& explorer, ExploredTeam& team, Choices& choices, std::uint64_t seed) {
  team.reset(explorer);
  return explorer.run(team.size, choices, [&](std::uint32_t rank) -> std::string {
    Waiter waiter(kLook);
    Meeting meeting(team.area, rank, waiter);
    LocalMemory memory(team.size, team.buffers);
    const std::span<std::byte> block = team.buffer(rank).first(kMostPieces * kPieceUnit);
    const std::uint64_t step = meeting.begin();
    SharedCopy copy(meeting, 0, 1, step, block.size());
    if (rank == 0) copy.open();
    meeting.set_word(step, reinterpret_cast<std::uintptr_t>(block.data()));
    meeting.arrive(step);
    if (!meeting.wait_arrived(1 - rank, step)) return "ended";
    const std::uint64_t address = meeting.word(1 - rank, step);
    const bool alone = seed / kMostPieces % 2 == 1;
    if (rank == 1 && alone) {
      write_all(copy, memory, block, address);
      return "";
    }
    if (rank == 1) {
      while (copy.write_piece(memory, block, address)) continue;
      copy.end_writing();
      return "";
    }
    for (std::uint64_t read = 0; !alone && read < seed % kMostPieces; ++read) {
      if (!copy.read_piece(memory, address, block)) break;
    }
    copy.abandon();
    steps::writes(block.data(), block.size());
    return "";
  });
}

std::string abandon_copies(Explorer& explorer, std::uint64_t runs) {
  ExploredTeam team(2);
  RandomChoices choices(1, runs);
  for (std::uint64_t seed = 0; choices.next_run(2); ++seed) {
    if (std::string wrong = abandon_copy(explorer, team, choices, seed); !wrong.empty()) return wrong;
  }
  return "";
}

TEST(ExplorerTest, NobodyWritesForACallThatHasFailed) {
  Explorer explorer;
  ASSERT_EQ(abandon_copies(explorer, 5000), "");
  const std::set<std::string> sites = explorer.sites();
  EXPECT_GE(sites.size(), 5U);
  for (const std::string& site : sites) {
    explorer.mutate(Mutation::dropped, site);
    EXPECT_NE(abandon_copies(explorer, 5000), "") << site;
  }
}

// Every order of the steps of two members in one call, with direct copies in every fourth one, or as many as there is
// time for.
TEST(ExplorerTest, AllOrdersOfACallAreRight) {
  Explorer explorer;
  ExploredTeam team(2);
  std::uint64_t complete = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    AllChoices choices;
    bool more = true;
    for (std::uint64_t run = 0; run < 5'000 && (more = choices.next_run(2)); ++run) {
      ASSERT_EQ(run_calls(explorer, team, choices, seed % 4 == 3 ? seed : 8 * seed, 1), "") << "seed " << seed;
    }
    if (!more) ++complete;
  }
  EXPECT_GE(complete, 10U);
}

// Two branches. Some calls have no more orders.
TEST(ExplorerTest, ManyOrdersOfACallInBranchesAreRight) {
  Explorer explorer;
  ExploredTeam team(3, 2);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    AllChoices choices;
    for (std::uint64_t run = 0; run < 1'000 && choices.next_run(3); ++run) {
      ASSERT_EQ(run_calls(explorer, team, choices, 8 * seed, 1), "") << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace outrigger::intranode
