#include "group/member_waiter.hpp"

namespace outrigger::group {
namespace {

intranode::WaitPolicy with_patience(intranode::WaitPolicy policy) {
  policy.patience = kBetweenLooks;
  return policy;
}

}  // namespace

MemberWaiter::MemberWaiter(const intranode::WaitPolicy& policy, const Layout& layout, MemberWatch& watch)
    : Waiter(with_patience(policy)), layout_(layout), watch_(watch) {}

// A member may have raised its flag before it ended or left, or before it failed.
bool MemberWaiter::overdue(const intranode::Late& late) {
  const std::uint32_t member = layout_.here()[late.whose];
  watch_.look();
  const bool ended = watch_.has_ended(member);
  const bool failed = watch_.failure().is_set();
  if (late.has_come() || (late.writes && !ended)) return true;
  if (failed) return false;
  if (ended) {
    (void)watch_.fail(watch_.end_of(member));
    return false;
  }
  if (late.waited < timeout()) return true;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(late.waited);
  (void)watch_.fail({.kind = FailureKind::late,
                     .about = member,
                     .noticed = layout_.rank(),
                     .seconds = static_cast<std::uint32_t>(seconds.count())});
  return false;
}

}  // namespace outrigger::group
