#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "sim/timing/largest_jobs.hpp"
#include "sim/timing/script.hpp"

namespace outrigger::sim::timing {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostFileBytes = std::size_t{4} << 20U;
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kMostRepetitions = 10'000;
constexpr std::size_t kMostSteps = 10'000;
constexpr std::size_t kMostCommunicators = 64;
constexpr double kMostWork_us = 3600e6;
constexpr double kMostPart = 1000;

// Reading ends at the first problem, because later ones may follow from it.
using Problem = std::optional<Error>;

template <class... Arguments>
Error problem(std::string_view where, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return Error{fmt::format("{}: {}", where, fmt::format(text, std::forward<Arguments>(arguments)...))};
}

// An object of the file; each key is read once.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  [[nodiscard]] bool has(const char* key) const { return object_.contains(key); }
  [[nodiscard]] std::string path(std::string_view key) const {
    return where_.empty() ? std::string(key) : fmt::format("{}.{}", where_, key);
  }
  Problem whole(const char* key, std::uint64_t least, std::uint64_t most, std::uint64_t& value) {
    const Json* const found = find(key);
    if (found == nullptr || !found->is_number_unsigned() || found->get<std::uint64_t>() < least ||
        found->get<std::uint64_t>() > most) {
      return problem(path(key), "a whole number from {} to {}", least, most);
    }
    value = found->get<std::uint64_t>();
    return std::nullopt;
  }
  Problem whole(const char* key, std::uint32_t least, std::uint32_t most, std::uint32_t& value) {
    std::uint64_t wide = 0;
    if (Problem wrong = whole(key, std::uint64_t{least}, std::uint64_t{most}, wide)) return wrong;
    value = static_cast<std::uint32_t>(wide);
    return std::nullopt;
  }
  Problem number(const char* key, double most, double& value) {
    const Json* const found = find(key);
    const double read = found != nullptr && found->is_number() ? found->get<double>() : -1;
    if (!std::isfinite(read) || read < 0 || read > most) return problem(path(key), "a number from 0 to {}", most);
    value = read;
    return std::nullopt;
  }
  Problem text(const char* key, std::string& value) {
    const Json* const found = find(key);
    if (found == nullptr || !found->is_string()) return problem(path(key), "a text");
    value = found->get<std::string>();
    return std::nullopt;
  }
  Problem array(const char* key, std::size_t least, std::size_t most, const Json*& value) {
    value = find(key);
    if (value == nullptr || !value->is_array() || value->size() < least || value->size() > most) {
      return problem(path(key), "a list of {} to {}", least, most);
    }
    return std::nullopt;
  }
  const Json* find(const char* key) {
    asked_.emplace_back(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  // Reports keys that were not read.
  [[nodiscard]] Problem finish() const {
    for (const auto& [key, value] : object_.items()) {
      if (std::ranges::find(asked_, key) != asked_.end()) continue;
      std::string allowed;
      for (const std::string& each : asked_) allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", each);
      return problem(path(key), "unknown key; allowed are {}", allowed);
    }
    return std::nullopt;
  }

 private:
  const Json& object_;
  std::string where_;
  std::vector<std::string> asked_;
};

// Whole numbers below `limit`.
Problem read_numbers(const Json& list, const std::string& where, std::uint64_t limit,
                     std::vector<std::uint32_t>& numbers) {
  if (!list.is_array() || list.size() > limit) return problem(where, "a list of at most {} ranks", limit);
  for (const Json& each : list) {
    if (!each.is_number_unsigned() || each.get<std::uint64_t>() >= limit) {
      return problem(where, "a rank is a whole number below {}", limit);
    }
    numbers.push_back(each.get<std::uint32_t>());
  }
  return std::nullopt;
}

class Reader {
 public:
  Result<Script> read(const Json& file) {
    if (!file.is_object()) return Error{"a program is an object: {\"outrigger_program\": 1, ...}"};
    Fields fields(file, "");
    if (Problem wrong = read_head(fields)) return std::move(*wrong);
    if (Problem wrong = read_communicators(fields)) return std::move(*wrong);
    if (Problem wrong = read_steps(fields)) return std::move(*wrong);
    if (Problem wrong = fields.finish()) return std::move(*wrong);
    return std::move(script_);
  }

 private:
  Problem read_head(Fields& fields) {
    std::uint32_t version = 0;
    if (Problem wrong = fields.whole("outrigger_program", kVersion, kVersion, version)) return wrong;
    if (Problem wrong = fields.whole("ranks", 2U, kMostRanks, script_.ranks)) return wrong;
    if (Problem wrong = fields.whole("repeat", 1U, kMostRepetitions, script_.repeat)) return wrong;
    if (fields.has("work_of_rank")) {
      const Json* list = nullptr;
      if (Problem wrong = fields.array("work_of_rank", script_.ranks, script_.ranks, list)) return wrong;
      for (const Json& part : *list) {
        const double read = part.is_number() ? part.get<double>() : -1;
        if (!(read >= 0 && read <= kMostPart)) return problem("work_of_rank", "numbers from 0 to {}", kMostPart);
        script_.work_of_rank.push_back(read);
      }
    }
    return std::nullopt;
  }

  Problem read_communicators(Fields& fields) {
    std::vector<std::uint32_t> all(script_.ranks);
    for (std::uint32_t rank = 0; rank < script_.ranks; ++rank) all[rank] = rank;
    names_.emplace("world", 0);
    script_.workload.communicators.push_back(make_communicator({all}));
    if (!fields.has("communicators")) return std::nullopt;
    const Json& table = *fields.find("communicators");
    if (!table.is_object() || table.size() > kMostCommunicators) {
      return problem("communicators", "an object of at most {}", kMostCommunicators);
    }
    for (const auto& [name, value] : table.items()) {
      const std::string where = fmt::format("communicators.{}", name);
      if (!value.is_object()) return problem(where, "an object: {{\"groups\": [[0, 1], [2, 3]]}}");
      if (!names_.emplace(name, static_cast<std::uint32_t>(script_.workload.communicators.size())).second) {
        return problem(where, "'world' is reserved: it has all ranks");
      }
      Fields of_one(value, where);
      if (Problem wrong = read_communicator(of_one)) return wrong;
    }
    return std::nullopt;
  }

  Problem read_communicator(Fields& fields) {
    const Json* list = nullptr;
    if (Problem wrong = fields.array("groups", 1, script_.ranks, list)) return wrong;
    std::vector<std::vector<std::uint32_t>> groups;
    std::vector<std::uint8_t> seen(script_.ranks);
    for (const Json& group : *list) {
      if (Problem wrong = read_numbers(group, fields.path("groups"), script_.ranks, groups.emplace_back()))
        return wrong;
      for (const std::uint32_t rank : groups.back()) {
        if (seen[rank]++ != 0) return problem(fields.path("groups"), "rank {} is listed twice", rank);
      }
    }
    const auto missing = std::ranges::find(seen, 0);
    if (missing != seen.end()) {
      return problem(fields.path("groups"), "rank {} is in no group; a single rank may be a group",
                     missing - seen.begin());
    }
    script_.workload.communicators.push_back(make_communicator(groups));
    if (fields.has("neighbors")) {
      if (Problem wrong = read_neighbors(fields)) return wrong;
    }
    return fields.finish();
  }

  Problem read_neighbors(Fields& fields) {
    Communicator& communicator = script_.workload.communicators.back();
    const Json* list = nullptr;
    if (Problem wrong = fields.array("neighbors", script_.ranks, script_.ranks, list)) return wrong;
    const std::string where = fields.path("neighbors");
    for (std::uint32_t rank = 0; rank < script_.ranks; ++rank) {
      const std::size_t size = communicator.groups[communicator.group_of[rank]]->size();
      std::vector<std::uint32_t> numbers;
      if (Problem wrong = read_numbers((*list)[rank], fmt::format("{}[{}]", where, rank), size, numbers)) return wrong;
      std::ranges::sort(numbers);
      if (std::ranges::adjacent_find(numbers) != numbers.end())
        return problem(where, "rank {} has a neighbor twice", rank);
      for (const std::uint32_t number : numbers) communicator.neighbors[rank].emplace_back(number);
    }
    return neighbors_both_ways(communicator, where);
  }

  [[nodiscard]] Problem neighbors_both_ways(const Communicator& communicator, const std::string& where) const {
    for (std::uint32_t rank = 0; rank < script_.ranks; ++rank) {
      const std::vector<WorldRank>& members = *communicator.groups[communicator.group_of[rank]];
      for (const GroupRank neighbor : communicator.neighbors[rank]) {
        const WorldRank other = members[neighbor.value()];
        const auto& back = communicator.neighbors[other.value()];
        if (std::ranges::find(back, GroupRank{communicator.place_of[rank]}) == back.end()) {
          return problem(where, "{} is a neighbor of rank {}, but not the other way", other.value(), rank);
        }
      }
    }
    return std::nullopt;
  }

  Problem read_steps(Fields& fields) {
    const Json* list = nullptr;
    if (Problem wrong = fields.array("steps", 1, kMostSteps, list)) return wrong;
    for (std::size_t number = 0; number < list->size(); ++number) {
      const std::string where = fmt::format("steps[{}]", number);
      if (!(*list)[number].is_object()) return problem(where, "an object with work_us, post, call or wait");
      Fields step((*list)[number], where);
      if (Problem wrong = read_step(step, where)) return wrong;
      if (Problem wrong = step.finish()) return wrong;
    }
    for (const auto& [name, request] : open_) {
      return problem("steps", "request '{}' is never waited for; end with {{\"wait\": [\"{}\"]}}", name, name);
    }
    return std::nullopt;
  }

  Problem read_step(Fields& step, const std::string& where) {
    if (step.has("work_us")) {
      double time_us = 0;
      if (Problem wrong = step.number("work_us", kMostWork_us, time_us)) return wrong;
      script_.steps.emplace_back(Work{static_cast<std::uint64_t>(std::llround(time_us * 1000))});
      return std::nullopt;
    }
    if (step.has("post")) return read_post(step);
    if (step.has("call")) return read_blocking(step);
    if (step.has("wait")) return read_wait(step);
    return problem(where, "one of work_us, post, call and wait");
  }

  Problem read_post(Fields& step) {
    if (Problem wrong = read_call(step, "post", false)) return wrong;
    std::string name;
    if (Problem wrong = step.text("request", name)) return wrong;
    const std::uint32_t request = script_.requests++;
    if (!open_.emplace(name, request).second) {
      return problem(step.path("request"), "'{}' is still active; wait for it first", name);
    }
    script_.steps.emplace_back(Post{last_call(), request});
    return std::nullopt;
  }

  Problem read_blocking(Fields& step) {
    if (Problem wrong = read_call(step, "call", true)) return wrong;
    const std::uint32_t request = script_.requests++;
    script_.steps.emplace_back(Post{last_call(), request});
    script_.steps.emplace_back(Wait{{request}});
    return std::nullopt;
  }

  Problem read_wait(Fields& step) {
    const Json* list = nullptr;
    if (Problem wrong = step.array("wait", 1, kMostSteps, list)) return wrong;
    Wait wait;
    for (const Json& each : *list) {
      const auto found = each.is_string() ? open_.find(each.get<std::string>()) : open_.end();
      if (found == open_.end())
        return problem(step.path("wait"), "{} is not an active request",
                       each.dump(-1, ' ', true, Json::error_handler_t::replace));
      wait.requests.push_back(found->second);
      open_.erase(found);
    }
    script_.steps.emplace_back(std::move(wait));
    return std::nullopt;
  }

  [[nodiscard]] std::uint32_t last_call() const {
    return static_cast<std::uint32_t>(script_.workload.calls.size() - 1);
  }

  Problem read_call(Fields& step, const char* key, bool blocking) {
    std::string name;
    if (Problem wrong = step.text(key, name)) return wrong;
    const std::optional<Collective> collective = collective_named(name);
    if (!collective) return problem(step.path(key), "'{}' is not a collective; write ialltoall, iallreduce, ...", name);
    if (!can_post(*collective) ||
        baselines::default_baseline(model::MpiFamily::mpich, *collective, 2, 0, blocking) == nullptr) {
      return problem(step.path(key), "{} is not modelled", name);
    }
    Call call;
    call.collective = *collective;
    if (Problem wrong = read_communicator_of(step, call)) return wrong;
    if (Problem wrong = read_bytes(step, call)) return wrong;
    const std::size_t least = smallest_group(call);
    if (step.has("root")) {
      if (!is_rooted(*collective) && !is_for_root(*collective)) return problem(step.path("root"), "{} has none", name);
      if (Problem wrong = step.whole("root", 0U, static_cast<std::uint32_t>(least - 1), call.root)) return wrong;
    }
    script_.workload.calls.push_back(std::move(call));
    script_.blocking.push_back(blocking);
    return std::nullopt;
  }

  Problem read_communicator_of(Fields& step, Call& call) const {
    if (step.has("communicator")) {
      std::string name;
      if (Problem wrong = step.text("communicator", name)) return wrong;
      const auto found = names_.find(name);
      if (found == names_.end()) return problem(step.path("communicator"), "there is no '{}' in communicators", name);
      call.communicator = found->second;
    }
    const Communicator& communicator = script_.workload.communicators[call.communicator];
    const bool has_neighbors =
        std::ranges::any_of(communicator.neighbors, [](const auto& neighbors) { return !neighbors.empty(); });
    if (is_of_neighbors(call.collective) && !has_neighbors) {
      return problem(step.path("communicator"), "its ranks have no neighbors; add a list of neighbors");
    }
    return std::nullopt;
  }

  [[nodiscard]] std::size_t smallest_group(const Call& call) const {
    std::size_t least = script_.ranks;
    for (const auto& group : script_.workload.communicators[call.communicator].groups) {
      least = std::min(least, group->size());
    }
    return least;
  }

  Problem read_bytes(Fields& step, Call& call) const {
    if (call.collective == Collective::ibarrier) return std::nullopt;
    const Json* const bytes = step.find("bytes");
    if (bytes == nullptr || !bytes->is_array()) {
      if (Problem wrong = step.whole("bytes", std::uint64_t{1}, kMostBytes, call.bytes)) return wrong;
      if (is_reduction(call.collective) && call.bytes % 4 != 0) {
        return problem(step.path("bytes"), "a reduction has whole elements of 4 bytes");
      }
      return std::nullopt;
    }
    if (call.collective != Collective::ialltoallv && call.collective != Collective::ialltoallw) {
      return problem(step.path("bytes"), "only ialltoallv and ialltoallw may have a list");
    }
    for (const auto& group : script_.workload.communicators[call.communicator].groups) {
      if (group->size() != bytes->size()) {
        return problem(step.path("bytes"), "one for each distance in a group, {} here", group->size());
      }
    }
    for (const Json& each : *bytes) {
      if (!each.is_number_unsigned() || each.get<std::uint64_t>() > kMostBytes) {
        return problem(step.path("bytes"), "whole numbers up to {}", kMostBytes);
      }
      call.by_distance.push_back(each.get<std::uint64_t>());
    }
    return std::nullopt;
  }

  Script script_;
  std::map<std::string, std::uint32_t> names_;  // of communicators
  std::map<std::string, std::uint32_t> open_;   // requests by name
};

}  // namespace

Result<Script> parse_script(const std::string& text, const std::string& file_name) {
  const Json file = Json::parse(text, nullptr, false);
  if (file.is_discarded()) return Error{fmt::format("{}: not valid JSON", file_name)};
  Result<Script> script = Reader().read(file);
  if (!script) return Error{fmt::format("{}: {}", file_name, script.error())};
  return script;
}

Result<Script> read_script(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Error{fmt::format("{}: cannot be read; name a program, as docs/using/prediction.md describes it", path)};
  std::string text(kMostFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostFileBytes) return Error{fmt::format("{}: too large for a program (4 MiB)", path)};
  return parse_script(text, path);
}

}  // namespace outrigger::sim::timing
