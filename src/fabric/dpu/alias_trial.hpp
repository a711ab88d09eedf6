// Tests whether the network moves a rank's memory without the rank. It writes known bytes to memory that the rank
// offers, moves them there by its exported handle, and reads them back.
//
// It always ends, by itself or by give_up().
//
// Thread rule: one thread. May be destroyed while its operations are in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "fabric/dpu/alias.hpp"
#include "fabric/dpu/remote_memory.hpp"
#include "fabric/dpu/rma.hpp"

namespace outrigger::fabric::dpu {

class AliasTrial {
 public:
  // `self`: this service process's index among proofs. `ended` is called once, from Rma::deliver() or give_up().
  // `remote` must outlive this.
  AliasTrial(Rma& rma, const RemoteMemory& remote, const std::shared_ptr<Importer>& importer, const ExportTrial& offer,
             std::uint32_t self, std::function<void(bool works)> ended);
  void give_up() { end(false); }

 private:
  struct Bytes;
  void end(bool works);
  void flush();
  void move();
  void read_back();
  // Completion of a step: runs the next step, unless this is destroyed or has ended.
  [[nodiscard]] Rma::Done next(void (AliasTrial::*step)());
  void compare();

  Rma& rma_;
  ucp_ep_h endpoint_;
  std::function<void(bool works)> ended_;
  std::uint64_t source_ = 0;
  std::uint64_t target_ = 0;
  RemoteRangePtr range_;
  ImportedPtr imported_;
  std::shared_ptr<Bytes> bytes_;  // kept until the operations that use them have ended
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace outrigger::fabric::dpu
