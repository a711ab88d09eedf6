#include "mpi/report/present_message.hpp"

#include <array>

#include "base/stack.hpp"
#include "mpi/communicators/comm_state.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"
#include "mpi/report/call_count.hpp"
#include "mpi/report/call_sites.hpp"
#include "mpi/report/counting.hpp"
#include "mpi/report/message_sites.hpp"
#include "mpi/report/present_call.hpp"
#include "mpi/report/thread_entries.hpp"

namespace outrigger::mpi {
namespace {

using report::MessagePeer;
using report::PresentMessage;

// A communicator as messages need it.
struct MessageComm {
  MPI_Comm comm{};
  std::uint64_t freed = 0;             // freed_communicators() at the look-up
  const WorldRank* members = nullptr;  // nullptr: the MPI is asked for world ranks
  std::uint32_t size = 0;              // of the group that messages go to
  bool is_known = false;
  bool has_name = false;                        // false: it is another communicator
  std::array<char, report::kNameBytes> name{};  // at the look-up; that of its record is for the report
  int asked = -1;                               // the last rank for which the MPI was asked
  std::int32_t answer = report::kOtherWorld;
};
// This thread's last communicators.
struct MessageComms {
  std::array<MessageComm, 8> all{};
  std::size_t last = 0;  // used
  std::size_t next = 0;  // to be replaced
};

[[gnu::tls_model("initial-exec")]] constinit thread_local MessageComms message_comms;
[[gnu::tls_model("initial-exec")]] constinit thread_local const PublishedMessage* current_message = nullptr;

[[gnu::noinline]] void find_entry(MessageEntry& here) {
  here = {take_entry(ledger().header().messages), nullptr, true};
  if (here.entry != nullptr) publish(here.entry->has_name, std::uint32_t{0});
}

// longjmp() may have left a collective.
void forget_lost_call() {
  if (is_entered() && CallCount::current() == nullptr && !CompletionOrigin::is_here()) leave_call(monotonic_ns());
}

// A communicator without a state: one between groups, of one rank, or with processes of other worlds.
void ask_about(MessageComm& found, MPI_Comm comm) {
  int inter = 0;
  int size = 0;
  if (comm == constants().comm_null || real().Comm_test_inter(comm, &inter) != MPI_SUCCESS) return;
  if ((inter != 0 ? real().Comm_remote_size : real().Comm_size)(comm, &size) != MPI_SUCCESS) return;
  static_cast<void>(record_of(comm));  // it notes that the communicator is freed
  found.size = static_cast<std::uint32_t>(size);
  found.is_known = true;
}

void read_name(MessageComm& found) {
  std::array<char, MPI_MAX_OBJECT_NAME + 1> name{};
  int length = 0;
  real().Comm_get_name(found.comm, name.data(), &length);
  report::set_text(found.name, length > 0 ? name.data() : "(unnamed)");
  found.has_name = true;
}

[[gnu::noinline]] void look_up_comm(MessageComm& found, MPI_Comm comm, std::uint64_t freed) {
  found = {};
  message_entry().named = nullptr;
  found.comm = comm;
  found.freed = freed;
  const Job* job = current_job();
  const CommState* state = job == nullptr ? nullptr : state_of(*job, comm);
  if (state == nullptr) return ask_about(found, comm);
  read_name(found);
  found.members = state->world_ranks().data();
  found.size = state->size();
  found.is_known = true;
}

MessageComm& message_comm(MPI_Comm comm) {
  MessageComms& comms = message_comms;
  const std::uint64_t freed = freed_communicators();
  const auto is_it = [&](const MessageComm& one) { return one.comm == comm && one.freed == freed && one.is_known; };
  if (is_it(comms.all[comms.last])) [[likely]]
    return comms.all[comms.last];
  for (comms.last = 0; comms.last < comms.all.size(); ++comms.last) {
    if (is_it(comms.all[comms.last])) return comms.all[comms.last];
  }
  comms.last = comms.next;
  comms.next = (comms.next + 1) % comms.all.size();
  look_up_comm(comms.all[comms.last], comm, freed);
  return comms.all[comms.last];
}

[[gnu::noinline]] std::int32_t ask_for_world_rank(MessageComm& comm, int rank) {
  const Job* job = current_job();
  if (job == nullptr) return report::kOtherWorld;
  int inter = 0;
  int there = MPI_UNDEFINED;
  MPI_Group group{};
  real().Comm_test_inter(comm.comm, &inter);
  (inter != 0 ? real().Comm_remote_group : real().Comm_group)(comm.comm, &group);
  real().Group_translate_ranks(group, 1, &rank, job->world_group, &there);
  real().Group_free(&group);
  comm.asked = rank;
  return comm.answer = there < 0 ? report::kOtherWorld : there;
}

// A rank of the communicator, in the world.
std::int32_t shown_rank(MessageComm& comm, int rank) {
  if (rank == MPI_ANY_SOURCE) return report::kAnySource;
  if (rank == MPI_PROC_NULL) return report::kNoProcess;
  if (rank < 0 || static_cast<std::uint32_t>(rank) >= comm.size) return report::kOtherWorld;
  if (comm.members != nullptr) return static_cast<std::int32_t>(comm.members[rank].value());
  return rank == comm.asked ? comm.answer : ask_for_world_rank(comm, rank);
}

MessagePeer shown_peer(MessageComm* comm, std::int8_t rank, std::int8_t tag, std::span<const Word> words) {
  if (comm == nullptr || rank < 0) return {};
  const int asked = argument<int>(words[static_cast<std::size_t>(rank)]);
  const int tagged = argument<int>(words[static_cast<std::size_t>(tag)]);
  return {shown_rank(*comm, asked), tagged == MPI_ANY_TAG ? report::kAnyTag : tagged};
}

void show_peer(MessagePeer& place, const MessagePeer& peer) {
  publish(place.rank, peer.rank);
  publish(place.tag, peer.tag);
}

void show_place(report::CodePlace& place, const report::CodePlace& found) {
  publish(place.offset, found.offset);
  publish(place.object, found.object);
}

// The name is copied only when the communicator changes.
void show_comm(MessageEntry& here, const MessageComm* comm) {
  PresentMessage& entry = *here.entry;
  const bool has_name = comm != nullptr && comm->has_name;
  publish(entry.has_name, std::uint32_t{has_name ? 1U : 0U});
  if (!has_name || comm == here.named) return;
  entry.name = comm->name;
  publish(entry.size, comm->size);
  here.named = comm;
}

}  // namespace

void PublishedMessage::enter(const CallOrigin& origin, const MessageShape& shape, std::span<const Word> words) {
  MessageEntry& here = message_entry();
  if (!here.looked) [[unlikely]]
    find_entry(here);
  if (here.entry == nullptr) return;
  PresentMessage& entry = *here.entry;
  if (entry.inside != 0 && is_nested()) return;
  forget_lost_call();
  const auto at = [&](std::int8_t index) { return words[static_cast<std::size_t>(index)]; };
  const CallPlaces places = message_places(origin);
  MessageComm* const comm = shape.comm < 0 ? nullptr : &message_comm(argument<MPI_Comm>(at(shape.comm)));
  const MessagePeer to = shown_peer(comm, shape.to, shape.to_tag, words);
  const MessagePeer from = shown_peer(comm, shape.from, shape.from_tag, words);
  publish(entry.since_ns, monotonic_ns());
  publish(entry.calls, entry.calls + 1);
  publish(entry.call, static_cast<std::uint32_t>(shape.call));
  publish(entry.requests, shape.requests < 0 ? 1U : static_cast<std::uint32_t>(argument<int>(at(shape.requests))));
  show_peer(entry.to, to);
  show_peer(entry.from, from);
  show_place(entry.site, places.site);
  show_place(entry.caller, places.caller);
  show_comm(here, comm);
  publish(entry.inside, std::uint32_t{1});
  current_message = this;
  entered_ = true;
}

// Calls inside another, by a callback or a tool, belong to the outer one. longjmp() may have left that one.
bool PublishedMessage::is_nested() const {
  return is_above(current_message, this) && is_in_mpi_frame(current_message);
}

void PublishedMessage::leave() {
  current_message = nullptr;
  if (!publishing_messages()) return;
  PresentMessage& entry = *message_entry().entry;
  publish(entry.inside, std::uint32_t{0});
  publish(entry.since_ns, monotonic_ns());
}

}  // namespace outrigger::mpi
