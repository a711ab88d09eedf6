#include "fabric/ucx/worker.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/ucx_exports.hpp"

namespace outrigger::fabric::ucx {
namespace {

// Excludes transports within this machine, by UCX's name for all of shared memory: UCX warns of names that it does not
// know.
constexpr const char* kAllButSharedMemory = "^sm,self";

ucs_status_t message_arrived(void* events, const void* header, std::size_t header_bytes, void* data, std::size_t bytes,
                             const ucp_am_recv_param_t* parameters) {
  if ((parameters->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0) {
    static_cast<WorkerEvents*>(events)->came_from(parameters->reply_ep);
  }
  const bool rendezvous = (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  return static_cast<WorkerEvents*>(events)->arrived(std::span(static_cast<const std::byte*>(header), header_bytes),
                                                     data, bytes, rendezvous);
}

void endpoint_failed(void* broken, ucp_ep_h /*endpoint*/, ucs_status_t /*status*/) {
  *static_cast<bool*>(broken) = true;
}

// `transports`: as UCX_TLS.
bool may_name_tcp(const std::string& transports) {
  return transports.starts_with('^') || transports.find("tcp") != transports.npos ||
         transports.find("all") != transports.npos;
}

// Call this only if TCP may be used: UCX complains about unused settings.
//
// Defaults for UCX over TCP; the user's own settings win. There are no calls for these that all versions and transports
// know.
void adjust_tcp() {
  const auto adjust = [](const char* name, const char* value) { (void)::setenv(name, value, 0); };
  // Otherwise connecting blocks: for seconds if the peer's machine is cut off.
  adjust("UCX_TCP_CONN_NB", "y");
  // When a peer dies, a send from memory may complete twice, which crashes this process: seen with UCX 1.13, and
  // uct_tcp_ep_sendv() of August 2026 has the same code. With this limit UCX copies first, into room for one chunk,
  // which takes no longer (docs/site/reliability.md).
  adjust("UCX_TCP_MAX_IOV", "2");
  adjust("UCX_TCP_TX_SEG_SIZE", "64k");
}

// `transports`: nullptr: UCX's own settings.
ucs_status_t open_context(const char* transports, std::uint64_t features, ucp_context_h& context) {
  const bool imports = (features & exports::kFeature) != 0;
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return status;
  if (transports != nullptr) status = ucp_config_modify(config, "TLS", transports);
  // The processor cannot copy to another process's memory: the network must place even the smallest reads.
  if (status == UCS_OK && imports) status = ucp_config_modify(config, "ZCOPY_THRESH", "0");
  if (status == UCS_OK) {
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = features;
    status = ucp_init(&parameters, config, &context);
  }
  ucp_config_release(config);
  return status;
}

}  // namespace

Error ucx_error(const std::string& what, ucs_status_t status) {
  return Error{what + ": " + ucs_status_string(status) + " (UCX)"};
}

Result<Context> Context::open(const std::string& transports) {
  const std::string allowed = transports.empty() ? kAllButSharedMemory : transports;
  if (may_name_tcp(allowed)) adjust_tcp();
  ucp_context_h context = nullptr;
  const ucs_status_t status = open_context(allowed.c_str(), UCP_FEATURE_AM | UCP_FEATURE_WAKEUP, context);
  if (status != UCS_OK)
    return ucx_error("no network transport can be used (transports allowed: " + allowed + ")", status);
  return Context(context);
}

Result<Context> Context::open_for_memory(const std::string& transports, bool imports) {
  const std::uint64_t features =
      UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP | (imports ? exports::kFeature : 0);
  ucp_context_h context = nullptr;
  const ucs_status_t status = open_context(transports.empty() ? nullptr : transports.c_str(), features, context);
  if (status != UCS_OK) {
    const std::string allowed = transports.empty() ? "see UCX_TLS" : "transports allowed: " + transports;
    return ucx_error("no network transport can be used (" + allowed + ")", status);
  }
  return Context(context);
}

Context::Context(Context&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}

Context::~Context() {
  if (context_ != nullptr) ucp_cleanup(context_);
}

Result<Worker> Worker::open(const Context& context, WorkerEvents& events, unsigned message_id) {
  ucp_worker_params_t parameters{};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h handle = nullptr;
  ucs_status_t status = ucp_worker_create(context.get(), &parameters, &handle);
  if (status != UCS_OK) return ucx_error("cannot open the network", status);
  Worker worker(handle);
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = message_id;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = message_arrived;
  handler.arg = &events;
  status = ucp_worker_set_am_recv_handler(handle, &handler);
  if (status != UCS_OK) return ucx_error("the network does not support active messages", status);
  status = ucp_worker_get_efd(handle, &worker.event_fd_);
  if (status != UCS_OK) return ucx_error("the network does not support wake-ups", status);
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  status = ucp_worker_get_address(handle, &address, &bytes);
  if (status != UCS_OK) return ucx_error("the network did not provide an address", status);
  const auto* first = reinterpret_cast<const std::byte*>(address);
  worker.address_.assign(first, first + bytes);
  ucp_worker_release_address(handle, address);
  return worker;
}

Worker::Worker(Worker&& other) noexcept
    : worker_(std::exchange(other.worker_, nullptr)),
      address_(std::move(other.address_)),
      event_fd_(std::exchange(other.event_fd_, -1)) {}

Worker::~Worker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
}

// Some verbs devices (soft RoCE) do not report events from before arm(), so poll once more.
bool Worker::arm() const {
  return ucp_worker_arm(worker_) == UCS_OK && !progress();
}

Result<Endpoint> Endpoint::open(const Worker& worker, std::span<const std::byte> address, bool& broken, Peer peer) {
  ucp_ep_params_t parameters{};
  parameters.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  parameters.address = reinterpret_cast<const ucp_address_t*>(address.data());
  parameters.err_mode = peer == Peer::watched ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  parameters.err_handler.cb = endpoint_failed;
  parameters.err_handler.arg = &broken;
  Endpoint endpoint(worker);
  const ucs_status_t status = ucp_ep_create(worker.get(), &parameters, &endpoint.endpoint_);
  if (status != UCS_OK) return ucx_error("cannot connect", status);
  return endpoint;
}

// A lane's line: "lane[1]:  2:rc_verbs/mlx5_0:1.0 md[3] -> md[3]/ib/sysdev[0] rma_bw#0 am_bw#0", with its uses.
Lanes lanes_in(std::string_view printed) {
  Lanes lanes;
  const auto add = [](std::vector<std::string>& names, std::string_view name) {
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  };
  while (!printed.empty()) {
    const std::string_view line = printed.substr(0, printed.find('\n'));
    printed.remove_prefix(std::min(line.size() + 1, printed.size()));
    const std::size_t head = line.find("lane[");
    const std::size_t slash = line.find('/');
    const std::size_t uses = line.find("->");
    if (head == line.npos || slash > uses || uses == line.npos) continue;
    const std::size_t begin = line.rfind(':', slash) + 1;
    std::string_view name = line.substr(begin, line.find(' ', slash) - begin);
    name = name.substr(0, name.rfind('.'));  // path of the device
    if (line.find(" rma_bw#", uses) != line.npos) add(lanes.memory, name);
    if (line.ends_with(" am") || line.find(" am ", uses) != line.npos || line.find(" am_bw#", uses) != line.npos) {
      add(lanes.messages, name);
    }
  }
  return lanes;
}

// UCX reports lanes only as text.
Lanes Endpoint::lanes() const {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* stream = ::open_memstream(&text, &bytes);
  if (stream == nullptr) return {};
  ucp_ep_print_info(endpoint_, stream);
  (void)std::fclose(stream);
  Lanes lanes;
  if (text != nullptr) lanes = lanes_in(std::string_view(text, bytes));
  std::free(text);
  return lanes;
}

Endpoint::Endpoint(Endpoint&& other) noexcept
    : worker_(std::exchange(other.worker_, nullptr)), endpoint_(std::exchange(other.endpoint_, nullptr)) {}

Endpoint& Endpoint::operator=(Endpoint&& other) noexcept {
  if (this != &other) {
    close();
    worker_ = std::exchange(other.worker_, nullptr);
    endpoint_ = std::exchange(other.endpoint_, nullptr);
  }
  return *this;
}

Endpoint::~Endpoint() {
  close();
}

void Endpoint::close() {
  if (endpoint_ == nullptr) return;
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint_, &parameters);
  endpoint_ = nullptr;
  if (!UCS_PTR_IS_PTR(request)) return;
  // Operations in flight are cancelled at once, within a few turns of the worker.
  constexpr int kTurns = 100'000;
  for (int i = 0; i < kTurns && ucp_request_check_status(request) == UCS_INPROGRESS; ++i) ucp_worker_progress(worker_);
  ucp_request_free(request);
}

}  // namespace outrigger::fabric::ucx
