#include "protocol/options/reach.hpp"

namespace outrigger {
namespace {

void add(std::string& list, std::string_view separator, std::string_view word) {
  if (!list.empty()) list += separator;
  list += word;
}

}  // namespace

std::string reach_words() {
  std::string words;
  for (const ReachRow& row : kReaches) {
    if (row.selectable) add(words, ", ", row.name);
  }
  for (const AidRow& aid : kAids) add(words, ", ", aid.name);
  return words;
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
  return Error{std::string(*refused) + " is not a reach; write " + reach_words() + ", or none alone"};
}

}  // namespace outrigger
