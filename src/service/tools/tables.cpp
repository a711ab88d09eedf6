#include "service/tools/tables.hpp"

#include <nlohmann/json.hpp>

#include "protocol/options/libraries.hpp"
#include "protocol/options/reach.hpp"
#include "protocol/options/selection.hpp"
#include "protocol/options/settings.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::service {
namespace {

using Json = nlohmann::ordered_json;

template <class Rows, class Describe>
Json list_of(const Rows& rows, const Describe& describe) {
  Json list = Json::array();
  for (const auto& row : rows) list.push_back(describe(row));
  return list;
}

Json describe_collective(const CollectiveRow& row) {
  Json algorithms = Json::array();
  for (const Algorithm algorithm : row.algorithms) {
    if (algorithms.empty() || algorithms.back() != name_of(algorithm)) algorithms.push_back(name_of(algorithm));
  }
  return {{"name", row.name},
          {"blocking", blocking_name_of(row.collective)},
          {"algorithms", algorithms},
          {"alike", has_alike_blocks(row.collective)}};
}

Json describe_condition(const ConditionName& condition) {
  return {{"letter", std::string(1, condition.letter)}, {"name", condition.name}, {"meaning", condition.meaning}};
}

Json describe_reach(const ReachRow& row) {
  return {{"name", row.name},
          {"selectable", row.selectable},
          {"brings", row.brings == 0 ? "" : reach_list(row.brings)},
          {"when", row.when},
          {"cost", row.cost}};
}

Json describe_library(const LibraryRow& row) {
  Json sonames = Json::array();
  for (const char* name : row.sonames) {
    if (name != nullptr) sonames.push_back(name);
  }
  return {{"abi", row.abi}, {"title", row.title}, {"library", row.library}, {"sonames", sonames}};
}

Json describe_setting(const SettingRow& row) {
  return {{"name", row.name},       {"initial", row.initial}, {"valid", row.valid},
          {"meaning", row.meaning}, {"alike", row.alike},     {"internal", row.internal}};
}

}  // namespace

std::string describe_tables() {
  Json tables;
  tables["version"] = OUTRIGGER_VERSION;
  tables["collectives"] = list_of(kCollectives, describe_collective);
  tables["conditions"] = list_of(kConditionNames, describe_condition);
  tables["most_rules"] = SelectionTable::kMaxRules;
  tables["reaches"] = list_of(kReaches, describe_reach);
  tables["libraries"] = list_of(kLibraries, describe_library);
  tables["settings"] = list_of(kSettings, describe_setting);
  tables["foreign_prefixes"] = kForeignPrefixes;
  tables["limits"] = {
      {"services", kMaxServices}, {"local_ranks", kMaxLocalRanks}, {"ranks_per_service", kRanksPerService}};
  return tables.dump(2);
}

std::string check_rules(std::span<const std::string> rules) {
  Json list = Json::array();
  std::string all;
  for (const std::string& text : rules) {
    const bool one = !text.empty() && text.find(',') == std::string::npos;
    const Result<SelectionTable> table = one ? SelectionTable::decode(text) : Error{"'" + text + "' is not one rule"};
    list.push_back(
        {{"rule", table ? table.value().encode() : text}, {"problem", table ? "" : table.error()}, {"hidden", ""}});
    if (table) all.append(all.empty() ? "" : ",").append(table.value().encode());
  }
  const Result<SelectionTable> whole = SelectionTable::decode(all);
  const std::vector<std::string> hidden = whole ? whole.value().hidden() : std::vector<std::string>{};
  std::size_t next = 0;
  for (Json& rule : list) {
    if (!rule["problem"].get<std::string>().empty() || next == hidden.size()) continue;
    rule["hidden"] = hidden[next++];
  }
  return Json{{"rules", list}}.dump(2);
}

}  // namespace outrigger::service
