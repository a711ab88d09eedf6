#include "mpi/trace/traced_requests.hpp"

#include <algorithm>
#include <atomic>
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
using trace::RequestNote;

// A persistent request, or one for which there was no slot.
struct Known {
  RequestNote note;  // number 0: a persistent one that is not active
  TracedCall call;
  std::optional<TracedPost> post;  // of the current start
};

constinit trace::RequestSlots slots;
constinit std::mutex known_mutex;
constinit std::atomic<std::size_t> known_count = 0;  // 0: no request need be checked
constinit std::atomic<std::uint64_t> last_number = 0;
[[gnu::tls_model("initial-exec")]] constinit thread_local std::uint64_t tests_in_vain =
    0;  // since this thread's last recorded completion

using KnownRequests = std::unordered_map<std::uint64_t, Known>;

KnownRequests& requests() {
  static auto* all = new KnownRequests;
  return *all;
}

std::uint64_t next_number() {
  return last_number.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Under the lock.
void publish_known() {
  known_count.store(requests().size(), std::memory_order_relaxed);
}

void remember(std::uint64_t key, const Known& known) {
  const std::scoped_lock lock(known_mutex);
  requests().insert_or_assign(key, known);
  publish_known();
}

void forget_known(std::uint64_t key) {
  if (known_count.load(std::memory_order_relaxed) == 0) return;
  const std::scoped_lock lock(known_mutex);
  requests().erase(key);
  publish_known();
}

bool is_persistent(const Known& known) {
  return known.call.kind.form == CallForm::persistent;
}

// The program has got the request back, or a persistent request's run has ended.
void end_known(std::uint64_t key, std::uint64_t number) {
  const std::scoped_lock lock(known_mutex);
  const auto found = requests().find(key);
  if (found == requests().end() || found->second.note.number != number) return;
  found->second.note.number = 0;
  if (!is_persistent(found->second)) requests().erase(found);
  publish_known();
}

Event event_of(const RequestNote& collected, EventKind kind, CompletionCall call) {
  Event event;
  event.kind = static_cast<std::uint8_t>(kind);
  event.name = static_cast<std::uint16_t>(call);
  event.group = collected.group;
  event.sequence = collected.sequence;
  event.subject = collected.number;
  return event;
}

// For a persistent collective with a known start.
void add_start(const TracedStart& start, std::optional<report::NativeReason> native) {
  Event event;
  CommRecord* record = nullptr;
  {
    const std::scoped_lock lock(known_mutex);
    const auto found = requests().find(handle_key(start.request));
    if (found == requests().end() || !is_persistent(found->second)) return;
    Known& known = found->second;
    const std::optional<TracedPost> post = native ? std::nullopt : std::exchange(known.post, std::nullopt);
    known.note.number = next_number();
    known.note.group = post ? post->group : known.call.record->id;
    known.note.sequence = post ? post->sequence : trace::kNoSequence;
    const bool always = native == report::NativeReason::none;
    event.kind = static_cast<std::uint8_t>(EventKind::call);
    event.detail = post ? trace::kOffloaded : static_cast<std::uint8_t>(always ? known.call.reason : *native);
    event.number = post ? static_cast<std::uint32_t>(post->algorithm) : 0;
    event.name = static_cast<std::uint16_t>(index_of(known.call.kind));
    event.bytes = known.call.bytes;
    event.group = known.note.group;
    event.sequence = known.note.sequence;
    event.subject = known.note.number;
    record = known.call.record;
  }
  event.began_ns = start.began_ns;
  event.ended_ns = monotonic_ns();
  note_group(event.group, *record);
  add_event(event);
}

}  // namespace

std::uint64_t remember_request(MPI_Request request, const TracedCall& call, const Event& event) {
  const bool persistent = call.kind.form == CallForm::persistent;
  const RequestNote note{persistent ? 0 : next_number(), event.group, event.sequence};
  if (request == constants().request_null) return note.number;
  const std::uint64_t key = handle_key(request);
  if (persistent) {
    if (const std::optional<RequestNote> old = slots.find(key)) slots.remove(key, old->number);
    remember(key, Known{note, call, std::nullopt});
  } else if (slots.add(key, note)) {
    forget_known(key);
  } else {
    remember(key, Known{note, call, std::nullopt});
  }
  return note.number;
}

void request_is_posted(MPI_Request request, const TracedPost& post) {
  const std::scoped_lock lock(known_mutex);
  const auto found = requests().find(handle_key(request));
  if (found != requests().end()) found->second.post = post;
}

void forget_traced_request(MPI_Request request) {
  const std::uint64_t key = handle_key(request);
  if (const std::optional<RequestNote> note = slots.find(key)) slots.remove(key, note->number);
  forget_known(key);
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
  for (int i = 0; i < count; ++i) {
    if (const std::optional<RequestNote> note = slots.find(handle_key(requests_[i]))) {
      watched_.push_back({i, requests_[i], Place::slot, false, *note});
    } else if (known_count.load(std::memory_order_relaxed) != 0) {
      watch_known(i);
    }
  }
}

void TracedCompletion::watch_known(int index) {
  const std::scoped_lock lock(known_mutex);
  const auto found = requests().find(handle_key(requests_[index]));
  if (found == requests().end() || found->second.note.number == 0) return;
  const Place place = is_persistent(found->second) ? Place::persistent : Place::known;
  watched_.push_back({index, requests_[index], place, false, found->second.note});
}

// By the call's outputs. If it rejected its arguments, these may be unwritten.
bool TracedCompletion::is_named(int index) const {
  if (outputs_.flag != nullptr && *outputs_.flag == 0) return false;
  if (outputs_.index != nullptr) return *outputs_.index == index;
  if (outputs_.count == nullptr || outputs_.indices == nullptr) return true;
  const int count = std::clamp(*outputs_.count, 0, count_);
  return std::find(outputs_.indices, outputs_.indices + count, index) != outputs_.indices + count;
}

// A persistent request does not change.
bool TracedCompletion::is_collected(const Watched& watched) const {
  return watched.place == Place::persistent ? is_named(watched.index) : requests_[watched.index] != watched.request;
}

std::size_t TracedCompletion::forget_collected() {
  std::size_t collected = 0;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    Watched& watched = watched_[i];
    watched.collected = is_collected(watched);
    if (!watched.collected) continue;
    ++collected;
    const std::uint64_t key = handle_key(watched.request);
    watched.place == Place::slot ? (void)slots.remove(key, watched.note.number) : end_known(key, watched.note.number);
  }
  return collected;
}

void TracedCompletion::end() {
  const std::int64_t now = monotonic_ns();
  const std::size_t collected = forget_collected();
  if (collected == 0 && trace::tests(call_)) {
    if (!watched_.empty()) ++tests_in_vain;
    return;
  }
  std::size_t first = 0;
  while (collected != 0 && !watched_[first].collected) ++first;
  Event event = event_of(collected == 0 ? RequestNote{} : watched_[first].note, EventKind::completion, call_);
  event.began_ns = began_ns_;
  event.ended_ns = now;
  event.bytes = std::exchange(tests_in_vain, 0);
  event.detail = static_cast<std::uint8_t>(std::min<std::size_t>(collected, 255));
  event.number = static_cast<std::uint32_t>(count_);
  add_event(event);
  for (std::size_t i = first + 1; i < watched_.size(); ++i) {
    if (!watched_[i].collected) continue;
    Event further = event_of(watched_[i].note, EventKind::collected, call_);
    further.began_ns = began_ns_;
    further.ended_ns = now;
    add_event(further);
  }
}

}  // namespace outrigger::mpi
