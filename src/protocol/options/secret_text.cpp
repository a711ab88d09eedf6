#include "protocol/options/secret_text.hpp"

#include <algorithm>
#include <charconv>

namespace outrigger {

Result<Secret> secret_of_text(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  Secret secret{};
  const bool hexadecimal = text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
  if (!hexadecimal || text.size() != 2 * secret.size()) {
    return Error{"the job's secret is not a line of 32 hexadecimal digits"};
  }
  for (std::uint8_t& byte : secret) {
    (void)std::from_chars(text.data(), text.data() + 2, byte, 16);
    text.remove_prefix(2);
  }
  return secret;
}

}  // namespace outrigger
