// The user's --outrigger option, the administrator's plugstack.conf, and the result for a task. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace outrigger::slurm {

enum class Way { off, on, report };

// The words of --outrigger=WAY,ABI; both are optional.
struct Request {
  Way way = Way::on;
  std::string abi;  // for programs that do not show theirs; empty: those run natively
};

[[nodiscard]] Result<Request> parse_request(std::string_view text);

// The plugin's words in plugstack.conf.
struct Site {
  Request initial{Way::off, ""};  // for jobs without the option
  std::string prefix;             // of the installation; empty: the libraries are in the plugin's directory
};

[[nodiscard]] Result<Site> parse_site(std::span<char* const> words);

// The ABI of a program that needs these libraries; empty: unknown.
[[nodiscard]] std::string abi_of(const std::vector<std::string>& needed);

// The library for an ABI in kLibraries, below `prefix`, otherwise in the plugin's own directory.
[[nodiscard]] std::string library_for(std::string_view abi, const std::string& prefix,
                                      const std::string& own_directory);

}  // namespace outrigger::slurm
