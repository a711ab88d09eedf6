// A program with Outrigger: service processes do the offloaded calls, and the ranks' own MPI does the others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/timing/native_side.hpp"
#include "sim/timing/offloaded_side.hpp"

namespace outrigger::sim::timing {

class HybridSide final : public Side {
 public:
  // `native`: by call of the workload. The workload must not move.
  HybridSide(model::Machine& machine, const Workload& workload, std::vector<bool> native)
      : is_native_(std::move(native)), native_(machine, workload, false), offloaded_(machine, workload) {
    const auto tell = [this](std::uint32_t rank, std::uint32_t request) { ended(rank, request); };
    native_.ended = tell;
    offloaded_.ended = tell;
  }
  void post(std::uint32_t rank, std::uint32_t call, std::uint32_t request, std::function<void()> posted) override {
    Side& side = is_native_[call] ? static_cast<Side&>(native_) : offloaded_;
    side.post(rank, call, request, std::move(posted));
  }
  void wait(std::uint32_t rank, bool inside) override {
    offloaded_.wait(rank, inside);
    native_.wait(rank, inside);
  }
  void test(std::uint32_t rank, std::function<void()> returned) override {
    offloaded_.test(rank, [this, rank, returned = std::move(returned)] { native_.test(rank, returned); });
  }
  [[nodiscard]] std::optional<std::string> problem() const { return offloaded_.problem(); }

 private:
  std::vector<bool> is_native_;
  NativeSide native_;
  OffloadedSide offloaded_;
};

}  // namespace outrigger::sim::timing
