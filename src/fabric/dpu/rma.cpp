#include "fabric/dpu/rma.hpp"

#include <cassert>
#include <utility>

namespace outrigger::fabric::dpu {

ucp_request_param_t Rma::begin(Done done) {
  auto operation = std::make_unique<Operation>(Operation{this, std::move(done)});
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  parameters.cb.send = on_ended;
  parameters.user_data = operation.get();
  under_way_.emplace(operation.get(), std::move(operation));
  return parameters;
}

void Rma::begun(ucs_status_ptr_t request, Operation* operation) {
  if (!UCS_PTR_IS_PTR(request)) ended(operation, UCS_PTR_STATUS(request));
}

void Rma::ended(Operation* operation, ucs_status_t status) {
  assert(under_way_.contains(operation) && "every operation ends once");
  std::unique_ptr<Operation> gone = std::move(under_way_.extract(operation).mapped());
  later_.push_back([done = std::move(gone->done), ok = status == UCS_OK] { done(ok); });
}

void Rma::on_ended(void* request, ucs_status_t status, void* operation) {
  auto* ended = static_cast<Operation*>(operation);
  ended->rma->ended(ended, status);
  ucp_request_free(request);
}

void Rma::get(ucp_ep_h from, std::uint64_t address, ucp_rkey_h key, std::span<std::byte> to, Done done) {
  if (counts_ != nullptr) counts_->received(to.size());
  const ucp_request_param_t parameters = begin(std::move(done));
  begun(ucp_get_nbx(from, to.data(), to.size(), address, key, &parameters),
        static_cast<Operation*>(parameters.user_data));
}

void Rma::get_into(ucp_ep_h from, std::uint64_t address, ucp_rkey_h key, ucp_mem_h memory, std::uint64_t to,
                   std::uint64_t bytes, Done done) {
  if (counts_ != nullptr) {
    counts_->received(bytes);
    counts_->sent(bytes);
  }
  ucp_request_param_t parameters = begin(std::move(done));
  parameters.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  parameters.memh = memory;
  begun(ucp_get_nbx(from, reinterpret_cast<void*>(to), bytes, address, key, &parameters),
        static_cast<Operation*>(parameters.user_data));
}

void Rma::put(ucp_ep_h to, std::uint64_t address, ucp_rkey_h key, std::span<const std::byte> from, Done done) {
  if (counts_ != nullptr) counts_->sent(from.size());
  const ucp_request_param_t parameters = begin(std::move(done));
  begun(ucp_put_nbx(to, from.data(), from.size(), address, key, &parameters),
        static_cast<Operation*>(parameters.user_data));
}

void Rma::flush(ucp_ep_h endpoint, Done done) {
  const ucp_request_param_t parameters = begin(std::move(done));
  begun(ucp_ep_flush_nbx(endpoint, &parameters), static_cast<Operation*>(parameters.user_data));
}

bool Rma::deliver() {
  bool any = false;
  for (std::size_t left = later_.size(); left > 0; --left) {
    const std::function<void()> call = std::move(later_.front());
    later_.pop_front();
    call();
    any = true;
  }
  return any;
}

}  // namespace outrigger::fabric::dpu
