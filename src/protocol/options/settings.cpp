#include "protocol/options/settings.hpp"

#include <algorithm>

namespace outrigger {
namespace {

constexpr std::string_view kPrefix = "OUTRIGGER_";

template <class Rows>
auto row_of(const Rows& rows, std::string_view name) {
  return std::find_if(rows.begin(), rows.end(), [name](const auto& row) { return row.name == name; });
}

bool is_foreign(std::string_view name) {
  return std::any_of(kForeignPrefixes.begin(), kForeignPrefixes.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string known_names() {
  std::string names;
  for (const SettingRow& row : kSettings) {
    if (row.internal) continue;
    names.append(names.empty() ? "" : ", ").append(row.name);
  }
  return names;
}

}  // namespace

std::string unknown_name(const char* const* environment) {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || is_foreign(name) || row_of(kSettings, name) != kSettings.end()) continue;
    return std::string(name) + " is unknown and has no effect; there are " + known_names();
  }
  return {};
}

LogSetting parse_log(std::string_view text) {
  LogSetting setting;
  const auto colon = text.find(':');
  if (!text.empty()) setting.level = text.substr(0, colon);
  if (colon != std::string_view::npos) setting.file = text.substr(colon + 1);
  return setting;
}

bool is_claims_word(std::string_view text) {
  constexpr std::size_t kMost = 24;  // keeps names of sockets that contain it short enough
  return !text.empty() && text.size() <= kMost && std::all_of(text.begin(), text.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '-' || letter == '_';
  });
}

std::string_view claims_scope(std::string_view text) {
  if (text.empty()) return "on";
  return text == "off" || !is_claims_word(text) ? std::string_view() : text;
}

bool is_log_level(std::string_view word) {
  return std::find(kLogLevels.begin(), kLogLevels.end(), word) != kLogLevels.end();
}

std::string log_levels() {
  std::string levels;
  for (const std::string_view level : kLogLevels) levels.append(levels.empty() ? "there are " : ", ").append(level);
  return levels;
}

}  // namespace outrigger
