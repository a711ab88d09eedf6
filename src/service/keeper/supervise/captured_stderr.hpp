// Standard error of a service process: libraries print there why they end it. It goes to a pipe that is read only after
// the end, so output beyond the pipe's capacity is dropped.
#pragma once

#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace outrigger::service {

class CapturedStderr {
 public:
  // Without a pipe nothing is captured.
  CapturedStderr() = default;
  [[nodiscard]] static CapturedStderr open();

  // For the process that is about to be started; -1: none. Closed here by started().
  [[nodiscard]] int for_writer() const { return write_end_.valid() ? write_end_.get() : -1; }
  void started() { write_end_.reset(); }

  // After its end: the most useful line, shortened; empty: it has written nothing.
  [[nodiscard]] std::string take();

 private:
  UniqueFd read_end_, write_end_;
};

// The last line about a failed assertion or a fatal error, else the last line.
[[nodiscard]] std::string_view telling_line(std::string_view text);

}  // namespace outrigger::service
