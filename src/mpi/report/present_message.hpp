// Publishes the call with messages, or the wait for requests, that this thread is in (report::PresentMessage), for
// `outrigger stuck`. Only with live data: it costs about 30 ns a call.
//
// Thread rule: any thread; each has an entry of its own.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "mpi/native/abi.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/call_ways.hpp"
#include "mpi/report/ledger_rows.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

// Indexes of a call's arguments, from 0; -1: it has none.
struct MessageShape {
  bool blocks = false;  // false: the call is not published
  report::MessageCall call = report::MessageCall::send;
  std::int8_t to = -1;
  std::int8_t to_tag = -1;
  std::int8_t from = -1;
  std::int8_t from_tag = -1;
  std::int8_t comm = -1;
  std::int8_t requests = -1;  // number of requests
};

[[nodiscard]] constexpr MessageShape message_shape(Call call) {
  using enum report::MessageCall;
  constexpr auto sends = [](report::MessageCall kind) { return MessageShape{true, kind, 3, 4, -1, -1, 5, -1}; };
  constexpr auto probes = [](report::MessageCall kind) { return MessageShape{true, kind, -1, -1, 0, 1, 2, -1}; };
  constexpr auto waits = [](report::MessageCall kind) { return MessageShape{true, kind, -1, -1, -1, -1, -1, 0}; };
  constexpr MessageShape receives{true, recv, -1, -1, 3, 4, 5, -1};
  constexpr MessageShape both{true, sendrecv, 3, 4, 8, 9, 10, -1};
  constexpr MessageShape replaces{true, sendrecv_replace, 3, 4, 5, 6, 7, -1};
  switch (call) {
    case Call::Send: return sends(send);
    case Call::Bsend: return sends(bsend);
    case Call::Ssend: return sends(ssend);
    case Call::Rsend: return sends(rsend);
    case Call::Recv: return receives;
    case Call::Mrecv: return {true, mrecv};
    case Call::Sendrecv: return both;
    case Call::Sendrecv_replace: return replaces;
    case Call::Probe: return probes(probe);
    case Call::Mprobe: return probes(mprobe);
    case Call::Wait: return {true, wait};
    case Call::Waitall: return waits(waitall);
    case Call::Waitany: return waits(waitany);
    case Call::Waitsome: return waits(waitsome);
#if OUTRIGGER_MPI4
    case Call::Send_c: return sends(send);
    case Call::Bsend_c: return sends(bsend);
    case Call::Ssend_c: return sends(ssend);
    case Call::Rsend_c: return sends(rsend);
    case Call::Recv_c: return receives;
    case Call::Mrecv_c: return {true, mrecv};
    case Call::Sendrecv_c: return both;
    case Call::Sendrecv_replace_c: return replaces;
#endif
    default: return {};
  }
}

// The call is published as long as this object lives. Does nothing without live data, or if the MPI itself calls.
class PublishedMessage {
 public:
  template <class... Words>
  PublishedMessage(const CallSite& site, const MessageShape& shape, Words... words) {
    if (!shape.blocks || !publishing_messages() || site.inside_mpi()) return;
    const std::array all{words...};
    enter({site.caller, this}, shape, all);
  }
  PublishedMessage(const PublishedMessage&) = delete;
  PublishedMessage& operator=(const PublishedMessage&) = delete;
  ~PublishedMessage() {
    if (entered_) leave();
  }

 private:
  void enter(const CallOrigin& origin, const MessageShape& shape, std::span<const Word> words);
  static void leave();
  [[nodiscard]] bool is_nested() const;

  bool entered_ = false;
};

}  // namespace outrigger::mpi
