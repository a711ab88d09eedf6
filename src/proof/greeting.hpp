// How two service processes of different nodes prove to each other that they belong to the same job: by the job's key,
// which is never sent, over a nonce of each, so that what has been recorded proves nothing later.
//
//   A                                                 B
//     call {a}                             ---->                    "I am A: who are you?"
//                                          <----  answer {b, a, proof of B}
//   (knows B)  accept {a, b, proof of A}   ---->
//                                          <----  accept {b, a, proof of B}    (knows A, and that A knows B)
//   (knows that B knows A)
//
// Either side may call, and both at once. A proof is over who proves it to whom, so that it cannot be sent back to whom
// it came from; over both nonces; the step; the version; and what the job is. Each side takes only proofs over its own
// nonce of this pair: no greeting can be made to fit another, and what a stranger sends changes nothing. Nothing else
// is sent to a peer before it is known that it knows us, so that nothing can come from a peer that is not known yet.
//
// From the nonces both derive a pass for each direction, which every further message shows (wire_messages.hpp).
//
// A calls again until it is answered. A service process that takes the place of another has a Greeting of its own, with
// a new nonce: nothing of the old one is kept. Each message also says which incarnations (epochs) of the two it is
// between, and is not listened to by, or from, another one: whoever has not been told yet that its peer has been
// replaced does not mistake the one for the other.
//
// Thread rule: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "proof/hmac.hpp"
#include "protocol/ids.hpp"
#include "protocol/wire/job_map.hpp"
#include "protocol/wire/wire_messages.hpp"

namespace outrigger::proof {

// What the service processes of a job know alike.
struct JobIdentity {
  Key key{};
  Mac digest{};  // of who serves whom, on which nodes. Not of addresses: a service process that is restarted has
                 // another
};

// `dpu_secret`: what the job's DPUs were started with; zeros: it has none. Where there is one, what has crossed a
// network in clear (the job map, on its way to a DPU) is not enough to know the key.
[[nodiscard]] JobIdentity identity_of(const JobMap& job_map, const Secret& dpu_secret);

enum class Step : std::uint32_t { call = 1, answer = 2, accept = 3 };

struct GreetingMessage {
  Step step = Step::call;
  std::uint32_t version = 0;
  SpId from;
  SpId to;
  Epoch from_epoch{1};
  Epoch to_epoch{1};  // as the sender knows it
  Nonce mine{};       // the sender's
  Nonce yours{};      // the receiver's; of a call: zeros
  Mac proof{};        // of a call: zeros
};

inline constexpr std::size_t kGreetingBytes = 32 + 3 * 32;
using EncodedGreeting = std::array<std::byte, kGreetingBytes>;

[[nodiscard]] EncodedGreeting encode_greeting(const GreetingMessage& message);
// Whether it claims to be one, whatever else it is.
[[nodiscard]] bool looks_like_greeting(std::span<const std::byte> bytes);
// Nothing for anything that encode_greeting() would not have written of one of the three.
[[nodiscard]] std::optional<GreetingMessage> decode_greeting(std::span<const std::byte> bytes);

class Greeting {
 public:
  Greeting() = default;
  // `job` must outlive it.
  Greeting(const JobIdentity& job, SpId self, SpId peer, Epoch self_epoch = Epoch{1}, Epoch peer_epoch = Epoch{1})
      : job_(&job), self_(self), peer_(peer), self_epoch_(self_epoch), peer_epoch_(peer_epoch) {}

  // To be sent now, and again every second or so until is_open(). Nothing: it is open.
  [[nodiscard]] std::optional<GreetingMessage> call();
  // Of the peer, or of somebody who says so. What is to be sent to the peer for it, if anything.
  [[nodiscard]] std::optional<GreetingMessage> hear(const GreetingMessage& message);

  // The peer has proven that it is the one: what shows pass_in() comes from it.
  [[nodiscard]] bool knows_peer() const { return theirs_.has_value(); }
  // It also knows us, and takes what shows pass_out().
  [[nodiscard]] bool is_open() const { return open_; }
  [[nodiscard]] const wire::Pass& pass_in() const { return pass_in_; }
  [[nodiscard]] const wire::Pass& pass_out() const { return pass_out_; }

  // Somebody who knew our nonce gave a proof that is wrong.
  [[nodiscard]] bool was_lied_to() const { return lied_to_; }
  // Once a second or so. Calls are answered so often in between, whoever makes them: the answers go to the peer itself,
  // whom a stranger could flood otherwise.
  void allow_answers() { answers_left_ = kAnswersAtOnce; }
  static constexpr int kAnswersAtOnce = 16;

 private:
  [[nodiscard]] const Nonce& own_nonce();
  [[nodiscard]] GreetingMessage message(Step step, const Nonce& theirs);
  [[nodiscard]] GreetingMessage proven(Step step, const Nonce& theirs);
  [[nodiscard]] Mac proof_of(const GreetingMessage& message) const;
  struct End {
    SpId sp;
    Epoch epoch;
    const Nonce& nonce;
  };
  [[nodiscard]] wire::Pass pass(const End& sender, const End& receiver) const;
  [[nodiscard]] std::optional<GreetingMessage> answer(const Nonce& caller);
  void know(const Nonce& theirs);

  const JobIdentity* job_ = nullptr;
  SpId self_;
  SpId peer_;
  Epoch self_epoch_{1};
  Epoch peer_epoch_{1};
  std::optional<Nonce> mine_;
  std::optional<Nonce> theirs_;  // once it is proven
  bool open_ = false;
  bool lied_to_ = false;
  int answers_left_ = kAnswersAtOnce;
  wire::Pass pass_in_{};
  wire::Pass pass_out_{};
};

}  // namespace outrigger::proof
