#include "group/member_watch.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <span>

namespace outrigger::group {

MemberWatch::MemberWatch(const Layout& layout, GroupArea area, MemberProcesses processes, std::vector<GuardedFd> lines)
    : layout_(layout), area_(std::move(area)), processes_(std::move(processes)), lines_(layout.size()) {
  for (std::uint32_t member = 0; member < lines.size(); ++member) {
    lines_[member].socket = std::move(lines[member]);
  }
}

MemberWatch::~MemberWatch() {
  send(0);
  area_.leave(layout_.place());
}

Failure MemberWatch::fail(const Failure& failure) {
  const Failure counts = area_.fail(failure);
  if (counts.word() == failure.word()) {
    const std::scoped_lock held(lock_);
    send(failure.word());
  }
  return counts;
}

void MemberWatch::look() {
  const std::scoped_lock held(lock_);
  for (std::uint32_t member = 0; member < lines_.size(); ++member) {
    const Line& line = lines_[member];
    if (line.socket.valid() && !line.is_broken && !line.has_left) read(member);
  }
}

bool MemberWatch::has_ended(std::uint32_t member, std::chrono::milliseconds for_at_least) {
  if (layout_.is_here(member)) return has_left(member) || processes_.has_ended(layout_.place_of(member));
  const std::scoped_lock held(lock_);
  const Line& line = lines_[member];
  return line.is_broken && Clock::now() - line.broke >= for_at_least;
}

bool MemberWatch::is_gone(std::uint32_t member) {
  if (layout_.is_here(member)) return has_ended(member);
  const std::scoped_lock held(lock_);
  return lines_[member].is_broken || lines_[member].has_left;
}

bool MemberWatch::has_left(std::uint32_t member) const {
  return layout_.is_here(member) && area_.has_left(layout_.place_of(member));
}

Failure MemberWatch::end_of(std::uint32_t member) const {
  const FailureKind kind = has_left(member) ? FailureKind::left : FailureKind::died;
  return {.kind = kind, .about = member, .noticed = layout_.rank()};
}

void MemberWatch::add_lines(std::vector<pollfd>& into) {
  const std::scoped_lock held(lock_);
  for (const Line& line : lines_) {
    if (line.socket.valid() && !line.is_broken && !line.has_left) {
      into.push_back({.fd = line.socket.get(), .events = POLLIN, .revents = 0});
    }
  }
}

void MemberWatch::read(std::uint32_t member) {
  Line& line = lines_[member];
  for (;;) {
    const std::span<std::byte> rest = std::span(line.word).subspan(line.bytes);
    const ssize_t got = ::recv(line.socket.get(), rest.data(), rest.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      line.is_broken = true;
      line.broke = Clock::now();
      return;
    }
    line.bytes += static_cast<std::size_t>(got);
    if (line.bytes < line.word.size()) continue;
    line.bytes = 0;
    std::uint64_t word = 0;
    std::memcpy(&word, line.word.data(), sizeof word);
    if (word == 0) {
      line.has_left = true;
      return;
    }
    Failure failure = Failure::of(word);
    if (!failure.is_set() || failure.about >= layout_.size() || failure.noticed >= layout_.size()) {
      failure = {.kind = FailureKind::aborted, .about = member, .noticed = member};
    }
    (void)area_.fail(failure);
  }
}

// Few bytes ever go through a line, so there is room.
void MemberWatch::send(std::uint64_t word) {
  for (const Line& line : lines_) {
    if (line.socket.valid()) (void)::send(line.socket.get(), &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

}  // namespace outrigger::group
