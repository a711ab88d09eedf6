// Names used in reports.
#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "protocol/options/reach.hpp"
#include "report/ledger.hpp"

namespace outrigger::report {

inline constexpr std::array<const char*, kByteKinds> kByteNames = [] {
  std::array<const char*, kByteKinds> names{};
  for (std::size_t i = 0; i < kReachCount; ++i) names[i] = outrigger::name_of(static_cast<Reach>(i)).data();
  names[kOwnBytes] = "own";
  names[kBounceBytes] = "bounce";
  return names;
}();

inline constexpr std::array<const char*, kAlgorithms.size()> kAlgorithmNames = [] {
  std::array<const char*, kAlgorithms.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kAlgorithms[i].name.data();
  return names;
}();

[[nodiscard]] inline std::string communicator_of(const LedgerRow& row) {
  const std::string name = text_in(row.name);
  return name.empty() ? "(unnamed)" : name;
}

[[nodiscard]] inline std::string text_of(GroupId id) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(id.high),
                static_cast<unsigned long long>(id.low));
  return text.data();
}

}  // namespace outrigger::report
