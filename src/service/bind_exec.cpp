#include "service/bind_exec.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "service/topology.hpp"

namespace outrigger::service {
namespace {

Result<std::size_t> local_rank_of_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"}) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    char* end = nullptr;
    const unsigned long number = std::strtoul(value, &end, 10);
    if (end == value || *end != '\0') return Error{std::string(name) + " is '" + value + "', not a number"};
    return std::size_t{number};
  }
  return Error{
      "the launcher gives no local rank (OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, PMI_LOCAL_RANK or "
      "SLURM_LOCALID); start this under mpirun"};
}

Status bind_to_lists(const std::string& lists) {
  std::vector<std::vector<int>> parsed;
  std::stringstream stream(lists);
  std::string list;
  while (std::getline(stream, list, ';')) {
    Result<std::vector<int>> cpus = parse_cpu_list(list);
    if (!cpus) return Error{cpus.error()};
    if (cpus.value().empty()) return Error{"'" + lists + "' has an empty list of cpus"};
    parsed.push_back(std::move(cpus).value());
  }
  if (parsed.empty()) return Done{};
  const Result<std::size_t> local_rank = local_rank_of_environment();
  if (!local_rank) return Error{local_rank.error()};
  return bind_process_to_cpus(parsed[local_rank.value() % parsed.size()]);
}

void prepend_preload(const std::string& library) {
  const char* present = std::getenv("LD_PRELOAD");
  const std::string value = present != nullptr && *present != '\0' ? library + ":" + present : library;
  (void)::setenv("LD_PRELOAD", value.c_str(), 1);
}

}  // namespace

Error bind_and_exec(const BindExecOptions& options) {
  if (options.command.empty()) return Error{"no program to run; write it after --"};
  if (const Status bound = bind_to_lists(options.cpus); !bound) return Error{bound.error()};
  if (!options.preload.empty()) prepend_preload(options.preload);
  std::vector<char*> arguments;
  for (const std::string& argument : options.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  return Error{"cannot run '" + options.command.front() + "': " + std::strerror(errno)};
}

}  // namespace outrigger::service
