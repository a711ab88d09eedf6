#include "client/start/daemon_path.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "protocol/options/settings.hpp"

namespace outrigger::client {
namespace {

// <prefix>/lib/<this> and <prefix>/bin/outriggerd.
std::string daemon_beside_library() {
  Dl_info info{};
  static const char anchor = 0;
  if (dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string here(info.dli_fname);
  const auto slash = here.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : here.substr(0, slash);
  for (const char* relative : {"/../bin/outriggerd", "/outriggerd", "/../../bin/outriggerd"}) {
    std::string path = directory + relative;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

}  // namespace

Result<std::string> find_daemon() {
  const char* const named = std::getenv(setting::kDaemon);
  const std::string given = named == nullptr ? "" : named;
  const std::string path = given.empty() ? daemon_beside_library() : given;
  if (path.empty()) return Error{"no outriggerd beside the library; set OUTRIGGER_DAEMON to its path"};
  if (access(path.c_str(), X_OK) != 0) return Error{"OUTRIGGER_DAEMON=" + path + " is not an executable file"};
  return path;
}

}  // namespace outrigger::client
