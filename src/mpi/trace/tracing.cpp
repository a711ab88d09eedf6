#include "mpi/trace/tracing.hpp"

#include <pthread.h>

#include <mutex>
#include <optional>
#include <unordered_set>
#include <utility>

#include "mpi/collectives/offloaded_collective.hpp"
#include "mpi/native/message.hpp"
#include "mpi/report/call_count.hpp"
#include "mpi/report/counting.hpp"
#include "mpi/trace/traced_requests.hpp"

namespace outrigger::mpi {
namespace {

constinit std::mutex groups_mutex;

// Events in that memory, once there is a trace.
constinit std::optional<trace::Buffer<trace::Writers::many>> rank_events;

std::optional<trace::Memory>& the_memory() {
  static auto* one = new std::optional<trace::Memory>;  // until the end of the process
  return *one;
}

std::unordered_set<GroupId>& noted_groups() {
  static auto* all = new std::unordered_set<GroupId>;
  return *all;
}

// Total of the sent bytes, if the description has them.
std::optional<std::uint64_t> bytes_of(const Operation& operation) {
  const bool to_each = operation.asked.collective == Collective::ialltoall ||
                       operation.asked.collective == Collective::ialltoallv ||
                       operation.asked.collective == Collective::ialltoallw;
  if (!to_each || operation.in_place) return std::nullopt;
  return operation.send.total_bytes();
}

// The memory is not mapped there.
void forget_trace_in_child() {
  detail::observing.fetch_and(static_cast<std::uint8_t>(~detail::kTraces), std::memory_order_relaxed);
}

}  // namespace

bool start_tracing(const trace::About& about, const std::string& path) {
  Result<trace::Memory> made = trace::Memory::create();
  if (!made) made = trace::Memory::create_private();
  if (!made) {
    print("there will be no trace: no memory for its events: %s", made.error().c_str());
    return false;
  }
  the_memory() = std::move(made).value();
  rank_events = trace_memory().rank_buffer();
  trace::Header& header = trace_memory().header();
  header.about = about;
  report::set_text(header.path, path);
  (void)pthread_atfork(nullptr, nullptr, &forget_trace_in_child);
  detail::observing.fetch_or(detail::kTraces, std::memory_order_release);
  watch_all_completions();
  return true;
}

void stop_tracing() {
  detail::observing.fetch_and(static_cast<std::uint8_t>(~detail::kTraces), std::memory_order_release);
  watch_all_completions();
}

trace::Memory& trace_memory() {
  return *the_memory();
}

void add_event(const trace::Event& event) {
  (void)rank_events->add(event);
}

void note_group(GroupId group, const CommRecord& record) {
  [[gnu::tls_model("initial-exec")]] constinit static thread_local std::optional<GroupId>
      noted_last;  // usually the same again
  if (group == noted_last) return;
  noted_last = group;
  const std::scoped_lock lock(groups_mutex);
  if (!noted_groups().insert(group).second) return;
  trace::Header& header = trace_memory().header();
  const std::uint32_t count = header.communicators.load(std::memory_order_relaxed);
  if (count >= trace::kCommunicators) return;
  header.known[count] = trace::Communicator{group, record.size, 0, record.name};
  header.communicators.store(count + 1, std::memory_order_release);
}

void trace_call(const TracedCall& call) {
  trace::Event event;
  event.kind = static_cast<std::uint8_t>(trace::EventKind::call);
  event.began_ns = call.began_ns;
  event.ended_ns = monotonic_ns();
  event.bytes = call.bytes;
  event.name = static_cast<std::uint16_t>(index_of(call.kind));
  event.group = call.post ? call.post->group : call.record->id;
  event.detail = call.post       ? trace::kOffloaded
                 : call.by_ranks ? trace::kByRanks
                                 : static_cast<std::uint8_t>(call.reason);
  if (call.post) {
    event.sequence = call.post->sequence;
    event.number = static_cast<std::uint32_t>(call.post->algorithm);
  }
  const bool own_group = event.group == call.record->id;
  if (!own_group || !call.record->traced.load(std::memory_order_relaxed)) {
    note_group(event.group, *call.record);
    if (own_group) call.record->traced.store(true, std::memory_order_relaxed);
  }
  if (call.request != nullptr) event.subject = remember_request(*call.request, call, event);
  add_event(event);
}

void trace_post(const Operation& operation, std::uint64_t sequence) {
  if (!tracing()) return;
  const CommState& comm = *operation.comm;
  const TracedPost post{comm.id(),     sequence,    index_of(operation.asked.algorithm),
                        comm.record(), comm.size(), bytes_of(operation)};
  if (operation.persistent != nullptr) {
    request_is_posted(operation.request, post);
  } else if (CallCount* call = CallCount::current()) {
    call->posted(post);
  }
}

}  // namespace outrigger::mpi
