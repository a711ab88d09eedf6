#include "group/service/service_start.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

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

template <class Number>
std::string list_of(const std::vector<Number>& numbers) {
  std::string list;
  for (const Number number : numbers) {
    if (!list.empty()) list += ',';
    list += std::to_string(number);
  }
  return list;
}

std::vector<std::string> words_for_nodes(const Layout& layout) {
  std::vector<std::uint32_t> first_of;
  for (std::uint32_t rank = 0; rank < layout.size(); ++rank) {
    first_of.push_back(layout.members(layout.node_of(rank)).front());
  }
  return {"--first-of", list_of(first_of), "--rank", std::to_string(layout.rank())};
}

}  // namespace

std::string kept_cpus() {
  if (!value_of_setting(setting::kJob).empty()) return "";  // they are for service processes of this MPI job
  return value_of_setting(setting::kServices) == "0" ? "" : std::string(value_of_setting(setting::kServiceCpus));
}

Status start_service(const ServiceArea& area, const Layout& layout, const ServiceStart& start) {
  const NoCancellation whole;
  Result<std::string> daemon = client::find_daemon();
  if (!daemon) return Error{daemon.error()};
  std::vector<std::string> words{daemon.value(), "group", "--cpus", start.cpus, "--pids", list_of(start.pids)};
  std::vector<int> descriptors{start.area_fd};
  if (layout.nodes() > 1) {
    std::ranges::move(words_for_nodes(layout), std::back_inserter(words));
    std::ranges::copy(start.connections, std::back_inserter(descriptors));
  }
  Status started = client::start_in_background({.words = std::move(words),
                                                .descriptors = std::move(descriptors),
                                                .limit = std::chrono::milliseconds(setting::kInitTimeoutMs)});
  if (started) return Done{};
  const int reason = area.head().start_error.load(std::memory_order_acquire);
  if (reason == 0) return Error{"no service process for the group: " + started.error()};
  return Error{"no service process for the group: it cannot run on OUTRIGGER_SERVICE_CPUS=" + start.cpus + ": " +
               std::strerror(reason)};
}

void stop_service(const ServiceArea& area) {
  area.head().stopped.store(1, std::memory_order_seq_cst);
  area.ring();
}

}  // namespace outrigger::group
