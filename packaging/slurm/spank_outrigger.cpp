// A SPANK plugin: adds --outrigger[=WORDS] to srun, sbatch and salloc, and preloads the library for each task's MPI.
//
// Line in plugstack.conf; the plugin need not be in the libraries' directory:
// optional /opt/outrigger/lib/spank_outrigger.so [prefix=/opt/outrigger] [default=on]
//
// All decisions are made in the task, as the user, right before the program starts: only there the program is known.
// Batch scripts are left alone: Slurm passes the option on to the srun in them.
#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
#include <slurm/slurm.h>
#include <slurm/spank.h>
// In C++ constants have internal linkage unless declared first; the macro below defines them.
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(outrigger, 1)
}

#include "request.hpp"
#include "service/placement/needed_libraries.hpp"

namespace {

using namespace outrigger::slurm;
using outrigger::Result;

constexpr std::size_t kLongestVariable = 65536;  // longer values count as unset

Site site;
std::optional<Request> asked;

// sbatch passes an option without words to the srun in its script as this text.
constexpr std::string_view kNoWords = "(null)";

// Called where the option is given, and again in slurmstepd.
int take_option(int /*value*/, const char* text, int /*remote*/) {
  Result<Request> request = parse_request(text == nullptr || text == kNoWords ? "" : text);
  if (!request) {
    slurm_error("--outrigger: %s", request.error().c_str());
    return -1;
  }
  asked = std::move(request).value();
  return 0;
}

std::string variable(spank_t spank, const char* name) {
  std::vector<char> value(kLongestVariable);
  if (spank_getenv(spank, name, value.data(), static_cast<int>(value.size())) != ESPANK_SUCCESS) return {};
  return std::string(value.data());
}

bool is_of_srun(spank_t spank) {
  std::uint32_t step = 0;
  return spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS && step <= SLURM_MAX_NORMAL_STEP_ID;
}

std::string program_of(spank_t spank) {
  int count = 0;
  char** words = nullptr;
  if (spank_get_item(spank, S_JOB_ARGV, &count, &words) != ESPANK_SUCCESS || count < 1) return {};
  return words[0];
}

std::string own_directory() {
  static const char anchor = 0;
  Dl_info info{};
  if (::dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

// Only in the first task, and only if the user asked: a site's default does not suit every program.
void say(spank_t spank, const std::string& text) {
  std::uint32_t task = 0;
  if (!asked || spank_get_item(spank, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS || task != 0) return;
  slurm_spank_log("outrigger: %s", text.c_str());
}

// In the step's working directory; unique for each step of a cluster.
std::string report_name(spank_t spank) {
  std::uint32_t job = 0;
  std::uint32_t step = 0;
  (void)spank_get_item(spank, S_JOB_ID, &job);
  (void)spank_get_item(spank, S_JOB_STEPID, &step);
  return "outrigger-report-" + std::to_string(job) + "." + std::to_string(step) + ".json";
}

void preload(spank_t spank, const Request& request) {
  const std::string name = program_of(spank);
  const std::string path = variable(spank, "PATH");
  const std::vector<std::string> needed =
      outrigger::service::needed_libraries(outrigger::service::program_on_path(name, path));
  std::string abi = abi_of(needed);
  if (abi.empty()) abi = request.abi;
  if (abi.empty()) {
    say(spank, name + " does not show which MPI it loads; name it: --outrigger=on,openmpi (or mpich, mpiabi)");
    return;
  }
  const std::string library = library_for(abi, site.prefix, own_directory());
  if (::access(library.c_str(), R_OK) != 0) {
    say(spank, "running natively: " + library + " does not exist");
    return;
  }
  const std::string list = outrigger::service::preload_list(library, variable(spank, "LD_PRELOAD"), needed);
  (void)spank_setenv(spank, "LD_PRELOAD", list.c_str(), 1);
  if (request.way != Way::report) return;
  const std::string report = report_name(spank);
  if (spank_setenv(spank, "OUTRIGGER_REPORT", report.c_str(), 0) == ESPANK_SUCCESS) {
    say(spank, "when the step has ended, `outrigger report " + report + "` shows the result");
  }
}

spank_option option{
    const_cast<char*>("outrigger"),
    const_cast<char*>("on|off|report[,ABI]"),
    const_cast<char*>("offload the program's MPI collectives to service processes; report: also write the "
                      "result to outrigger-report-JOB.STEP.json"),
    2,
    0,
    take_option};

}  // namespace

extern "C" {

int slurm_spank_init(spank_t spank, int count, char* words[]) {
  const spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) return 0;
  Result<Site> read = parse_site(std::span(words, static_cast<std::size_t>(count)));
  if (!read) {
    slurm_error("outrigger: plugstack.conf: %s", read.error().c_str());
    return -1;
  }
  site = std::move(read).value();
  return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}

int slurm_spank_task_init(spank_t spank, int /*count*/, char* /*words*/[]) {
  if (!is_of_srun(spank)) return 0;
  const Request& request = asked ? *asked : site.initial;
  if (request.way != Way::off) {
    preload(spank, request);
  } else if (asked) {
    (void)spank_setenv(spank, "OUTRIGGER_ENABLE", "off", 1);  // overrides every other setting
  }
  return 0;
}

}  // extern "C"
