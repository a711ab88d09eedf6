// The public face: nothing thrown below gets out.
#include "client/client.hpp"

#include <exception>

#include "client/attach.hpp"
#include "client/core.hpp"

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
  explicit ClientState(CoreParts parts) : core(std::make_shared<Core>(std::move(parts))) {}
  const std::shared_ptr<Core> core;
};

Client::Client(std::unique_ptr<ClientState> state) : state_(std::move(state)) {}

Client::~Client() {
  guarded(false, [this] {
    state_->core->shut_down();
    return true;
  });
}

Result<std::unique_ptr<Client>> Client::attach(const AttachOptions& options) try {
  Result<CoreParts> parts = join_keeper(options);
  if (!parts) return Error{parts.error()};
  std::unique_ptr<Client> client(new Client(std::make_unique<ClientState>(std::move(parts).value())));
  watch_forks(*client->state_->core);
  return client;
} catch (const std::exception& exception) {
  return Error{std::string("cannot attach to the keeper: ") + exception.what()};
}

const WelcomeBody& Client::welcome() const {
  return state_->core->welcome();
}

bool Client::cma() const {
  return state_->core->cma();
}

bool Client::rdma() const {
  return state_->core->rdma();
}

bool Client::xpmem() const {
  return state_->core->xpmem();
}

bool Client::copier() const {
  return state_->core->copier_runs();
}

Result<std::vector<std::byte>> Client::node_card(std::uint32_t timeout_ms) try {
  return state_->core->node_card(timeout_ms);
} catch (const std::exception& exception) {
  return Error{std::string("cannot take this node's card: ") + exception.what()};
}

Status Client::take_roster(std::span<const std::byte> cards, std::uint32_t node, std::uint32_t timeout_ms) try {
  return state_->core->take_roster(cards, node, timeout_ms);
} catch (const std::exception& exception) {
  return Error{std::string("cannot pass on the roster of nodes: ") + exception.what()};
}

std::vector<WireRoute> Client::wire_routes() const {
  return guarded(std::vector<WireRoute>(), [&] { return state_->core->wire_routes(); });
}

void* Client::allocate(std::uint64_t bytes) {
  return guarded(static_cast<void*>(nullptr), [&] { return state_->core->allocate(bytes); });
}

bool Client::release(void* memory) {
  return guarded(false, [&] { return state_->core->release(memory); });
}

bool Client::share_heap(const SharedHeap& heap) {
  return guarded(false, [&] { return state_->core->share_heap(heap); });
}

RegionId Client::region_of(const void* begin, std::uint64_t bytes) const {
  return guarded(kPrivateRegion, [&] { return state_->core->region_of(begin, bytes); });
}

void* Client::allocate_staging(std::uint64_t bytes) {
  return guarded(static_cast<void*>(nullptr), [&] { return state_->core->allocate_staging(bytes); });
}

void Client::release_staging(void* memory) {
  guarded(false, [&] {
    state_->core->release_staging(memory);
    return true;
  });
}

std::shared_ptr<const Group> Client::define_group(GroupId id, std::vector<WorldRank> members, GroupRank me) {
  return guarded(std::shared_ptr<const Group>(), [&] { return state_->core->define_group(id, members, me); });
}

PendingOperationPtr Client::post(const OperationRequest& request) {
  return guarded(PendingOperationPtr(), [&] { return state_->core->post(request); });
}

bool Client::poll(PendingOperation& operation) {
  return guarded(false, [&] { return state_->core->poll(operation); });
}

OperationResult Client::result(const PendingOperation& operation) const {
  return operation.result;
}

void Client::wait_for_completion(std::chrono::microseconds at_most, bool helps) {
  guarded(false, [&] {
    state_->core->wait_for_completion(at_most, helps);
    return true;
  });
}

bool Client::enter_wait() {
  return state_->core->enter_wait();
}

void Client::leave_wait() {
  state_->core->leave_wait();
}

bool Client::help() {
  return state_->core->help();
}

bool Client::help_where_alone() {
  return state_->core->help_where_alone();
}

std::uint64_t Client::helped_bytes() const {
  return state_->core->helped_bytes();
}

std::uint64_t Client::huge_bytes() const {
  return state_->core->huge_bytes();
}

bool Client::fatal_was_said() const {
  return state_->core->fatal_was_said();
}

std::optional<std::string> Client::fatal() {
  return guarded(std::optional<std::string>(), [&] { return state_->core->fatal(); });
}

Client::Usage Client::usage() const {
  return guarded(Usage{}, [&] { return state_->core->usage(); });
}

void PendingOperationDeleter::operator()(PendingOperation* operation) const {
  operation->group->core().drop(std::unique_ptr<PendingOperation>(operation));
}

}  // namespace outrigger::client
