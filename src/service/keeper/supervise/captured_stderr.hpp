// What a service process has written on its standard error: libraries say there why they end it. It is kept in a pipe
// that nobody waits for, so what a talkative one says beyond the pipe's size is dropped.
#pragma once

#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace outrigger::service {

class CapturedStderr {
 public:
  // Where no pipe can be had, nothing is kept.
  CapturedStderr() = default;
  [[nodiscard]] static CapturedStderr open();

  // For the process that is about to be started; -1: none. Closed here by started().
  [[nodiscard]] int for_writer() const { return write_end_.valid() ? write_end_.get() : -1; }
  void started() { write_end_.reset(); }

  // After its end: the line that tells most, shortened; empty: it has written nothing.
  [[nodiscard]] std::string take();

 private:
  UniqueFd read_end_, write_end_;
};

// The last line about a failed assertion or a fatal error, before the last line of any other kind.
[[nodiscard]] std::string_view telling_line(std::string_view text);

}  // namespace outrigger::service
