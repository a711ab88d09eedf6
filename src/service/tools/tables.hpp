// The tables of src/protocol (settings, collectives, ...) as JSON, for the launcher and for docs/using/reference.md, so
// that each is written once.
#pragma once

#include <span>
#include <string>

namespace outrigger::service {

//   {"version": "0.1.0",
//    "collectives": [{"name", "blocking", "algorithms": [...], "alike": bytes may decide}],
//    "conditions": [{"letter", "name", "meaning"}], "most_rules": n,
//    "reaches": [{"name", "selectable", "brings": another or "", "when", "cost"}],
//    "libraries": [{"abi", "title", "library", "sonames": [...]}],
//    "settings": [{"name", "initial", "valid", "meaning", "alike", "internal"}], "foreign_prefixes": [...],
//    "limits": {"services", "local_ranks", "ranks_per_service"}}
[[nodiscard]] std::string describe_tables();

// {"rules": [{"rule": as the library writes it, "problem": "" or the error, "hidden": "" or why it is never used}]}
[[nodiscard]] std::string check_rules(std::span<const std::string> rules);

}  // namespace outrigger::service
