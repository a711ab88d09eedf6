#include "service/tools/info.hpp"

#include <hwloc.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/huge_page.hpp"
#include "base/unique_fd.hpp"
#include "base/xpmem.hpp"
#include "fabric/ucx/route.hpp"
#include "protocol/build_version.hpp"
#include "protocol/options/transports.hpp"
#include "service/placement/core_claims.hpp"
#include "service/placement/cores.hpp"

namespace outrigger::service {
namespace {

constexpr std::uint64_t kProbeValue = 0x0123456789ABCDEFULL;
constexpr int kEmulated = 255;  // not an errno: the probing child's exit code if an emulator lacks the call

std::string read_word(const char* path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// True if qemu-user runs the process. It hides itself from the process it runs, but not from another one.
bool is_emulated(pid_t other) {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink(("/proc/" + std::to_string(other) + "/exe").c_str(), path.data(), path.size());
  const std::string_view program(path.data(), length < 0 ? 0 : static_cast<std::size_t>(length));
  return program.substr(program.rfind('/') + 1).starts_with("qemu-");
}

std::string reason_of(int error) {
  if (error == kEmulated) return "the emulator (qemu-user) has no process_vm_readv; a real machine may have it";
  if (error == ENOSYS) return "the kernel has no process_vm_readv (CONFIG_CROSS_MEMORY_ATTACH)";
  if (error != EPERM && error != EACCES) return std::strerror(error);
  const std::string scope = read_word("/proc/sys/kernel/yama/ptrace_scope");
  if (!scope.empty() && scope != "0") {
    return "not permitted: kernel.yama.ptrace_scope is " + scope +
           "; with scope 1 ranks allow it for their own service processes, with 2 or 3 an administrator has to lower "
           "it";
  }
  return "not permitted: a seccomp filter or a missing ptrace right (in a container try --cap-add=SYS_PTRACE)";
}

// In the child: reads the parent's word and writes it back plus one. Exits with 0 or the errno.
[[noreturn]] void probe_as_child(pid_t parent, std::uint64_t* word, int go) {
  char byte = 0;
  (void)!::read(go, &byte, 1);
  std::uint64_t seen = 0;
  const iovec here{&seen, sizeof(seen)};
  const iovec there{word, sizeof(seen)};
  if (::process_vm_readv(parent, &here, 1, &there, 1, 0) != sizeof(seen)) {
    const int error = errno;
    ::_exit(error == ENOSYS && is_emulated(parent) ? kEmulated : error);
  }
  ++seen;
  if (::process_vm_writev(parent, &here, 1, &there, 1, 0) != sizeof(seen)) ::_exit(errno);
  ::_exit(0);
}

nlohmann::json describe_cores() {
  nlohmann::json cores;
  Result<Topology> topology = read_topology();
  if (!topology) {
    cores["error"] = topology.error();
    return cores;
  }
  cores["count"] = topology.value().cores.size();
  for (const Core& core : topology.value().cores) cores["list"].push_back(core.cpus);
  cores["affinity"] = usable_cpus();
  // The usual choice: the last core is kept for service processes.
  const std::vector<Core>& all = topology.value().cores;
  cores["for_services"] = all.size() > 1 ? std::vector<int>{all.back().cpus.front()} : std::vector<int>{};
  return cores;
}

// Claims of all jobs visible to this process.
nlohmann::json describe_claims() {
  nlohmann::json claims = nlohmann::json::array();
  for (const CoreClaim& claim : read_claims(claimant_of_environment().scope)) {
    const bool service = claim.by == CoreClaim::By::service;
    claims.push_back(
        {{"cpu", claim.cpu}, {"by", service ? "service" : "ranks"}, {"job", claim.job}, {"pid", claim.pid}});
  }
  return claims;
}

nlohmann::json describe_wire() {
  const Result<WireRoute> route = fabric::ucx::probe_route(allowed_transports());
  if (!route) return {{"problem", route.error()}};
  return {{"kind", route.value().kind()}, {"transports", transports_of(route.value())}};
}

}  // namespace

std::string why_no_cross_memory() {
  std::array<int, 2> go{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go.data()) != 0) return std::strerror(errno);
  const UniqueFd parent_end(go[0]);
  const UniqueFd child_end(go[1]);
  volatile std::uint64_t word = kProbeValue;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return std::strerror(errno);
  if (child == 0) probe_as_child(parent, const_cast<std::uint64_t*>(&word), child_end.get());
  (void)::prctl(PR_SET_PTRACER, child, 0, 0, 0);  // as ranks do for their service processes
  (void)!::write(parent_end.get(), "g", 1);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  (void)::prctl(PR_SET_PTRACER, 0, 0, 0, 0);
  if (WIFSIGNALED(status)) return "a seccomp filter killed the process that tried";
  if (WEXITSTATUS(status) != 0) return reason_of(WEXITSTATUS(status));
  return word == kProbeValue + 1 ? "" : "the memory did not change";
}

std::string describe_machine() {
  nlohmann::json info;
  info["version"] = OUTRIGGER_VERSION;
  info["protocol"] = kProtocolVersion;
  utsname system{};
  if (::uname(&system) == 0) {
    info["kernel"] = system.release;
    info["machine"] = system.machine;
    info["node"] = system.nodename;
  }
  const unsigned hwloc = hwloc_get_api_version();
  info["hwloc"] =
      std::to_string(hwloc >> 16) + "." + std::to_string((hwloc >> 8) & 0xFFU) + "." + std::to_string(hwloc & 0xFFU);
  info["cores"] = describe_cores();
  info["claims"] = describe_claims();
  const std::string reason = why_no_cross_memory();
  info["reach"]["mapped"] = true;
  info["reach"]["cma"] = reason.empty();
  info["reach"]["cma_why_not"] = reason;
  std::string no_xpmem;
  info["reach"]["xpmem"] = reason.empty() && xpmem_calls(&no_xpmem) != nullptr;
  info["reach"]["xpmem_why_not"] = reason.empty() ? no_xpmem : "needs cma";
  info["wire"] = describe_wire();
  info["reach"]["copier"] = reason.empty();  // uses the same system calls, from a thread of the rank
  const HugePageSupport huge = huge_page_support();
  info["huge_pages"] = {{"bytes", huge.bytes}, {"why_not", huge.why_not}};
  info["yama_ptrace_scope"] = read_word("/proc/sys/kernel/yama/ptrace_scope");
  return info.dump(2);
}

}  // namespace outrigger::service
