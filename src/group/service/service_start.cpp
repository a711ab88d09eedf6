#include "group/service/service_start.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/no_cancellation.hpp"
#include "client/start/background_program.hpp"
#include "client/start/daemon_path.hpp"
#include "protocol/options/settings.hpp"

namespace outrigger::group {
namespace {

std::string_view value_of_setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string list_of(const std::vector<pid_t>& pids) {
  std::string list;
  for (const pid_t pid : pids) {
    if (!list.empty()) list += ',';
    list += std::to_string(pid);
  }
  return list;
}

}  // namespace

std::string kept_cpus() {
  if (!value_of_setting(setting::kJob).empty()) return "";  // they are for service processes of this MPI job
  return value_of_setting(setting::kServices) == "0" ? "" : std::string(value_of_setting(setting::kServiceCpus));
}

Status start_service(const ServiceArea& area, int fd, const std::string& cpus, const std::vector<pid_t>& pids) {
  const NoCancellation whole;
  Result<std::string> daemon = client::find_daemon();
  if (!daemon) return Error{daemon.error()};
  Status started =
      client::start_in_background({.words = {daemon.value(), "group", "--cpus", cpus, "--pids", list_of(pids)},
                                   .descriptors = {fd},
                                   .limit = std::chrono::milliseconds(setting::kInitTimeoutMs)});
  if (started) return Done{};
  const int reason = area.head().start_error.load(std::memory_order_acquire);
  if (reason == 0) return Error{"no service process for the group: " + started.error()};
  return Error{"no service process for the group: it cannot run on OUTRIGGER_SERVICE_CPUS=" + cpus + ": " +
               std::strerror(reason)};
}

void stop_service(const ServiceArea& area) {
  area.head().stopped.store(1, std::memory_order_seq_cst);
  area.ring();
}

}  // namespace outrigger::group
