#include "protocol/options/cpu_list.hpp"

#include <charconv>
#include <string_view>

#include "protocol/limits.hpp"

namespace outrigger {
namespace {

bool parse_number(std::string_view text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 0 && number < static_cast<int>(kMaxCpus);
}

}  // namespace

Result<std::vector<int>> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest = part.size() == rest.size() ? std::string_view() : rest.substr(part.size() + 1);
    const std::size_t dash = part.find('-');
    int first = 0;
    int last = 0;
    const bool good =
        parse_number(part.substr(0, dash), first) &&
        (dash == std::string_view::npos ? (last = first, true) : parse_number(part.substr(dash + 1), last));
    if (!good || last < first) {
      return Error{"'" + text + "' is not a list of cpus; write for example 7 or 6,7 or 4-7"};
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace outrigger
