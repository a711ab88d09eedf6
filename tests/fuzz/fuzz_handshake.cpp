// The decoder and the receiver of handshakes between service processes, against arbitrary bytes and against nearly
// valid handshakes. Accepted messages must encode to the same bytes, and none of them may count as proof.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "proof/handshake.hpp"
#include "round_trip.hpp"

namespace {

using namespace outrigger;

// One that has asked, and is asked.
struct Listener {
  proof::JobIdentity job{{1, 2, 3}, {4, 5, 6}};
  proof::Handshake handshake{job, SpId{0}, SpId{1}};
  proof::HandshakeMessage call = handshake.call().value();
};

void check(Listener& listener, std::span<const std::byte> bytes) {
  const auto message = check_round_trip<proof::HandshakeMessage>(bytes);
  if (!message) return;
  if (!proof::looks_like_handshake(bytes)) std::abort();
  listener.handshake.allow_answers();
  const auto reply = listener.handshake.receive(*message);
  if (listener.handshake.knows_peer() || listener.handshake.is_open()) std::abort();
  if (reply && (message->step != proof::Step::call || reply->yours != message->mine)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Listener listener;
  const auto bytes = std::as_bytes(std::span(data, size));
  check(listener, bytes);
  proof::HandshakeMessage nearly = listener.call;
  nearly.from = SpId{1};
  nearly.to = SpId{0};
  for (const proof::Step step : {proof::Step::call, proof::Step::answer, proof::Step::accept}) {
    nearly.step = step;
    if (step != proof::Step::call) nearly.yours = listener.call.mine;
    check(listener, spoiled(encoded(nearly), bytes));
  }
  return 0;
}
