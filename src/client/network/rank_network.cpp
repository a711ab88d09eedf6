#include "client/network/rank_network.hpp"

#include <sys/mman.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "protocol/shared/exported_memory.hpp"

namespace outrigger::client {
namespace {

// UCX's memory event before a range is unmapped. Its data begins with address and size.
constexpr int kUnmapEvent = 1 << 17;
constexpr int kEventPriority = 1000;
struct UnmapEvent {
  void* address;
  std::size_t bytes;
};

UnmappedRanges& unmapped_ranges() {
  static auto* const ranges = new UnmappedRanges;  // UCX may call until the very end of the process
  return *ranges;
}

void note_unmapped(int /*event*/, void* range, void* ranges) {
  UnmapEvent event{};
  std::memcpy(&event, range, sizeof(event));
  const auto begin = reinterpret_cast<std::uintptr_t>(event.address);
  static_cast<UnmappedRanges*>(ranges)->note(begin, begin + event.bytes);
}

// Since Linux 5.12 fork() copies pages that a device has pinned, so the parent keeps those that the device knows.
bool forks_copy_pinned_pages() {
  utsname system{};
  unsigned major = 0;
  unsigned minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%u.%u", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 12);
}

// For older kernels libibverbs hides registered memory from forked children. Here it is the program's memory, and a
// child would crash at its first access.
void keep_in_children(std::uint64_t base, std::uint64_t bytes) {
  static const bool safe = forks_copy_pinned_pages();
  if (safe) (void)::madvise(reinterpret_cast<void*>(base), bytes, MADV_DOFORK);
}

}  // namespace

Result<std::unique_ptr<RankNetwork>> RankNetwork::open(SegmentView segment, const std::string& transports,
                                                       bool offers_exports) {
  const Result<const UcxLibrary*> ucx = ucx_library();
  if (!ucx) return Error{ucx.error()};
  std::unique_ptr<RankNetwork> network(new RankNetwork(*ucx.value()));
  if (Status started = network->start(segment, transports); !started) return Error{started.error()};
  if (offers_exports) network->try_exports();
  return network;
}

Status RankNetwork::start(SegmentView segment, const std::string& transports) {
  const auto failure = [this](const char* what, ucs_status_t status) {
    return Error{std::string(what) + ": " + ucx_.status_string(status) + " (UCX on the host)"};
  };
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucx_.config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return failure("cannot read the settings of UCX", status);
  if (!transports.empty()) status = ucx_.config_modify(config, "TLS", transports.c_str());
  if (status != UCS_OK) {
    ucx_.config_release(config);
    return failure("no such transports", status);
  }
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
  parameters.features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  status = ucx_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config, &context_);
  ucx_.config_release(config);
  if (status != UCS_OK) return failure("no network can be used", status);
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucx_.worker_create(context_, &worker, &worker_);
  if (status != UCS_OK) return failure("cannot open the network", status);
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kRankMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = hello_received;
  handler.arg = this;
  status = ucx_.worker_set_am_recv_handler(worker_, &handler);
  if (status != UCS_OK) return failure("the network does not support active messages", status);

  KeyEntry entry;
  segment_memory_ = static_cast<ucp_mem_h>(
      add(reinterpret_cast<std::uintptr_t>(segment.base()), SegmentView::segment_bytes(), entry));
  if (segment_memory_ == nullptr) return Error{"the network cannot register memory"};
  address_.segment_base = reinterpret_cast<std::uintptr_t>(segment.base());
  address_.machine = this_machine();
  address_.segment_key.assign(entry.key.begin(), entry.key.begin() + entry.key_bytes);
  ucp_address_t* own = nullptr;
  std::size_t bytes = 0;
  status = ucx_.worker_get_address(worker_, &own, &bytes);
  if (status != UCS_OK) return failure("the network did not provide an address", status);
  const auto* first = reinterpret_cast<const std::byte*>(own);
  address_.worker.assign(first, first + bytes);
  ucx_.worker_release_address(worker_, own);
  return Done{};
}

void RankNetwork::Unmap::operator()(void* memory) const {
  ::munmap(memory, kExportTrialBytes);
}

void RankNetwork::try_exports() {
  if (!ucx_.exports) return;
  void* base = ::mmap(nullptr, kExportTrialBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return;
  std::unique_ptr<void, Unmap> memory(base);
  (void)::madvise(base, kExportTrialBytes, MADV_DONTFORK);
  exports_ = true;
  KeyEntry entry;
  auto* registered = static_cast<ucp_mem_h>(add(reinterpret_cast<std::uintptr_t>(base), kExportTrialBytes, entry));
  const std::optional<PackedKeys> keys = registered != nullptr ? keys_of(entry) : std::nullopt;
  exports_ = keys && !keys->exported.empty();
  if (!exports_) {
    if (registered != nullptr) remove(registered);
    return;
  }
  trial_ = std::move(memory);
  trial_memory_ = registered;
  address_.trial = ExportTrial{reinterpret_cast<std::uintptr_t>(base),
                               {keys->key.begin(), keys->key.end()},
                               {keys->exported.begin(), keys->exported.end()}};
}

RankNetwork::~RankNetwork() {
  close();
}

// Its connections close with the worker, and registrations with the context: networks that move memory require both.
void RankNetwork::close() {
  if (std::exchange(watches_, false)) ucx_.unset_event_handler(kUnmapEvent, note_unmapped, &unmapped_ranges());
  if (trial_memory_ != nullptr) ucx_.mem_unmap(context_, std::exchange(trial_memory_, nullptr));
  if (segment_memory_ != nullptr) ucx_.mem_unmap(context_, std::exchange(segment_memory_, nullptr));
  bells_.clear();
  ucp_worker_h worker = std::exchange(worker_, nullptr);
  ucp_context_h context = std::exchange(context_, nullptr);
  if (stays_open_) return;
  if (worker != nullptr) ucx_.worker_destroy(worker);
  if (context != nullptr) ucx_.cleanup(context);
}

// Leaves all of UCX open if a connection is half made or may have just failed: UCX 1.13 crashes if such a connection is
// closed.
void RankNetwork::shut(const SegmentHeader& header) {
  stays_open_ = ringing_ != 0 || (header.dpu_calls.load(std::memory_order_acquire) & kDpuCalls) != 0;
  shut_.store(true, std::memory_order_release);
  close();
}

void RankNetwork::abandon() {
  watches_ = false;
  segment_memory_ = nullptr;
  trial_memory_ = nullptr;
  (void)trial_.release();  // not mapped here
  worker_ = nullptr;
  context_ = nullptr;
  bells_.clear();
}

UnmappedRanges* RankNetwork::unmapped() {
  if (!watches_ && ucx_.set_event_handler != nullptr) {
    watches_ = ucx_.set_event_handler(kUnmapEvent, kEventPriority, note_unmapped, &unmapped_ranges()) == UCS_OK;
  }
  return watches_ ? &unmapped_ranges() : nullptr;
}

void* RankNetwork::add(std::uint64_t base, std::uint64_t bytes, KeyEntry& entry) {
  ucp_mem_map_params_t parameters{};
  parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  parameters.address = reinterpret_cast<void*>(base);
  parameters.length = bytes;
  ucp_mem_h memory = nullptr;
  if (ucx_.mem_map(context_, &parameters, &memory) != UCS_OK) return nullptr;
  void* key = nullptr;
  std::size_t key_bytes = 0;
  if (ucx_.rkey_pack(context_, memory, &key, &key_bytes) == UCS_OK) {
    const std::vector<std::byte> exported = exports_ ? exports::pack(ucx_.exports, memory) : std::vector<std::byte>();
    const bool fits = pack_keys({std::span(static_cast<const std::byte*>(key), key_bytes), exported}, entry);
    ucx_.rkey_buffer_release(key);
    if (fits) {
      keep_in_children(base, bytes);
      return memory;
    }
  }
  ucx_.mem_unmap(context_, memory);
  return nullptr;
}

void RankNetwork::remove(void* registration) {
  if (context_ != nullptr) ucx_.mem_unmap(context_, static_cast<ucp_mem_h>(registration));
}

// A service process has connected. The answer is sent after the callback, when UCX may be called.
ucs_status_t RankNetwork::hello_received(void* network, const void* header, std::size_t header_bytes, void* /*data*/,
                                         std::size_t /*bytes*/, const ucp_am_recv_param_t* parameters) {
  auto* self = static_cast<RankNetwork*>(network);
  const auto message = decoded<RankMessage>({static_cast<const std::byte*>(header), header_bytes});
  if (!message || (parameters->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0) return UCS_OK;
  if (message->what != RankMessage::kHello) return UCS_OK;
  self->answers_.push_back(Answer{parameters->reply_ep, RankMessage{RankMessage::kHere, 0, message->world_rank}});
  self->bells_[message->process] = parameters->reply_ep;
  return UCS_OK;
}

void RankNetwork::progress() {
  if (worker_ == nullptr) return;
  for (int i = 0; i < 16 && ucx_.worker_progress(worker_) != 0; ++i) {
  }
  for (; answers_sent_ < answers_.size(); ++answers_sent_)
    send(answers_[answers_sent_].to, answers_[answers_sent_].message);
}

void RankNetwork::ring(std::uint32_t process) {
  const auto bell = bells_.find(process);
  if (bell == bells_.end() || worker_ == nullptr) return;
  static constexpr RankMessage kRing{RankMessage::kDoorbell, 0, 0};
  send(bell->second, kRing);
  for (int i = 0; i < 64 && ringing_ != 0; ++i) (void)ucx_.worker_progress(worker_);
}

void RankNetwork::leave(SegmentHeader& header) {
  constexpr std::chrono::seconds kPatience{1};
  constexpr std::chrono::microseconds kBetweenQuietLooks{50};
  header.rank_quiet.store(kRankLeaves, std::memory_order_seq_cst);
  // A connection may be half made: UCX 1.13 crashes if such a connection is closed.
  stays_open_ = (header.dpu_calls.load(std::memory_order_acquire) & kDpuCalls) != 0;
  const auto process = [&header] { return header.dpu_process.load(std::memory_order_seq_cst); };
  if (header.service_sleeping.load(std::memory_order_seq_cst) != 0) ring(process());
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const auto proven = [&] {
    const std::uint32_t number = process();
    return header.proofs[proof_place(number)].load(std::memory_order_acquire) == proof_of(number, kRankLeaves);
  };
  const auto lost = [&header] { return (header.dpu_calls.load(std::memory_order_acquire) & kDpuLost) != 0; };
  while (!proven() && !lost() && header.fatal.load() == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kBetweenQuietLooks);
  }
}

void RankNetwork::send(ucp_ep_h to, const RankMessage& message) {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_AM_SEND_FLAG_EAGER;
  parameters.cb.send = rung;
  parameters.user_data = this;
  const ucs_status_ptr_t request =
      ucx_.am_send_nbx(to, kRankMessageId, &message, sizeof(message), nullptr, 0, &parameters);
  if (UCS_PTR_IS_PTR(request)) ++ringing_;
}

void RankNetwork::rung(void* request, ucs_status_t /*status*/, void* network) {
  auto* self = static_cast<RankNetwork*>(network);
  --self->ringing_;
  self->ucx_.request_free(request);
}

}  // namespace outrigger::client
