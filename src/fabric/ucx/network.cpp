#include "fabric/ucx/network.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/network_devices.hpp"

namespace outrigger::fabric::ucx {
namespace {}  // namespace

Status Network::open(WorkerEvents& control, WorkerEvents& data) {
  devices_ = active_network_devices();
  for (const Channel channel : {Channel::control, Channel::data}) {
    const bool is_control = channel == Channel::control;
    Result<Worker> worker = Worker::open(context_, is_control ? control : data);
    if (!worker) return Error{worker.error()};
    (is_control ? control_ : data_).emplace(std::move(worker).value());
  }
  return Done{};
}

bool Network::has_missed_devices() const {
  return !std::ranges::includes(devices_, active_network_devices());
}

void Network::close() {
  data_.reset();
  control_.reset();
}

std::vector<std::byte> Network::address() const {
  return encoded(ChannelAddresses{control_->address(), data_->address()});
}

bool Network::progress() const {
  const bool control = control_->progress();
  return data_->progress() || control;
}

void Network::flush() {
  for (const Worker* worker : {&*control_, &*data_}) {
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    parameters.cb.send = on_flushed;
    parameters.user_data = this;
    if (UCS_PTR_IS_PTR(ucp_worker_flush_nbx(worker->get(), &parameters))) ++flushes_;
  }
}

void Network::on_flushed(void* request, ucs_status_t /*status*/, void* network) {
  auto& flushes = static_cast<Network*>(network)->flushes_;
  assert(flushes != 0 && "every flush ends once");
  --flushes;
  ucp_request_free(request);
}

}  // namespace outrigger::fabric::ucx
