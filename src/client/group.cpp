#include "client/group.hpp"

#include "client/core.hpp"

namespace outrigger::client {

Group::~Group() {
  core_->retire_group(*this);
}

}  // namespace outrigger::client
