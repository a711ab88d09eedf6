#include "mpi/start/config.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "protocol/keyed_hash.hpp"
#include "protocol/segment.hpp"

namespace outrigger::mpi {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

Error bad(std::string_view name, std::string_view value, std::string_view valid) {
  return Error{std::string(name) + "=" + std::string(value) + " is not valid: " + std::string(valid)};
}

// Leaves `number` alone when the variable is not set.
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

// Calls `visit` with each comma-separated word; stops at the first that is refused and returns it.
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
  constexpr const char* kName = "OUTRIGGER_ALGORITHM";
  const std::string_view text = variable(kName);
  const Result<client::SelectionTable> table = client::SelectionTable::decode(text);
  if (!table) {
    return bad(kName, text,
               table.error() + "; use <collective>=<algorithm> or =native, separated by commas; there are " +
                   client::selection_choices());
  }
  config.selection = table.value();
  return Done{};
}

Status read_blocking(Config& config) {
  constexpr const char* kName = "OUTRIGGER_BLOCKING";
  const std::string_view text = variable(kName);
  if (!text.empty() && text != "on" && text != "off") return bad(kName, text, "use on or off");
  if (!text.empty()) config.blocking = text == "on" ? BlockingForms::offloaded : BlockingForms::native;
  return Done{};
}

// Leaves `value` alone when the variable is not set.
Status read_switch(const char* name, bool& value) {
  const std::string_view text = variable(name);
  if (text.empty()) return Done{};
  if (text != "on" && text != "off" && text != "1" && text != "0") return bad(name, text, "use on or off");
  value = text == "on" || text == "1";
  return Done{};
}

bool allow_reach(std::uint32_t& reach, std::string_view word) {
  if (word == "mapped") {
    reach |= kReachMapped;
  } else if (word == "cma") {
    reach |= kReachCma;
  } else if (word == "copier") {
    reach |= kReachCopier;
  } else if (word == "xpmem") {
    reach |= kReachXpmem;
  } else if (word == "rdma") {
    reach |= kReachRdma;
  } else if (word == "alias") {
    reach |= kReachAlias;
  } else if (word != "bounce") {
    return false;
  }
  return true;
}

Status read_reach(Config& config) {
  constexpr const char* kName = "OUTRIGGER_REACH";
  const std::string_view text = variable(kName);
  if (text.empty()) return Done{};
  std::uint32_t reach = 0;
  const auto refused = refused_word(text, [&reach](std::string_view word) { return allow_reach(reach, word); });
  if (refused) return bad(kName, *refused, "use mapped, xpmem, cma, copier, rdma, alias, bounce, separated by commas");
  config.reach = reach;
  return Done{};
}

Status read_dpus(Config& config) {
  const std::string_view use = variable("OUTRIGGER_USE_DPU");
  if (use == "0" || use == "off" || use == "no") return Done{};
  config.dpus = variable("OUTRIGGER_DPUS");
  if (config.dpus.empty()) return Done{};
  const auto refused = refused_word(config.dpus, [](std::string_view word) {
    const auto equals = word.find('=');
    const auto colon = word.rfind(':');
    return equals != 0 && equals != std::string_view::npos && colon != std::string_view::npos && colon > equals + 1;
  });
  if (refused) return bad("OUTRIGGER_DPUS", *refused, "use HOST=DPU:PORT, separated by commas");
  const Result<Secret> secret = secret_of_text(variable("OUTRIGGER_DPU_SECRET"));
  if (!secret) return Error{"OUTRIGGER_DPU_SECRET is not valid: " + secret.error()};
  config.dpu_secret = secret.value();
  return Done{};
}

std::string_view short_name(std::string_view host) {
  return host.substr(0, host.find('.'));
}

// Beside this library as it is built and installed: <prefix>/lib/<this> and <prefix>/bin/outriggerd.
std::string daemon_beside_library() {
  Dl_info info{};
  static const char anchor = 0;
  if (dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string library(info.dli_fname);
  const auto slash = library.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : library.substr(0, slash);
  for (const char* relative : {"/../bin/outriggerd", "/outriggerd", "/../../bin/outriggerd"}) {
    std::string path = directory + relative;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

Status read_daemon(Config& config) {
  config.daemon_path = variable("OUTRIGGER_DAEMON");
  if (config.daemon_path.empty()) config.daemon_path = daemon_beside_library();
  if (config.daemon_path.empty()) {
    return Error{"no outriggerd beside the preload library; set OUTRIGGER_DAEMON to its path"};
  }
  if (access(config.daemon_path.c_str(), X_OK) != 0) {
    return Error{"OUTRIGGER_DAEMON=" + config.daemon_path + " is not an executable file"};
  }
  return Done{};
}

}  // namespace

bool enabled_by_environment() {
  const std::string_view value = variable("OUTRIGGER_ENABLE");
  return value != "0" && value != "off" && value != "no";
}

Result<Config> read_config() {
  Config config;
  config.service_cpus = variable("OUTRIGGER_SERVICE_CPUS");
  config.report = variable("OUTRIGGER_REPORT");
  config.transports = variable("OUTRIGGER_UCX_TLS");
  const std::string_view verbose = variable("OUTRIGGER_VERBOSE");
  config.verbose = !verbose.empty() && verbose != "0";
  for (const Status& status :
       {read_number("OUTRIGGER_SERVICES", config.services), read_number("OUTRIGGER_MIN_BYTES", config.min_bytes),
        read_number("OUTRIGGER_INIT_TIMEOUT_MS", config.init_timeout_ms),
        read_number("OUTRIGGER_PRETEND_NODES", config.pretend_nodes), read_algorithms(config), read_blocking(config),
        read_switch("OUTRIGGER_SHARED_HEAP", config.shared_heap),
        read_switch("OUTRIGGER_WAIT_COPIES", config.wait_copies),
        read_switch("OUTRIGGER_HUGE_PAGES", config.huge_pages), read_reach(config), read_dpus(config),
        read_daemon(config)}) {
    if (!status) return Error{status.error()};
  }
  if (config.pretend_nodes == 0) return bad("OUTRIGGER_PRETEND_NODES", "0", "at least 1");
  if (config.services > kMaxServices) {
    return Error{"OUTRIGGER_SERVICES=" + std::to_string(config.services) + " is not valid: at most " +
                 std::to_string(kMaxServices)};
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
  mix(kProtocolVersion);
  for (const char letter : std::string_view(OUTRIGGER_VERSION)) mix(static_cast<std::uint64_t>(letter));
  for (const char letter : selection.encode()) mix(static_cast<std::uint64_t>(letter));
  mix(0);
  mix(reach);
  mix(static_cast<std::uint64_t>(blocking));
  mix(shared_heap ? 1 : 0);
  mix(wait_copies ? 1 : 0);
  mix(huge_pages ? 1 : 0);
  mix(min_bytes);
  mix(pretend_nodes);
  mix(report.empty() ? 0 : 1);
  for (const char letter : dpus) mix(static_cast<std::uint64_t>(letter));
  return digest;
}

}  // namespace outrigger::mpi
