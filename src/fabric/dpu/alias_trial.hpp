// Whether the network moves a rank's memory by itself, shown before anything relies on it: known bytes are written to
// memory that the rank offers for that, moved there by its exported handle, and read back.
//
// Whatever becomes of it, it ends: by itself, or when its owner gives it up.
//
// Thread rule: one thread. May go away under what it has begun.
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
  // `self`: the place of this service process's proof. `ended` is called once, from within Rma::deliver() or
  // give_up(). `remote` must outlive this.
  AliasTrial(Rma& rma, const RemoteMemory& remote, const std::shared_ptr<Importer>& importer, const ExportTrial& offer,
             std::uint32_t self, std::function<void(bool works)> ended);
  void give_up() { end(false); }

 private:
  struct Bytes;
  void end(bool works);
  void flush();
  void move();
  void read_back();
  // Done in a step that is begun: on to the next, unless this is gone or has ended.
  [[nodiscard]] Rma::Done next(void (AliasTrial::*step)());
  void compare();

  Rma& rma_;
  ucp_ep_h endpoint_;
  std::function<void(bool works)> ended_;
  std::uint64_t source_ = 0;
  std::uint64_t target_ = 0;
  RemoteRangePtr range_;
  ImportedPtr imported_;
  std::shared_ptr<Bytes> bytes_;  // stay until what uses them has ended
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace outrigger::fabric::dpu
