// Messages between ranks of MPI_COMM_WORLD that no receive and no probe of the program can match, whether or not the
// other side has this library: what nobody takes stays in the MPI, unseen.
//
// MPICH and its kin: partitioned messages of MPI 4, which match nothing but their like of the same tag (no wildcard
// does), with tags among the highest that there are. Open MPI, whose own partitioned messages come later and
// differently: negative tags, as its collectives use them, which no wildcard matches.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>

namespace outrigger::mpi {

// One message under way, with its bytes. One that is not done when it goes is left to the MPI.
class HiddenMessage {
 public:
  // From 0 to 3; a message matches the other side's of the same channel, in the order in which they were sent. Small
  // messages that nobody takes do no harm; of more than 128 bytes, libfabric lets them stop what comes behind them.
  using Channel = int;

  // Whether the loaded MPI can do it, tried with a message to this rank itself, for so long at most. Only then may
  // there be others.
  [[nodiscard]] static bool work(std::chrono::milliseconds limit);

  [[nodiscard]] static HiddenMessage send(std::span<const std::byte> bytes, int to, Channel channel);
  [[nodiscard]] static HiddenMessage receive(std::size_t bytes, int from, Channel channel);
  HiddenMessage(HiddenMessage&& other) noexcept;
  HiddenMessage& operator=(HiddenMessage&& other) = delete;
  ~HiddenMessage();

  // Sent, so far as it concerns the sender, or received. Lets the MPI progress.
  [[nodiscard]] bool done();
  // What was received.
  [[nodiscard]] std::span<const std::byte> bytes() const;

 private:
  struct State;
  explicit HiddenMessage(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace outrigger::mpi
