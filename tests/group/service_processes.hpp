// Service processes of groups.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace outrigger {

inline std::string a_cpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return "0";
  int cpu = CPU_SETSIZE - 1;
  while (cpu > 0 && !CPU_ISSET(cpu, &set)) --cpu;
  return std::to_string(cpu);
}

inline std::string words_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/cmdline", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // without an exception if the process ends meanwhile
  std::string words = text.str();
  for (char& letter : words) letter = letter == '\0' ? ' ' : letter;
  return words;
}

// Service processes of groups whose first member on the node is this one.
inline std::vector<pid_t> services_of(pid_t first) {
  const std::string pids = " --pids " + std::to_string(first);
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string process = entry.path().filename();
    if (process.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string words = words_of(process) + " ";
    const std::size_t at = words.find(pids);
    if (at == std::string::npos || std::isdigit(words[at + pids.size()]) != 0) continue;
    found.push_back(std::stoi(process));
  }
  return found;
}

inline void wait_for_no_service_of(pid_t first) {
  while (!services_of(first).empty()) ::usleep(1000);
}
inline void wait_for_no_services_of(const std::vector<pid_t>& members) {
  for (const pid_t member : members) wait_for_no_service_of(member);
}

}  // namespace outrigger
