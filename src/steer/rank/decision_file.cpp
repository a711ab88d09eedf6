#include "steer/rank/decision_file.hpp"

#include <sstream>
#include <utility>

namespace outrigger::steer {
namespace {

constexpr std::size_t kMostLines = 4096;

std::string words_of(const GroupShape& shape, CallKey key) {
  std::ostringstream words;
  words << name_of(key.collective()) << (key.blocking() ? " blocking " : " nonblocking ") << key.size_class() << ' '
        << shape.ranks << ' ' << shape.nodes << ' ' << shape.ranks_per_node << ' ' << shape.services;
  return words.str();
}

std::optional<CallKey> key_of(const std::string& words_of_key) {
  std::istringstream words(words_of_key);
  std::string collective;
  std::string form;
  std::uint16_t size_class = 0;
  GroupShape shape;
  words >> collective >> form >> size_class >> shape.ranks >> shape.nodes >> shape.ranks_per_node >> shape.services;
  const std::optional<Collective> known = collective_named(collective);
  const bool blocking = form == "blocking";
  std::string more;
  if (!words || (words >> more) || !known || (!blocking && form != "nonblocking")) return std::nullopt;
  if (size_class >= CallKey::kSizeClasses) return std::nullopt;
  return CallKey{static_cast<std::uint16_t>(CallKey::of(*known, blocking, 0).value + size_class)};
}

std::optional<Method> method_of(const std::string& name) {
  if (name == "native") return Method::native();
  const std::optional<Algorithm> algorithm = algorithm_named(name);
  return algorithm ? std::optional(Method::by(*algorithm)) : std::nullopt;
}

bool is_line(const std::string& words, const std::string& name) {
  const std::optional<CallKey> key = key_of(words);
  const std::optional<Method> method = method_of(name);
  return key && method && method->possible_for(*key);
}

}  // namespace

DecisionFile::DecisionFile(std::string program, std::string cores, std::string (*mpi_name)(),
                           void (*refuse)(const std::string& path))
    : cache_({"outrigger-choices 4", "choices", kMostLines, &is_line, std::move(program)}, std::move(cores), mpi_name,
             refuse) {}

std::optional<Method> DecisionFile::method(const GroupShape& shape, CallKey key) {
  if (!has_alike_blocks(key.collective())) return std::nullopt;
  const std::optional<std::string> name = cache_.find(words_of(shape, key));
  return name ? method_of(*name) : std::nullopt;
}

void DecisionFile::note(const GroupShape& shape, std::span<const CachedDecision> decisions) {
  for (const CachedDecision& decision : decisions) {
    if (!decision.key.known() || !has_alike_blocks(decision.key.collective())) continue;
    const std::optional<Algorithm> algorithm = decision.method.algorithm();
    cache_.note(words_of(shape, decision.key), std::string(algorithm ? name_of(*algorithm) : "native"));
  }
}

}  // namespace outrigger::steer
