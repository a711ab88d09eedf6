#include "request.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "protocol/options/libraries.hpp"

namespace outrigger::slurm {
namespace {

constexpr std::string_view kWords =
    "is unknown; write on, off or report, and openmpi, mpich or mpiabi if the program does not show its MPI";

std::optional<Way> way_of(std::string_view word) {
  if (word == "on") return Way::on;
  if (word == "off") return Way::off;
  if (word == "report") return Way::report;
  return std::nullopt;
}

bool is_abi(std::string_view word) {
  return std::any_of(kLibraries.begin(), kLibraries.end(), [word](const LibraryRow& row) { return row.abi == word; });
}

bool has_soname(const LibraryRow& row, std::string_view name) {
  return std::any_of(row.sonames.begin(), row.sonames.end(),
                     [name](const char* soname) { return soname != nullptr && name == soname; });
}

// Not by operator+: gcc 12 falsely warns of an overlap.
Error not_known(std::string_view word, std::string_view what) {
  std::string text = "'";
  text.append(word).append("' ").append(what);
  return Error{std::move(text)};
}

std::string_view after(std::string_view text, std::string_view key) {
  return text.substr(key.size());
}

}  // namespace

Result<Request> parse_request(std::string_view text) {
  Request request;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (const std::optional<Way> way = way_of(word)) {
      request.way = *way;
    } else if (is_abi(word)) {
      request.abi = word;
    } else {
      return not_known(word, kWords);
    }
  }
  return request;
}

Result<Site> parse_site(std::span<char* const> words) {
  constexpr std::string_view kDefault = "default=";
  constexpr std::string_view kPrefix = "prefix=";
  Site site;
  for (const std::string_view word : words) {
    if (word.starts_with(kDefault)) {
      Result<Request> request = parse_request(after(word, kDefault));
      if (!request) return Error{std::string(kDefault) + ": " + request.error()};
      site.initial = std::move(request).value();
    } else if (word.starts_with(kPrefix)) {
      site.prefix = after(word, kPrefix);
    } else {
      return not_known(word, "is neither default=WORDS nor prefix=DIRECTORY");
    }
  }
  return site;
}

std::string abi_of(const std::vector<std::string>& needed) {
  for (const LibraryRow& row : kLibraries) {
    const bool fits =
        std::any_of(needed.begin(), needed.end(), [&row](const std::string& name) { return has_soname(row, name); });
    if (fits) return std::string(row.abi);
  }
  return {};
}

std::string library_for(std::string_view abi, const std::string& prefix, const std::string& own_directory) {
  const auto row =
      std::find_if(kLibraries.begin(), kLibraries.end(), [abi](const LibraryRow& r) { return r.abi == abi; });
  if (row == kLibraries.end()) return {};
  return (prefix.empty() ? own_directory : prefix + "/lib") + "/" + std::string(row->library);
}

}  // namespace outrigger::slurm
