#include "service/loop/scheduling.hpp"

#include "base/time_slice.hpp"

namespace outrigger::service {

void ask_for_short_slices() {
  outrigger::ask_for_short_slices();
}

}  // namespace outrigger::service
