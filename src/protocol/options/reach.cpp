#include "protocol/options/reach.hpp"

#include <array>
#include <utility>

namespace outrigger {
namespace {

void add(std::string& list, std::string_view separator, std::string_view word) {
  if (!list.empty()) list += separator;
  list += word;
}

// Had no variables of their own before.
constexpr std::array<std::pair<std::string_view, const char*>, 3> kFormerWords{
    {{"heap", setting::kSharedHeap}, {"wait_copies", setting::kWaitCopies}, {"huge_pages", setting::kHugePages}}};

}  // namespace

std::string reach_remedy(std::string_view refused) {
  const bool off = refused.starts_with('-');
  if (off) refused.remove_prefix(1);
  for (const auto& [word, variable] : kFormerWords) {
    if (word == refused) return std::string("set ") + variable + (off ? "=off" : "=on");
  }
  std::string words;
  for (const ReachRow& row : kReaches) {
    if (row.selectable) add(words, ", ", row.name);
  }
  return "use " + words + ", separated by commas, or with - in front";
}

std::string reach_list(std::uint32_t reach) {
  std::string list;
  for (const ReachRow& row : kReaches) {
    if ((reach & row.bit) != 0) add(list, ",", row.name);
  }
  return list.empty() ? "none" : list;
}

Result<std::uint32_t> parse_reach_list(std::string_view text) {
  if (text.empty() || text == "none") return 0U;
  ReachSetting setting;
  const std::optional<std::string_view> refused = read_reach(text, setting);
  if (!refused) return setting.reach;
  return Error{std::string(*refused) + " is not a reach: " + reach_remedy(*refused) + "; or none alone"};
}

}  // namespace outrigger
