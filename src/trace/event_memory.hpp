// Event memory of a rank and of the service process that serves it: sealed shared memory that the node's keeper holds,
// too, so that written events survive the end of either. Only pages that are written to are allocated. A service
// process on a DPU writes to memory there (drain.hpp), and the keeper copies it.
//
// When a buffer is full, new events are dropped and counted.
//
// Thread rule: any thread of the rank adds its events; one thread of one service process, or of the keeper, adds the
// others. Memory of another process may hold anything: snapshot() checks everything.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "base/shared_memory.hpp"
#include "base/unique_fd.hpp"
#include "report/ledger.hpp"
#include "trace/event.hpp"

namespace outrigger::trace {

inline constexpr std::uint32_t kFormatVersion = 2;
// For a rank, and as many for its service process: 16 MiB each.
inline constexpr std::uint64_t kEvents = std::uint64_t{1} << 18;
// When full, communicators are known only by their ids.
inline constexpr std::uint32_t kCommunicators = 1024;

struct Communicator {
  GroupId group;
  std::uint32_t size = 0;
  std::uint32_t reserved = 0;
  std::array<char, report::kNameBytes> name{};
};
static_assert(sizeof(Communicator) == 88 && std::is_trivially_copyable_v<Communicator>);

// When full, further phases share one name.
inline constexpr std::uint32_t kPhaseNames = 257;
using PhaseName = std::array<char, report::kNameBytes>;

inline constexpr std::uint32_t kNoService = ~std::uint32_t{0};

// Description of one rank, also in files (snapshot.hpp).
struct About {
  std::uint32_t world_rank = 0;
  std::uint32_t world_size = 0;
  std::uint32_t node = 0;
  std::uint32_t nodes = 1;
  std::uint32_t service = kNoService;  // number on the node of the service process that serves the rank
  std::int32_t service_cpu = -1;
  std::int64_t started_ns = 0;
  std::int64_t ended_ns = 0;  // time of MPI_Finalize or MPI_Abort; 0: neither
  ClockSample at_start;
  ClockSample at_end;
  // Written by the keeper if the service process runs on a DPU: the largest error of its times on the node's clock.
  // Then the time when a service process of the node began to replace it; 0 if none has.
  std::int64_t dpu_clock_error_ns = 0;
  std::int64_t left_dpu_ns = 0;
  std::array<char, report::kNameBytes> mpi{};
  std::array<char, report::kTextBytes> native_because{};  // empty: offloaded
  std::array<char, report::kNameBytes> dpu{};             // the DPU's name; empty: the service process is on the node
};
static_assert(sizeof(About) == 488 && std::is_trivially_copyable_v<About>);

struct Header {
  std::uint64_t magic = 0;
  About about;
  std::array<char, report::kPathBytes> path{};  // where the events go
  std::atomic<std::uint32_t> gathered = 0;      // 1: world rank 0 has written the events of all ranks
  std::atomic<std::uint32_t> shared = 0;        // 1: its service process, here or on a DPU, writes events
  std::atomic<std::uint32_t> settled = 0;       // 1: all events noted on a DPU before the rank's request are here
  // Two processes write these with each event: separate cache lines avoid false sharing.
  alignas(64) std::atomic<std::uint64_t> events = 0;  // of the rank, including dropped ones
  alignas(64) std::atomic<std::uint64_t> service_events = 0;
  std::atomic<std::uint64_t> service_events_lost = 0;  // dropped before they came here
  alignas(64) std::atomic<std::uint32_t> communicators = 0;
  std::array<Communicator, kCommunicators> known{};
  std::atomic<std::uint32_t> phases = 0;
  std::array<PhaseName, kPhaseNames> phase_names{};
};

enum class Writers : bool { one, many };

// Events in the order in which their places were reserved. Does not own the memory.
template <Writers writers>
class Buffer {
 public:
  Buffer(std::atomic<std::uint64_t>& count, Event* events) : count_(&count), events_(events) {}
  // False: it was dropped.
  bool add(const Event& event) {
    const std::uint64_t place = take_place();
    if (place >= kEvents) return false;
    Event blank = event;
    blank.kind = static_cast<std::uint8_t>(EventKind::none);
    events_[place] = blank;
    std::atomic_ref(events_[place].kind).store(event.kind, std::memory_order_release);
    __builtin_prefetch(events_ + place + 1, kToWrite);  // first touch of that memory: fetch it in advance
    return true;
  }

 private:
  static constexpr int kToWrite = 1;

  std::uint64_t take_place() {
    if constexpr (writers == Writers::many) return count_->fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t place = count_->load(std::memory_order_relaxed);
    count_->store(place + 1, std::memory_order_release);  // a reader that sees the new count sees the events before it
    return place;
  }

  std::atomic<std::uint64_t>* count_;
  Event* events_;
};

// Mapped event memory. Owns the mapping and, if it was made here, its descriptor.
class Memory {
 public:
  static constexpr std::uint64_t kEventsAt = (sizeof(Header) + 4095) / 4096 * 4096;
  static constexpr std::uint64_t kBytes = kEventsAt + 2 * kEvents * sizeof(Event);

  // Makes empty event memory.
  [[nodiscard]] static Result<Memory> create();
  // The same, for this process only: for systems without shared memory.
  [[nodiscard]] static Result<Memory> create_private();
  // Maps event memory of another process. Error: it is not event memory.
  [[nodiscard]] static Result<Memory> open(const UniqueFd& fd);

  // -1 if it has none.
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] Header& header() const { return *reinterpret_cast<Header*>(mapping_.base()); }
  [[nodiscard]] Event* events() const { return reinterpret_cast<Event*>(mapping_.base() + kEventsAt); }
  [[nodiscard]] Event* service_events() const { return events() + kEvents; }
  [[nodiscard]] Buffer<Writers::many> rank_buffer() const { return {header().events, events()}; }
  [[nodiscard]] Buffer<Writers::one> service_buffer() const { return {header().service_events, service_events()}; }

 private:
  [[nodiscard]] static Memory blank(Mapping mapping);

  UniqueFd fd_;
  Mapping mapping_;
};

}  // namespace outrigger::trace
