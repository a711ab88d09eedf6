// The public face: nothing thrown below gets out.
#include "client/client.hpp"

#include <exception>
#include <utility>

#include "base/no_cancellation.hpp"
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

// The same of a call that asks something of the system.
template <class Call, class Value>
Value guarded_whole(Value otherwise, Call&& call) noexcept {
  const NoCancellation whole;
  return guarded(std::move(otherwise), std::forward<Call>(call));
}

}  // namespace

Client::Client(std::shared_ptr<RankEndpoint> endpoint) : endpoint_(std::move(endpoint)) {}

Client::~Client() {
  guarded_whole(false, [this] {
    endpoint_->shut_down();
    return true;
  });
}

Result<std::unique_ptr<Client>> Client::attach(const AttachOptions& options) try {
  Result<EndpointParts> parts = join_keeper(options);
  if (!parts) return Error{parts.error()};
  std::unique_ptr<Client> client(new Client(std::make_shared<RankEndpoint>(std::move(parts).value())));
  watch_forks(*client->endpoint_);
  return client;
} catch (const std::exception& exception) {
  return Error{std::string("cannot attach to the keeper: ") + exception.what()};
}

const WelcomeBody& Client::welcome() const {
  return endpoint_->welcome();
}

bool Client::copier() const {
  return endpoint_->lending().copier_runs();
}

void Client::show(ControlKind what, int fd) {
  const NoCancellation whole;
  endpoint_->control().show(what, fd);
}

NodeLeader Client::node_leader() {
  return NodeLeader(*endpoint_);
}

Result<std::vector<std::byte>> NodeLeader::descriptor(std::uint32_t timeout_ms) try {
  return endpoint_.control().node_descriptor(std::chrono::milliseconds(timeout_ms));
} catch (const std::exception& exception) {
  return Error{std::string("cannot take this node's descriptor: ") + exception.what()};
}

Status NodeLeader::take_job_map(std::span<const std::byte> descriptors, std::uint32_t node,
                                std::uint32_t timeout_ms) try {
  return endpoint_.control().take_job_map(descriptors, node, std::chrono::milliseconds(timeout_ms));
} catch (const std::exception& exception) {
  return Error{std::string("cannot pass on the job map: ") + exception.what()};
}

bool NodeLeader::is_unprotected() const {
  return endpoint_.control().is_unprotected();
}

void* Client::allocate(std::uint64_t bytes) {
  return guarded_whole(static_cast<void*>(nullptr), [&] { return endpoint_->heap().allocate_for_program(bytes); });
}

bool Client::has_posted() const {
  return endpoint_->heap().has_seen_operation();
}

bool Client::share_heap(const SharedHeap& heap) {
  return guarded_whole(false, [&] { return endpoint_->heap().share(heap); });
}

RegionId Client::region_of(const void* begin, std::uint64_t bytes) const {
  return guarded_whole(kPrivateRegion, [&] {
    endpoint_->heap().use(begin);
    return endpoint_->regions().region_of(begin, bytes);
  });
}

void* Client::allocate_staging(std::uint64_t bytes) {
  return guarded_whole(static_cast<void*>(nullptr), [&] { return endpoint_->staging().allocate(bytes); });
}

void Client::release_staging(void* memory) {
  guarded_whole(false, [&] {
    endpoint_->staging().release(memory);
    return true;
  });
}

std::shared_ptr<const Group> Client::define_group(GroupId id, std::vector<WorldRank> members, GroupRank me) {
  return guarded_whole(std::shared_ptr<const Group>(), [&] { return endpoint_->define_group(id, members, me); });
}

NativeTally Client::native_tally(const GroupId& group, std::uint64_t operations) {
  return guarded(NativeTally(), [&] { return NativeTally(endpoint_->native_tallies(), group, operations); });
}

PendingOperationPtr Client::post(const OperationRequest& request) {
  return guarded_whole(PendingOperationPtr(), [&] { return endpoint_->post(request); });
}

bool Client::poll(PendingOperation& operation) {
  return guarded(false, [&] { return endpoint_->poll(operation); });
}

OperationResult Client::result(const PendingOperation& operation) const {
  return operation.result;
}

void Client::wait_for_completion(std::chrono::microseconds at_most, bool helps) {
  guarded_whole(false, [&] {
    endpoint_->wait_for_completion(at_most, helps);
    return true;
  });
}

bool Client::enter_wait() {
  return endpoint_->lending().enter_wait();
}

void Client::leave_wait() {
  endpoint_->lending().leave_wait();
}

bool Client::help() {
  return endpoint_->lending().help();
}

bool Client::help_where_alone() {
  return endpoint_->lending().help_where_alone();
}

std::optional<std::string> Client::fatal() {
  return guarded_whole(std::optional<std::string>(), [&] { return endpoint_->fatal(); });
}

bool Client::fatal_was_said() const {
  return endpoint_->fatal_was_said();
}

Client::Statistics Client::statistics() const {
  return guarded_whole(Statistics{}, [&] { return endpoint_->statistics(); });
}

Client::Usage Client::usage() const {
  return guarded(Usage{}, [&] { return endpoint_->usage(); });
}

void PendingOperationDeleter::operator()(PendingOperation* operation) const {
  const NoCancellation whole;
  operation->group->owner().drop(std::unique_ptr<PendingOperation>(operation));
}

}  // namespace outrigger::client
