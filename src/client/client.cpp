// The public face: nothing thrown below gets out.
#include "client/client.hpp"

#include <exception>

#include "client/rank_endpoint.hpp"
#include "client/start/attach.hpp"

namespace outrigger::client {
namespace {

// What `call` returns, or `otherwise` when memory runs out or a lock fails.
template <class Call, class Value>
Value guarded(Value otherwise, Call&& call) noexcept try {
  return call();
} catch (...) {
  return otherwise;
}

}  // namespace

class ClientState {
 public:
  explicit ClientState(EndpointParts parts) : endpoint(std::make_shared<RankEndpoint>(std::move(parts))) {}
  const std::shared_ptr<RankEndpoint> endpoint;
};

Client::Client(std::unique_ptr<ClientState> state) : state_(std::move(state)) {}

Client::~Client() {
  guarded(false, [this] {
    state_->endpoint->shut_down();
    return true;
  });
}

Result<std::unique_ptr<Client>> Client::attach(const AttachOptions& options) try {
  Result<EndpointParts> parts = join_keeper(options);
  if (!parts) return Error{parts.error()};
  std::unique_ptr<Client> client(new Client(std::make_unique<ClientState>(std::move(parts).value())));
  watch_forks(*client->state_->endpoint);
  return client;
} catch (const std::exception& exception) {
  return Error{std::string("cannot attach to the keeper: ") + exception.what()};
}

const WelcomeBody& Client::welcome() const {
  return state_->endpoint->welcome();
}

bool Client::cma() const {
  return state_->endpoint->cma();
}

bool Client::rdma() const {
  return state_->endpoint->rdma();
}

bool Client::xpmem() const {
  return state_->endpoint->xpmem();
}

bool Client::copier() const {
  return state_->endpoint->copier_runs();
}

Result<std::vector<std::byte>> Client::node_descriptor(std::uint32_t timeout_ms) try {
  return state_->endpoint->node_descriptor(timeout_ms);
} catch (const std::exception& exception) {
  return Error{std::string("cannot take this node's descriptor: ") + exception.what()};
}

Status Client::take_job_map(std::span<const std::byte> descriptors, std::uint32_t node, std::uint32_t timeout_ms) try {
  return state_->endpoint->take_job_map(descriptors, node, timeout_ms);
} catch (const std::exception& exception) {
  return Error{std::string("cannot pass on the job map of nodes: ") + exception.what()};
}

std::vector<WireRoute> Client::wire_routes() const {
  return guarded(std::vector<WireRoute>(), [&] { return state_->endpoint->wire_routes(); });
}

void* Client::allocate(std::uint64_t bytes) {
  return guarded(static_cast<void*>(nullptr), [&] { return state_->endpoint->allocate(bytes); });
}

bool Client::release(void* memory) {
  return guarded(false, [&] { return state_->endpoint->release(memory); });
}

bool Client::share_heap(const SharedHeap& heap) {
  return guarded(false, [&] { return state_->endpoint->share_heap(heap); });
}

RegionId Client::region_of(const void* begin, std::uint64_t bytes) const {
  return guarded(kPrivateRegion, [&] { return state_->endpoint->region_of(begin, bytes); });
}

void* Client::allocate_staging(std::uint64_t bytes) {
  return guarded(static_cast<void*>(nullptr), [&] { return state_->endpoint->allocate_staging(bytes); });
}

void Client::release_staging(void* memory) {
  guarded(false, [&] {
    state_->endpoint->release_staging(memory);
    return true;
  });
}

std::shared_ptr<const Group> Client::define_group(GroupId id, std::vector<WorldRank> members, GroupRank me) {
  return guarded(std::shared_ptr<const Group>(), [&] { return state_->endpoint->define_group(id, members, me); });
}

PendingOperationPtr Client::post(const OperationRequest& request) {
  return guarded(PendingOperationPtr(), [&] { return state_->endpoint->post(request); });
}

bool Client::poll(PendingOperation& operation) {
  return guarded(false, [&] { return state_->endpoint->poll(operation); });
}

OperationResult Client::result(const PendingOperation& operation) const {
  return operation.result;
}

void Client::wait_for_completion(std::chrono::microseconds at_most, bool helps) {
  guarded(false, [&] {
    state_->endpoint->wait_for_completion(at_most, helps);
    return true;
  });
}

bool Client::enter_wait() {
  return state_->endpoint->enter_wait();
}

void Client::leave_wait() {
  state_->endpoint->leave_wait();
}

bool Client::help() {
  return state_->endpoint->help();
}

bool Client::help_where_alone() {
  return state_->endpoint->help_where_alone();
}

std::uint64_t Client::helped_bytes() const {
  return state_->endpoint->helped_bytes();
}

std::uint64_t Client::huge_bytes() const {
  return state_->endpoint->huge_bytes();
}

bool Client::fatal_was_said() const {
  return state_->endpoint->fatal_was_said();
}

std::optional<std::string> Client::fatal() {
  return guarded(std::optional<std::string>(), [&] { return state_->endpoint->fatal(); });
}

Client::Usage Client::usage() const {
  return guarded(Usage{}, [&] { return state_->endpoint->usage(); });
}

void PendingOperationDeleter::operator()(PendingOperation* operation) const {
  operation->group->endpoint().drop(std::unique_ptr<PendingOperation>(operation));
}

}  // namespace outrigger::client
