#include "mpi/job/config.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "client/start/daemon_path.hpp"
#include "protocol/build_version.hpp"
#include "protocol/options/cpu_list.hpp"
#include "protocol/options/secret_text.hpp"
#include "protocol/options/settings.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::mpi {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

Error bad(std::string_view name, std::string_view value, std::string_view valid) {
  return Error{std::string(name) + "=" + std::string(value) + " is not valid: " + std::string(valid)};
}

// Leaves `number` alone if the variable is not set.
template <class Number>
Status read_number(const char* name, Number& number) {
  const std::string_view text = variable(name);
  if (text.empty()) return Done{};
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return bad(name, text, "a number was expected");
  number = value;
  return Done{};
}

// Calls `visit` with each comma-separated word; stops at the first rejected one and returns it.
template <class Visit>
std::optional<std::string_view> refused_word(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    if (!visit(word)) return word;
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return std::nullopt;
}

Status read_algorithms(Config& config) {
  const std::string_view text = variable(setting::kAlgorithm);
  const std::string_view blocking = variable(setting::kBlocking);
  const std::optional<bool> offloads_blocking = parse_switch(blocking);
  if (!offloads_blocking && !blocking.empty() && blocking != "auto") {
    return bad(setting::kBlocking, blocking, "use on, off or auto");
  }
  const Result<SelectionTable> table = SelectionTable::decode(text, offloads_blocking);
  if (!table) return bad(setting::kAlgorithm, text, table.error());
  config.selection = table.value();
  return Done{};
}

Status read_choice(Config& config) {
  const std::string_view text = variable(setting::kChoice);
  if (!text.empty() && text != "measured" && text != "early" && text != "fixed") {
    return bad(setting::kChoice, text, "use measured, early or fixed");
  }
  config.measured_choice = text != "fixed";
  config.early_trials = text == "early";
  return Done{};
}

Status read_intranode(Config& config) {
  const std::string_view text = variable(setting::kIntranode);
  using enum Config::Intranode;
  if (!text.empty() && text != "on" && text != "off" && text != "always") {
    return bad(setting::kIntranode, text, "use on, off or always");
  }
  config.intranode = text == "off" ? off : text == "always" ? always : on;
  return Done{};
}

Status read_sums(Config& config) {
  const std::string_view text = variable(setting::kSums);
  if (!text.empty() && text != "native" && text != "any") return bad(setting::kSums, text, "use native or any");
  config.sums = text == "any" ? Config::Sums::any : Config::Sums::native;
  return Done{};
}

Status read_wait(Config& config) {
  const std::string_view text = variable(setting::kWait);
  using enum Config::Wait;
  if (!text.empty() && text != "auto" && text != "polite" && text != "native") {
    return bad(setting::kWait, text, "use auto, polite or native");
  }
  config.wait = text == "polite" ? polite : text == "native" ? native : automatic;
  return Done{};
}

// Files with these names are not what was meant.
bool names_no_file(std::string_view report) {
  return report == "-" || report == "live";
}

Status read_report(Config& config) {
  config.report = report_path();
  const std::string_view text = variable(setting::kReport);
  if (names_no_file(text)) {
    return bad(setting::kReport, text,
               "name a file; `outrigger report FILE` shows it; OUTRIGGER_LIVE=on shows a running job");
  }
  const std::string_view live = variable(setting::kLive);
  const std::optional<bool> on = parse_switch(live);
  if (!on && !live.empty()) return bad(setting::kLive, live, "use on or off");
  config.live = on.value_or(false);
  return Done{};
}

Status read_memory(Config& config) {
  const auto refused = read_reach(variable(setting::kReach), config.memory);
  if (refused) return bad(setting::kReach, *refused, reach_remedy(*refused));
  for (const ReachSwitch& each : kReachSwitches) {
    const std::string_view text = variable(each.variable);
    const std::optional<bool> on = parse_switch(text);
    if (!on && !text.empty()) return bad(each.variable, text, "use on or off");
    config.memory.*each.on = on.value_or(ReachSetting{}.*each.on);
  }
  return Done{};
}

Status read_dpus(Config& config) {
  const std::string_view text = variable(setting::kDpus);
  if (text.empty() || (config.memory.reach & kReachRdma) == 0) return Done{};
  const auto at = text.find('@');
  if (at == std::string_view::npos) {
    return Error{std::string(setting::kDpus) + " has no secret; use SECRET@HOST=DPU:PORT,..."};
  }
  config.dpus = text.substr(at + 1);
  const auto refused = refused_word(config.dpus, [](std::string_view word) {
    const auto equals = word.find('=');
    const auto colon = word.rfind(':');
    return equals != 0 && equals != std::string_view::npos && colon != std::string_view::npos && colon > equals + 1;
  });
  if (refused) return bad(setting::kDpus, *refused, "use SECRET@HOST=DPU:PORT,HOST=DPU:PORT,...");
  const Result<Secret> secret = secret_of_text(text.substr(0, at));
  if (!secret) return Error{std::string("the secret in ") + setting::kDpus + " is not valid: " + secret.error()};
  config.dpu_secret = secret.value();
  return Done{};
}

Status read_copy_cpus(Config& config) {
  const std::string text(variable(setting::kCopyCpus));
  Result<std::vector<int>> cpus = parse_cpu_list(text);
  if (!cpus) return bad(setting::kCopyCpus, text, "write for example 7 or 6,7 or 4-7");
  config.copy_cpus = std::move(cpus).value();
  return Done{};
}

Status read_log(Config& config) {
  const std::string_view text = variable(setting::kLog);
  const LogSetting log = parse_log(text);
  if (!is_log_level(log.level)) return bad(setting::kLog, text, "use LEVEL or LEVEL:FILE; " + log_levels());
  config.verbose = log.speaks();
  return Done{};
}

Status read_claims(Config& config) {
  const std::string_view scope = variable(setting::kCoreClaims);
  if (!scope.empty() && !is_claims_word(scope)) {
    return bad(setting::kCoreClaims, scope, "use on, off, or a word of letters and digits, 24 at most");
  }
  const std::string_view job = variable(setting::kJob);
  if (!job.empty() && !is_claims_word(job)) return bad(setting::kJob, job, "`outrigger run` sets it");
  config.claims_scope = claims_scope(scope);
  config.claims_job = job;
  return Done{};
}

std::string_view short_name(std::string_view host) {
  return host.substr(0, host.find('.'));
}

Status read_daemon(Config& config) {
  Result<std::string> found = client::find_daemon();
  if (!found) return Error{found.error()};
  config.daemon_path = std::move(found).value();
  return Done{};
}

}  // namespace

bool enabled_by_environment() {
  const std::string_view value = variable(setting::kEnable);
  return value != "0" && value != "off" && value != "no";
}

std::string unknown_setting() {
  return unknown_name(environ);
}

std::string report_path() {
  const std::string_view value = variable(setting::kReport);
  return names_no_file(value) ? std::string() : std::string(value);
}

std::string trace_path() {
  return std::string(variable(setting::kTrace));
}

Result<Config> read_config() {
  Config config;
  config.service_cpus = variable(setting::kServiceCpus);
  config.trace = trace_path();
  config.transports = variable(setting::kTransports);
  for (const Status& status :
       {read_number(setting::kServices, config.services), read_number(setting::kInitTimeout, config.init_timeout_ms),
        read_number(setting::kPretendNodes, config.pretend_nodes),
        read_number(setting::kPretendCaches, config.pretend_caches), read_algorithms(config), read_choice(config),
        read_intranode(config), read_sums(config), read_wait(config), read_report(config), read_memory(config),
        read_claims(config), read_dpus(config), read_copy_cpus(config), read_log(config), read_daemon(config)}) {
    if (!status) return Error{status.error()};
  }
  config.without_services = !variable(setting::kServices).empty() && config.services == 0;
  if (config.pretend_nodes == 0) return bad(setting::kPretendNodes, "0", "at least 1");
  if (config.services > kMaxServices) {
    return bad(setting::kServices, std::to_string(config.services), "at most " + std::to_string(kMaxServices));
  }
  return config;
}

Result<std::string> dpu_for(std::string_view dpus, std::string_view host, std::uint32_t number) {
  std::string found;
  const auto different = refused_word(dpus, [&](std::string_view word) {
    const std::string_view name = word.substr(0, word.find('='));
    if (name != host && short_name(name) != short_name(host) && name != "localhost") return true;
    found = word.substr(name.size() + 1);
    return number-- != 0;
  });
  if (different) return found;
  return Error{"OUTRIGGER_DPUS names no" + std::string(found.empty() ? "" : " further") + " DPU for host " +
               std::string(host)};
}

std::uint64_t Config::digest() const {
  std::uint64_t digest = 0xCBF29CE484222325ULL;
  const auto mix = [&digest](std::uint64_t word) {
    digest = (digest ^ word) * 0x9E3779B97F4A7C15ULL;
    digest ^= digest >> 31;
  };
  mix(build_version());
  for (const char letter : selection.encode()) mix(static_cast<std::uint64_t>(letter));
  mix(static_cast<std::uint64_t>(selection.blocking_forms()));
  mix(memory.reach);
  for (const ReachSwitch& each : kReachSwitches) mix(memory.*each.on ? 1 : 0);
  mix(pretend_nodes);
  mix(pretend_caches);
  mix(report.empty() ? 0 : 1);
  mix(trace.empty() ? 0 : 1);
  mix(live ? 1 : 0);
  mix(measured_choice ? 1 : 0);
  mix(early_trials ? 1 : 0);
  mix(without_services ? 1 : 0);
  mix(static_cast<std::uint64_t>(intranode));
  mix(static_cast<std::uint64_t>(sums));
  for (const char letter : dpus) mix(static_cast<std::uint64_t>(letter));
  return digest;
}

}  // namespace outrigger::mpi
