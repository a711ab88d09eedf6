// A snapshot has the events that are written to a rank's memory, whatever else the memory contains.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "trace/event_memory.hpp"
#include "trace/snapshot.hpp"

namespace outrigger::trace {
namespace {

Event event(std::uint64_t subject) {
  Event made;
  made.kind = static_cast<std::uint8_t>(EventKind::call);
  made.began_ns = 1;
  made.ended_ns = 2;
  made.subject = subject;
  return made;
}

PartHeader header_of(const std::vector<std::byte>& part) {
  PartHeader header;
  std::memcpy(&header, part.data(), sizeof header);
  return header;
}

std::string names_of(const std::vector<std::byte>& part) {
  return {reinterpret_cast<const char*>(part.data()) + sizeof(PartHeader), header_of(part).names_bytes};
}

std::vector<Event> events_of(const std::vector<std::byte>& part) {
  const PartHeader header = header_of(part);
  const std::size_t at = sizeof header + header.names_bytes + header.communicators * sizeof(Communicator);
  std::vector<Event> events(header.events + header.service_events);
  EXPECT_EQ(part.size(), at + events.size() * sizeof(Event));
  std::memcpy(events.data(), part.data() + at, events.size() * sizeof(Event));
  return events;
}

TEST(TraceMemory, HasWhatThreadsAndTheServiceProcessHaveWritten) {
  Result<Memory> memory = Memory::create();
  ASSERT_TRUE(memory);
  const Result<Memory> of_service = Memory::open(UniqueFd(::dup(memory.value().fd())));
  ASSERT_TRUE(of_service) << of_service.error();
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 1; i <= 1000; ++i) EXPECT_TRUE(memory.value().rank_buffer().add(event(thread * 1000 + i)));
    });
  }
  for (std::uint64_t i = 1; i <= 10; ++i) EXPECT_TRUE(of_service.value().service_buffer().add(event(i)));
  for (std::thread& thread : threads) thread.join();

  const std::vector<std::byte> part = snapshot(memory.value());
  EXPECT_EQ(header_of(part).events, 3000U);
  EXPECT_EQ(header_of(part).service_events, 10U);
  std::vector<Event> events = events_of(part);
  std::sort(events.begin(), events.begin() + 3000,
            [](const Event& a, const Event& b) { return a.subject < b.subject; });
  for (std::size_t i = 0; i < 3000; ++i) ASSERT_EQ(events[i].subject, i + 1);
}

TEST(TraceMemory, DropsTheNewestAtItsLimitAndCountsThem) {
  Result<Memory> memory = Memory::create();
  ASSERT_TRUE(memory);
  for (std::uint64_t i = 0; i < kEvents; ++i) ASSERT_TRUE(memory.value().rank_buffer().add(event(i)));
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(memory.value().rank_buffer().add(event(~std::uint64_t{0})));
  const std::vector<std::byte> part = snapshot(memory.value());
  EXPECT_EQ(header_of(part).events, kEvents);
  EXPECT_EQ(header_of(part).events_dropped, 7U);
  EXPECT_EQ(events_of(part).back().subject, kEvents - 1);
}

TEST(TraceMemory, LeavesOutWhatIsNoEvent) {
  Result<Memory> memory = Memory::create();
  ASSERT_TRUE(memory);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(memory.value().rank_buffer().add(event(i)));
  memory.value().events()[1].kind = 0;  // its writer was killed
  Header& header = memory.value().header();
  header.communicators = ~0U;
  header.about.mpi.fill('x');
  const std::vector<std::byte> part = snapshot(memory.value());
  const std::vector<Event> events = events_of(part);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].subject, 2U);
  EXPECT_EQ(header_of(part).communicators, kCommunicators);
  EXPECT_EQ(report::text_in(header_of(part).about.mpi).size(), report::kNameBytes - 1);
}

// A program may call its phases anything, and what is in the memory may be anything.
TEST(TraceMemory, GivesEachPhaseALineOfItsOwn) {
  Result<Memory> memory = Memory::create();
  ASSERT_TRUE(memory);
  Header& header = memory.value().header();
  report::set_text(header.phase_names[0], "solve\ncall 0 forged");
  header.phase_names[1].fill('x');
  header.phases = 2;
  EXPECT_EQ(names_of(snapshot(memory.value())),
            event_names() + "phase 0 solve call 0 forged\nphase 1 " + std::string(report::kNameBytes - 1, 'x') + "\n");
  header.phases = ~0U;
  const std::string all = names_of(snapshot(memory.value()));
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(all, '\n')),
            static_cast<std::size_t>(std::ranges::count(event_names(), '\n')) + kPhaseNames);
}

TEST(TraceMemory, OpensNoOtherMemory) {
  const Result<UniqueFd> other = create_sealed_memory("other", Memory::kBytes, Backing::on_touch);
  ASSERT_TRUE(other);
  EXPECT_FALSE(Memory::open(UniqueFd(::dup(other.value().get()))));
  const Result<UniqueFd> small = create_sealed_memory("small", 4096, Backing::on_touch);
  ASSERT_TRUE(small);
  EXPECT_FALSE(Memory::open(UniqueFd(::dup(small.value().get()))));
}

TEST(TraceMemory, NamesWhatNumbersMean) {
  const std::string& names = event_names();
  for (const char* line : {"call 0 MPI_Alltoall\n", "completion 1 MPI_Waitall\n", "reason 1 unknown communicator\n",
                           "collective 0 ", "algorithm 0 ring_pull\n", "reach 0 mapped\n"}) {
    EXPECT_NE(names.find(line), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace outrigger::trace
