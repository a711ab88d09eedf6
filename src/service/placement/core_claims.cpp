#include "service/placement/core_claims.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "base/abstract_name.hpp"
#include "base/file_text.hpp"
#include "protocol/options/settings.hpp"

namespace outrigger::service {
namespace {

constexpr std::string_view kClaim = "outrigger-claim:";
constexpr std::string_view kService = "service";
constexpr std::string_view kRanks = "ranks";
constexpr int kLooks = 10;
constexpr unsigned kLookUs = 1000;

std::string lock_name(std::string_view scope, int cpu) {
  return fmt::format("outrigger-core:{}:{}", scope, cpu);
}

enum class Bound { yes, refused, not_possible };

Bound bind_name(const std::string& name, std::vector<UniqueFd>& held) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const std::optional<AbstractName> address = AbstractName::of(name);
  if (!socket.valid() || !address) return Bound::not_possible;
  // No data is expected: bytes from strangers must not pile up.
  (void)::shutdown(socket.get(), SHUT_RD);
  if (::bind(socket.get(), address->address(), address->bytes()) != 0) {
    return errno == EADDRINUSE ? Bound::refused : Bound::not_possible;
  }
  held.push_back(std::move(socket));
  return Bound::yes;
}

template <class Number>
std::optional<Number> number_at_most(std::string_view text, Number most) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0 || number > most) return std::nullopt;
  return number;
}

// Takes the text up to the next colon, and the colon.
std::string_view take_word(std::string_view& rest) {
  const std::string_view word = rest.substr(0, rest.find(':'));
  rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  return word;
}

// SCOPE:BY:CPU:JOB:PID
std::optional<CoreClaim> parse_claim(std::string_view text, std::string_view scope) {
  if (take_word(text) != scope) return std::nullopt;
  const std::string_view by = take_word(text);
  const std::optional<int> cpu = number_at_most<int>(take_word(text), static_cast<int>(kMaxCpus) - 1);
  const std::string_view job = take_word(text);
  const std::optional<pid_t> pid = number_at_most<pid_t>(text, 1 << 30);
  if ((by != kService && by != kRanks) || !cpu || !is_claims_word(job) || !pid || *pid == 0) return std::nullopt;
  return CoreClaim{by == kService ? CoreClaim::By::service : CoreClaim::By::ranks, *cpu, std::string(job), *pid};
}

std::string_view claims_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

}  // namespace

Result<Claimant> parse_claimant(const std::string& text) {
  if (text.empty()) return Claimant{};
  const std::size_t colon = text.find(':');
  Claimant claimant{text.substr(0, colon), colon == std::string::npos ? "" : text.substr(colon + 1)};
  const bool scope_is_right = colon == 0 || is_claims_word(claimant.scope);
  if (scope_is_right && is_claims_word(claimant.job)) return claimant;
  return Error{fmt::format("'{}' is not SCOPE:JOB, two words of at most 24 letters and digits", text)};
}

Claimant claimant_of_environment() {
  return {std::string(claims_scope(claims_variable(setting::kCoreClaims))),
          std::string(claims_variable(setting::kJob))};
}

std::vector<CoreClaim> parse_claims(std::string_view sockets, std::string_view scope) {
  std::vector<CoreClaim> claims;
  while (!sockets.empty()) {
    const std::string_view line = sockets.substr(0, sockets.find('\n'));
    sockets.remove_prefix(std::min(sockets.size(), line.size() + 1));
    // Only the name has an at sign, which stands for its leading NUL; paths begin with another character.
    const std::size_t at = line.find(" @");
    if (at == std::string_view::npos || !line.substr(at + 2).starts_with(kClaim)) continue;
    if (auto claim = parse_claim(line.substr(at + 2 + kClaim.size()), scope)) claims.push_back(std::move(*claim));
  }
  return claims;
}

std::vector<CoreClaim> read_claims(std::string_view scope) {
  if (scope.empty()) return {};
  return parse_claims(text_of_file("/proc/net/unix"), scope);
}

pid_t OtherJobs::one_at(const std::vector<int>& cpus) const {
  for (const CoreClaim& claim : claims) {
    if (std::ranges::find(cpus, claim.cpu) != cpus.end()) return claim.pid;
  }
  return untouched(cpus, services | ranks) ? 0 : kUnknown;
}

OtherJobs other_jobs(std::vector<CoreClaim> claims, std::string_view job) {
  std::erase_if(claims, [job](const CoreClaim& claim) { return claim.job == job; });
  OtherJobs others;
  for (const CoreClaim& claim : claims) {
    (claim.by == CoreClaim::By::service ? others.services : others.ranks).set(static_cast<std::size_t>(claim.cpu));
  }
  others.claims = std::move(claims);
  return others;
}

OtherJobs CoreClaims::others() const {
  return other_jobs(read_claims(claimant_.scope), claimant_.job);
}

std::string CoreClaims::explained(CoreClaim::By by, int cpu) const {
  return fmt::format("{}{}:{}:{}:{}:{}", kClaim, claimant_.scope, by == CoreClaim::By::service ? kService : kRanks, cpu,
                     claimant_.job, ::getpid());
}

// Is the process that holds the refused name of this job?
bool CoreClaims::is_own(int cpu) const {
  if (std::ranges::find(held_cpus_, cpu) != held_cpus_.end()) return true;
  // The claim with the details follows right after the name. `outrigger run` holds names for its ranks' cores, too.
  for (int looks = 0; looks < kLooks; ++looks) {
    bool explained = false;
    for (const CoreClaim& claim : read_claims(claimant_.scope)) {
      if (claim.cpu != cpu) continue;
      if (claim.job == claimant_.job) return true;
      explained = explained || claim.by == CoreClaim::By::service;
    }
    if (explained) return false;
    ::usleep(kLookUs);
  }
  return false;
}

bool CoreClaims::claim_service(const std::vector<int>& cpus_of_core) {
  if (claimant_.scope.empty()) return true;
  std::vector<UniqueFd> claimed;
  for (const int cpu : cpus_of_core) {
    if (bind_name(lock_name(claimant_.scope, cpu), claimed) == Bound::refused && !is_own(cpu)) return false;
  }
  services_.insert(services_.end(), std::make_move_iterator(claimed.begin()), std::make_move_iterator(claimed.end()));
  share_service(cpus_of_core);
  return true;
}

void CoreClaims::share_service(const std::vector<int>& cpus_of_core) {
  if (claimant_.scope.empty()) return;
  for (const int cpu : cpus_of_core) (void)bind_name(explained(CoreClaim::By::service, cpu), services_);
  held_cpus_.insert(held_cpus_.end(), cpus_of_core.begin(), cpus_of_core.end());
}

void CoreClaims::drop_services() {
  services_.clear();
  held_cpus_.clear();
}

void CoreClaims::drop() {
  drop_services();
  ranks_.clear();
}

void CoreClaims::claim_ranks(const std::vector<int>& cpus) {
  if (claimant_.scope.empty()) return;
  for (const int cpu : cpus) (void)bind_name(explained(CoreClaim::By::ranks, cpu), ranks_);
}

}  // namespace outrigger::service
