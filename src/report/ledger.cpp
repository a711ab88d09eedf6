#include "report/ledger.hpp"

#include <algorithm>
#include <utility>

namespace outrigger::report {
namespace {

constexpr std::uint64_t kMagic = 0x4F55545245504F36ULL;

}  // namespace

std::int64_t LedgerRow::time_ns() const {
  // A blocking call's waiting is in call_ns already.
  const bool blocks = call_kind_at(kind).form == CallForm::blocking;
  return call_ns + wait_ns + (blocks ? 0 : completion_ns);
}

bool LedgerRow::is_of_meetings(std::uint32_t world_size) const {
  const CallKind made = call_kind_at(kind);
  return is_call() && size == world_size && made.form == CallForm::blocking && all_ranks_meet(made.call);
}

Result<Ledger> Ledger::create() {
  Result<UniqueFd> fd = create_sealed_memory("outrigger-counts", kBytes, Backing::on_touch);
  if (!fd) return Error{fd.error()};
  Result<Mapping> mapping = Mapping::map(fd.value().get(), kBytes);
  if (!mapping) return Error{mapping.error()};
  Ledger ledger = blank(std::move(mapping).value());
  ledger.fd_ = std::move(fd).value();
  return ledger;
}

Result<Ledger> Ledger::create_private() {
  Result<Mapping> mapping = Mapping::anonymous(kBytes);
  if (!mapping) return Error{mapping.error()};
  return blank(std::move(mapping).value());
}

Ledger Ledger::blank(Mapping mapping) {
  Ledger ledger;
  ledger.mapping_ = std::move(mapping);
  ledger.header() = LedgerHeader{};
  ledger.header().magic = kMagic;
  return ledger;
}

Result<Ledger> Ledger::open(UniqueFd fd) {
  if (const Status safe = check_sealed_memory(fd.get(), kBytes); !safe) return Error{safe.error()};
  Result<Mapping> mapping = Mapping::map(fd.get(), kBytes);
  if (!mapping) return Error{mapping.error()};
  Ledger ledger;
  ledger.mapping_ = std::move(mapping).value();
  if (ledger.header().magic != kMagic) return Error{"the memory for a rank's counts has another format"};
  return ledger;
}

std::span<const std::byte> Ledger::bytes() const {
  const std::uint32_t rows = std::min(header().row_count, kLedgerRows);
  return {mapping_.base(), sizeof(LedgerHeader) + rows * sizeof(LedgerRow)};
}

}  // namespace outrigger::report
