#include "fabric/dpu/alias_trial.hpp"

#include <array>
#include <random>
#include <utility>

#include "protocol/shared/exported_memory.hpp"

namespace outrigger::fabric::dpu {

struct AliasTrial::Bytes {
  std::array<std::byte, kLeastAliasBytes> sent{};
  std::array<std::byte, kLeastAliasBytes> came{};
};

AliasTrial::AliasTrial(Rma& rma, const RemoteMemory& remote, const std::shared_ptr<Importer>& importer,
                       const ExportTrial& offer, std::uint32_t self, std::function<void(bool works)> ended)
    : rma_(rma),
      endpoint_(remote.endpoint()),
      ended_(std::move(ended)),
      source_(offer.base + trial_source_offset(self)),
      target_(offer.base + trial_target_offset(self)),
      range_(remote.trial_range(offer)),
      bytes_(std::make_shared<Bytes>()) {
  if (range_) imported_ = import_memory(importer, range_->exported());
  if (!imported_) {
    rma_.later([this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) end(false);
    });
    return;
  }
  std::random_device random;
  for (std::byte& byte : bytes_->sent) byte = static_cast<std::byte>(random());
  rma_.put(endpoint_, source_, range_->key(), bytes_->sent, next(&AliasTrial::flush));
}

void AliasTrial::end(bool works) {
  if (ended_) std::exchange(ended_, nullptr)(works);
}

Rma::Done AliasTrial::next(void (AliasTrial::*step)()) {
  return [this, step, bytes = bytes_, range = range_, imported = imported_, alive = std::weak_ptr(alive_)](bool ok) {
    if (alive.expired() || !ended_) return;
    if (!ok) return end(false);
    (this->*step)();
  };
}

void AliasTrial::flush() {
  rma_.flush(endpoint_, next(&AliasTrial::move));
}

void AliasTrial::move() {
  rma_.get_into(endpoint_, source_, range_->key(), imported_->get(), target_, kLeastAliasBytes,
                next(&AliasTrial::read_back));
}

void AliasTrial::read_back() {
  rma_.get(endpoint_, target_, range_->key(), bytes_->came, next(&AliasTrial::compare));
}

void AliasTrial::compare() {
  end(bytes_->sent == bytes_->came);
}

}  // namespace outrigger::fabric::dpu
