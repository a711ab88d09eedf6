// Messages between ranks of MPI_COMM_WORLD that no receive or probe of the program can match, even if the other side
// lacks this library: unreceived ones stay in the MPI.
//
// MPICH's family: partitioned messages of MPI 4, which match only partitioned messages of the same tag (no wildcards),
// with some of the highest tags. Open MPI, whose partitioned messages came later and differ: negative tags, like its
// collectives, which no wildcard matches.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>

namespace outrigger::mpi {

// One message in flight, with its bytes. If it is not done at destruction, it is left to the MPI.
class HiddenMessage {
 public:
  // From 0 to 3. A message matches the other side's of the same channel, in the order of sending. Small messages
  // without a receiver do no harm; libfabric lets those of more than 128 bytes block later ones.
  using Channel = int;

  // True if the loaded MPI supports them. Tries a message to this rank itself for at most `limit`. Call it before all
  // others.
  [[nodiscard]] static bool work(std::chrono::milliseconds limit);

  [[nodiscard]] static HiddenMessage send(std::span<const std::byte> bytes, int to, Channel channel);
  [[nodiscard]] static HiddenMessage receive(std::size_t bytes, int from, Channel channel);
  HiddenMessage(HiddenMessage&& other) noexcept;
  HiddenMessage& operator=(HiddenMessage&& other) = delete;
  ~HiddenMessage();

  // True when sent (as far as the sender knows) or received. Lets the MPI progress.
  [[nodiscard]] bool done();
  // The received bytes.
  [[nodiscard]] std::span<const std::byte> bytes() const;

 private:
  struct State;
  explicit HiddenMessage(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace outrigger::mpi
