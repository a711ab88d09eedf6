#include "mpi/trace/traced_requests.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "mpi/native/constants.hpp"
#include "mpi/report/counting.hpp"
#include "mpi/report/native_requests.hpp"
#include "mpi/trace/tracing.hpp"

namespace outrigger::mpi {
namespace {

using trace::CompletionCall;
using trace::Event;
using trace::EventKind;

struct Known {
  GroupId group;
  std::uint64_t sequence = trace::kNoSequence;
  std::uint64_t number = 0;  // 0: a persistent one that is not active
  TracedCall call;
  std::optional<TracedPost> post;  // of the start that is under way
};

constinit std::mutex requests_mutex;
constinit std::uint64_t last_number = 0;
constinit thread_local std::uint64_t tests_in_vain = 0;  // since this thread's last completion in the trace

using KnownRequests = std::unordered_map<std::uint64_t, Known>;

KnownRequests& requests() {
  static auto* all = new KnownRequests;
  return *all;
}

// That of the request that was collected last: most programs start the next one then, and nothing is allocated.
KnownRequests::node_type& spare_node() {
  static auto* one = new KnownRequests::node_type;
  return *one;
}

void remember(std::uint64_t key, const Known& known) {
  KnownRequests::node_type& spare = spare_node();
  const auto found = requests().find(key);
  if (found != requests().end()) {
    found->second = known;
  } else if (spare.empty()) {
    requests().emplace(key, known);
  } else {
    spare.key() = key;
    spare.mapped() = known;
    requests().insert(std::move(spare));
  }
}

bool is_persistent(const Known& known) {
  return known.call.kind.form == CallForm::persistent;
}

struct Collected {
  GroupId group;
  std::uint64_t sequence = trace::kNoSequence;
  std::uint64_t number = 0;
};

Event event_of(const Collected& collected, EventKind kind, CompletionCall call) {
  Event event;
  event.kind = static_cast<std::uint8_t>(kind);
  event.name = static_cast<std::uint16_t>(call);
  event.group = collected.group;
  event.sequence = collected.sequence;
  event.subject = collected.number;
  return event;
}

// Of a persistent collective whose start is known.
void add_start(const TracedStart& start, std::optional<report::NativeReason> native) {
  Event event;
  CommRecord* record = nullptr;
  {
    const std::scoped_lock lock(requests_mutex);
    const auto found = requests().find(handle_key(start.request));
    if (found == requests().end() || !is_persistent(found->second)) return;
    Known& known = found->second;
    const std::optional<TracedPost> post = native ? std::nullopt : std::exchange(known.post, std::nullopt);
    known.number = ++last_number;
    known.group = post ? post->group : known.call.record->id;
    known.sequence = post ? post->sequence : trace::kNoSequence;
    const bool always = native == report::NativeReason::none;
    event.kind = static_cast<std::uint8_t>(EventKind::call);
    event.detail = post ? trace::kOffloaded : static_cast<std::uint8_t>(always ? known.call.reason : *native);
    event.number = post ? static_cast<std::uint32_t>(post->algorithm) : 0;
    event.name = static_cast<std::uint16_t>(index_of(known.call.kind));
    event.bytes = known.call.bytes;
    event.group = known.group;
    event.sequence = known.sequence;
    event.subject = known.number;
    record = known.call.record;
  }
  event.began_ns = start.began_ns;
  event.ended_ns = monotonic_ns();
  note_group(event.group, *record);
  add_event(event);
}

}  // namespace

std::uint64_t remember_request(MPI_Request request, const TracedCall& call, const Event& event) {
  const std::scoped_lock lock(requests_mutex);
  const bool persistent = call.kind.form == CallForm::persistent;
  const std::uint64_t number = persistent ? 0 : ++last_number;
  if (request != constants().request_null) {
    remember(handle_key(request), Known{event.group, event.sequence, number, call, std::nullopt});
  }
  return number;
}

void request_is_posted(MPI_Request request, const TracedPost& post) {
  const std::scoped_lock lock(requests_mutex);
  const auto found = requests().find(handle_key(request));
  if (found != requests().end()) found->second.post = post;
}

void forget_traced_request(MPI_Request request) {
  const std::scoped_lock lock(requests_mutex);
  requests().erase(handle_key(request));
}

TracedStart::TracedStart(MPI_Request started) : request(started), began_ns(monotonic_ns()) {}

void trace_offloaded_start(const TracedStart& start) {
  add_start(start, std::nullopt);
}

void trace_native_start(const TracedStart& start, report::NativeReason why) {
  add_start(start, why);
}

TracedCompletion::TracedCompletion(CompletionCall call, const MPI_Request* requests_of_call, int count,
                                   const CompletionOutputs& outputs)
    : call_(call), requests_(requests_of_call), count_(count), outputs_(outputs), began_ns_(monotonic_ns()) {
  const std::scoped_lock lock(requests_mutex);
  for (int i = 0; i < count; ++i) {
    const auto found = requests().find(handle_key(requests_[i]));
    if (found == requests().end() || found->second.number == 0) continue;
    watched_.push_back({i, requests_[i], is_persistent(found->second)});
  }
}

// By what the call has written. Where it has refused its arguments, that may be nothing.
bool TracedCompletion::is_named(int index) const {
  if (outputs_.flag != nullptr && *outputs_.flag == 0) return false;
  if (outputs_.index != nullptr) return *outputs_.index == index;
  if (outputs_.count == nullptr || outputs_.indices == nullptr) return true;
  const int count = std::clamp(*outputs_.count, 0, count_);
  return std::find(outputs_.indices, outputs_.indices + count, index) != outputs_.indices + count;
}

// A persistent request stays what it is.
bool TracedCompletion::is_collected(const Watched& watched) const {
  return watched.persistent ? is_named(watched.index) : requests_[watched.index] != watched.request;
}

void TracedCompletion::end() {
  const std::int64_t now = monotonic_ns();
  MostlyOne<Collected> all;
  {
    const std::scoped_lock lock(requests_mutex);
    for (std::size_t i = 0; i < watched_.size(); ++i) {
      const Watched& watched = watched_[i];
      const auto found = requests().find(handle_key(watched.request));
      if (found == requests().end() || !is_collected(watched)) continue;
      all.push_back({found->second.group, found->second.sequence, found->second.number});
      found->second.number = 0;
      if (!watched.persistent) spare_node() = requests().extract(found);
    }
  }
  if (all.empty() && trace::tests(call_)) {
    if (!watched_.empty()) ++tests_in_vain;
    return;
  }
  Event event = event_of(all.empty() ? Collected{} : all[0], EventKind::completion, call_);
  event.began_ns = began_ns_;
  event.ended_ns = now;
  event.bytes = std::exchange(tests_in_vain, 0);
  event.detail = static_cast<std::uint8_t>(std::min<std::size_t>(all.size(), 255));
  event.number = static_cast<std::uint32_t>(count_);
  add_event(event);
  for (std::size_t i = 1; i < all.size(); ++i) {
    Event further = event_of(all[i], EventKind::collected, call_);
    further.began_ns = began_ns_;
    further.ended_ns = now;
    add_event(further);
  }
}

}  // namespace outrigger::mpi
