#include "fabric/dpu/probe.hpp"

#include <chrono>
#include <cstring>
#include <utility>

#include "base/ucx_exports.hpp"
#include "protocol/shared/exported_memory.hpp"

namespace outrigger::fabric::dpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr WorldRank kProbed{0};
constexpr int kRoundTrips = 200;
constexpr int kReads = 64;
constexpr std::size_t kReadsAtOnce = 4;
constexpr std::size_t kReadBytes = 1U << 20;

Result<Mapping> memory_of(std::uint64_t bytes) {
  const Result<UniqueFd> fd = create_sealed_memory("outrigger-probe", bytes, Backing::reserved);
  if (!fd) return Error{fd.error()};
  return Mapping::map(fd.value().get(), bytes);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Reads `count` pieces, `at_once` of them concurrently. False: a read failed.
bool read_pieces(DpuFabric& fabric, const MemoryRef& memory, std::size_t bytes, int count, std::size_t at_once) {
  std::vector<std::byte> room(bytes * at_once);
  int begun = 0;
  int ended = 0;
  bool ok = true;
  const std::function<void(std::size_t)> read = [&](std::size_t place) {
    if (begun++ >= count) return;
    MemoryRef from = memory;
    from.address += place * bytes;
    fabric.start_read(from, std::span(room).subspan(place * bytes, bytes), [&, place](MoveStatus status) {
      ok = ok && status == MoveStatus::ok;
      ++ended;
      read(place);
    });
  };
  for (std::size_t place = 0; place < at_once; ++place) read(place);
  while (ended < count) (void)fabric.progress_memory();
  return ok;
}

}  // namespace

// ---------------------------------------------------------------- the host

Result<std::unique_ptr<ProbedMemory>> ProbedMemory::open(const std::string& transports) {
  std::unique_ptr<ProbedMemory> memory(new ProbedMemory);
  if (Status started = memory->start(transports); !started) return Error{started.error()};
  return memory;
}

Status ProbedMemory::start(const std::string& transports) {
  Result<Mapping> segment_memory = memory_of(SegmentView::segment_bytes());
  Result<Mapping> buffer_memory = memory_of(kBytes);
  if (!segment_memory || !buffer_memory) {
    return Error{segment_memory ? buffer_memory.error() : segment_memory.error()};
  }
  mapping_ = std::move(segment_memory).value();
  buffer_ = std::move(buffer_memory).value();
  segment_ = SegmentView(mapping_.base());
  segment_.initialize(kProbed, 1);
  Result<ucx::Context> context = ucx::Context::open_for_memory(transports);
  if (!context) return Error{context.error()};
  context_.emplace(std::move(context).value());
  Result<ucx::Worker> worker = ucx::Worker::open(*context_, *this, kRankMessageId);
  if (!worker) return Error{worker.error()};
  worker_.emplace(std::move(worker).value());
  Result<Added> segment = add(mapping_.base(), mapping_.bytes());
  const Result<Added> buffer = add(buffer_.base(), buffer_.bytes());
  if (!segment || !buffer) return Error{segment ? buffer.error() : segment.error()};
  KeyEntry& entry = segment_.key(0);
  if (!pack_keys({buffer.value().key, {}}, entry)) return Error{"the network's memory keys are too long"};
  entry.region = keyed_region(0, 1).value();
  entry.base = reinterpret_cast<std::uintptr_t>(buffer_.base());
  entry.bytes = buffer_.bytes();
  address_.segment_base = reinterpret_cast<std::uintptr_t>(mapping_.base());
  address_.machine = this_machine();
  address_.worker = worker_->address();
  address_.segment_key = std::move(segment.value().key);
  offer_trial();
  return Done{};
}

void ProbedMemory::offer_trial() {
  Result<Mapping> memory = memory_of(kExportTrialBytes);
  const exports::Calls calls = exports::find_calls(RTLD_DEFAULT);
  if (!memory || !calls) return;
  trial_ = std::move(memory).value();
  Result<Added> added = add(trial_.base(), trial_.bytes());
  if (!added) return;
  ExportTrial trial{reinterpret_cast<std::uintptr_t>(trial_.base()), std::move(added.value().key),
                    exports::pack(calls, added.value().memory)};
  if (!trial.exported.empty()) address_.trial = std::move(trial);
}

Result<ProbedMemory::Added> ProbedMemory::add(void* base, std::uint64_t bytes) {
  ucp_mem_map_params_t parameters{};
  parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  parameters.address = base;
  parameters.length = bytes;
  ucp_mem_h memory = nullptr;
  ucs_status_t status = ucp_mem_map(context_->get(), &parameters, &memory);
  if (status != UCS_OK) return ucx::ucx_error("the network cannot register memory", status);
  registered_.push_back(memory);
  void* key = nullptr;
  std::size_t key_bytes = 0;
  status = ucp_rkey_pack(context_->get(), memory, &key, &key_bytes);
  if (status != UCS_OK) return ucx::ucx_error("the network did not provide a memory key", status);
  const auto* first = static_cast<const std::byte*>(key);
  Added added{memory, {first, first + key_bytes}};
  ucp_rkey_buffer_release(key);
  return added;
}

ProbedMemory::~ProbedMemory() {
  for (const ucp_mem_h memory : registered_) (void)ucp_mem_unmap(context_->get(), memory);
}

ucs_status_t ProbedMemory::arrived(std::span<const std::byte> header, void* /*data*/, std::size_t /*bytes*/,
                                   bool /*rendezvous*/) {
  answer_ = decoded<RankMessage>(header).value_or(answer_);
  must_reply_ = answer_.what == RankMessage::kHello && sender_ != nullptr;
  return UCS_OK;
}

void ProbedMemory::progress() {
  (void)worker_->progress();
  if (!std::exchange(must_reply_, false)) return;
  answer_.what = RankMessage::kHere;
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_AM_SEND_FLAG_EAGER;
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(sender_, kRankMessageId, &answer_, sizeof(answer_), nullptr, 0, &parameters);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

// ---------------------------------------------------------------- the DPU

Result<ProbeFigures> probe_memory(const RankAddress& address, const DpuOptions& options,
                                  const std::function<void()>& wired) {
  using What = Attached::What;
  // Never closed: UCX 1.13 aborts if it is closed while a connection is being made, and the process ends soon.
  auto* node = new HostFabric;
  Result<std::unique_ptr<DpuFabric>> opened = DpuFabric::open(options, *node, 0, 1);
  if (!opened) return Error{opened.error()};
  DpuFabric& fabric = *opened.value().release();
  if (Status added = fabric.add_rank(kProbed, false, address); !added) return Error{added.error()};
  ProbeFigures figures;
  while (true) {
    (void)fabric.progress();
    fabric.look_after(Clock::now(), {});
    const auto attached = fabric.attachments().next();
    if (!attached) continue;
    if (attached->what == What::failed) return Error{attached->reason};
    figures.reach = attached->reach;
    if (attached->what == What::reached) break;
    wired();
  }
  const MemoryRef segment{kProbed, kArenaRegion, address.segment_base};
  figures.device = fabric.attachments().lanes();
  Clock::time_point begin = Clock::now();
  if (!read_pieces(fabric, segment, sizeof(std::uint64_t), kRoundTrips, 1)) return Error{"its memory cannot be read"};
  figures.round_trip_us = seconds_since(begin) / kRoundTrips * 1e6;
  const Result<std::uint64_t> buffer = fabric.base_of(kProbed, keyed_region(0, 1));
  if (!buffer) return Error{buffer.error()};
  const MemoryRef memory{kProbed, keyed_region(0, 1), buffer.value()};
  begin = Clock::now();
  if (!read_pieces(fabric, memory, kReadBytes, kReads, kReadsAtOnce)) return Error{"its memory cannot be read"};
  figures.bytes_per_s = kReads * static_cast<double>(kReadBytes) / seconds_since(begin);
  return figures;
}

}  // namespace outrigger::fabric::dpu
