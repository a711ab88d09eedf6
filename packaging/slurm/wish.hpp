// What a user asks for by --outrigger, what an administrator has set in plugstack.conf, and what becomes of it. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace outrigger::slurm {

enum class Way { off, on, report };

// The words of --outrigger=WAY,ABI, either of which may be left out.
struct Wish {
  Way way = Way::on;
  std::string abi;  // of the programs that do not show it; empty: those run natively
};

[[nodiscard]] Result<Wish> parse_wish(std::string_view text);

// The words behind the plugin in plugstack.conf.
struct Site {
  Wish initial{Way::off, ""};  // for jobs that do not ask
  std::string prefix;          // of the installation; empty: the libraries are beside the plugin
};

[[nodiscard]] Result<Site> parse_site(std::span<char* const> words);

// The ABI of a program that needs these libraries; empty: it does not show one.
[[nodiscard]] std::string abi_of(const std::vector<std::string>& needed);

// The library for an ABI that kLibraries has, below `prefix`, else in the plugin's own directory.
[[nodiscard]] std::string library_for(std::string_view abi, const std::string& prefix,
                                      const std::string& own_directory);

}  // namespace outrigger::slurm
