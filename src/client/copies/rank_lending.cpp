#include "client/copies/rank_lending.hpp"

#include <utility>

#include "base/huge_page.hpp"
#include "copy/policy.hpp"

namespace outrigger::client {

Lending::Lending(EndpointLock& lock, SegmentView segment, const Doorbell& doorbell, const WelcomeBody& welcome,
                 Allowed allowed)
    : lock_(lock),
      copy_queue_(segment.header().copies),
      doorbell_(doorbell),
      cpu_(welcome.cpu),
      copier_lends_((welcome.reach & kReachCopier) != 0 &&
                    copy::lenders_with(welcome.core_share) == copy::Lenders::copiers),
      shown_to_dpu_((welcome.reach & kReachRdma) != 0 ? &segment.header() : nullptr) {
  if (shown_to_dpu_ != nullptr && allowed.wait_copies) {
    helper_.allow(copy_queue_, huge_pages_, copy::Lenders::waiting_ranks);
    spare_copier_.allow(segment, std::move(allowed.spare_cores));
  }
  if ((welcome.reach & kReachCopier) == 0) return;  // there are no jobs
  if (allowed.wait_copies) helper_.allow(copy_queue_, huge_pages_, copy::lenders_with(welcome.core_share));
  if (allowed.huge_pages) huge_pages_.allow(huge_page_support().bytes);
}

void Lending::start_copier() {
  if (copier_lends_ && !lock_.is_inert()) copier_.start(copy_queue_, huge_pages_, cpu_);
}

void Lending::note_source(const SideMemory& side) {
  if (!side.is_private() || !(copier_.runs() || helper_.alone())) return;
  if (huge_pages_.note_source(side.begin, side.bytes)) ring_copier(copy_queue_);
}

copy::Waits Lending::enter_wait() {
  const copy::Waits waits = lock_.is_inert() ? copy::Waits::no : helper_.enter();
  if (waits != copy::Waits::no && shown_to_dpu_ != nullptr) {
    shown_to_dpu_->rank_lends.fetch_add(1, std::memory_order_relaxed);
  }
  return waits;
}

void Lending::leave_wait(copy::Waits waits) {
  if (lock_.is_inert() || waits == copy::Waits::no) return;
  if (shown_to_dpu_ != nullptr) shown_to_dpu_->rank_lends.fetch_sub(1, std::memory_order_relaxed);
  helper_.leave(waits);
}

bool Lending::help() {
  if (lock_.is_inert()) return false;
  // A hint: a turn that is lost between two threads does not matter.
  if (shown_to_dpu_ != nullptr && helper_.able()) {
    std::atomic<std::uint32_t>& turns = shown_to_dpu_->rank_lends_turns;
    turns.store(turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  if (!helper_.help()) return false;
  if (shown_to_dpu_ != nullptr) return true;
  // Without a copier the service process sleeps until the last copy is done.
  if (helper_.alone() && !helper_.has_copies() && doorbell_.service_sleeps()) doorbell_.ring();
  return true;
}

}  // namespace outrigger::client
