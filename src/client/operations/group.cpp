#include "client/operations/group.hpp"

#include "client/rank_endpoint.hpp"

namespace outrigger::client {

Group::~Group() {
  endpoint_->retire_group(*this);
}

}  // namespace outrigger::client
