#include "proof/hmac.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/random_bytes.hpp"

namespace outrigger::proof {
namespace {

// Ends the process: a failed computation must never look like a valid proof.
[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "outriggerd: %s\n", what);
  std::abort();
}

// Ignores OpenSSL's configuration file, which is for programs that choose algorithms.
bool prepare() {
  return OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr) == 1;
}

}  // namespace

Statement& Statement::number(std::uint64_t value) {
  for (unsigned byte = 0; byte < sizeof(value); ++byte) bytes_.push_back(static_cast<std::uint8_t>(value >> 8 * byte));
  return *this;
}

Statement& Statement::text(std::string_view value) {
  number(value.size());
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  return *this;
}

Mac hmac(std::span<const std::uint8_t> key, std::span<const std::uint8_t> bytes) {
  static const bool prepared = prepare();
  Mac mac{};
  unsigned length = 0;
  const unsigned char* made = prepared ? ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes.data(),
                                                bytes.size(), mac.data(), &length)
                                       : nullptr;
  if (made == nullptr || length != mac.size()) give_up("libcrypto cannot compute HMAC-SHA256");
  return mac;
}

bool same(std::span<const std::uint8_t> left, std::span<const std::uint8_t> right) {
  return left.size() == right.size() && ::CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

Nonce fresh_nonce() {
  Nonce nonce{};
  if (!fill_random(std::as_writable_bytes(std::span(nonce)))) give_up("no random numbers");
  return nonce;
}

Secret derived_secret(const Secret& secret, std::string_view use) {
  const Mac mac = hmac(secret, Statement("outrigger secret").text(use));
  Secret derived{};
  std::copy_n(mac.begin(), derived.size(), derived.begin());
  return derived;
}

}  // namespace outrigger::proof
