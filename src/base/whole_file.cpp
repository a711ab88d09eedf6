#include "base/whole_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/unique_file.hpp"

namespace outrigger {
namespace {

Status write_to(const std::string& path, const std::string& text) {
  const UniqueFile file(std::fopen(path.c_str(), "we"));
  if (file == nullptr) return Error{std::strerror(errno)};
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size()) return Error{std::strerror(errno)};
  if (std::fflush(file.get()) != 0) return Error{std::strerror(errno)};
  return Done{};
}

// Replaces the target of a link, and not the link.
std::string behind_links(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  return real == nullptr ? path : std::string(real.get());
}

// Unique among writers.
std::string temporary_beside(const std::string& path) {
  static std::atomic<unsigned> made = 0;
  return path + "." + std::to_string(::getpid()) + "." + std::to_string(made.fetch_add(1)) + ".part";
}

}  // namespace

Status write_file(const std::string& path, const std::string& text, bool last) {
  struct stat there {};
  const bool exists = ::stat(path.c_str(), &there) == 0;
  if (exists && !S_ISREG(there.st_mode)) return last ? write_to(path, text) : Status(Done{});
  const std::string target = behind_links(path);
  const std::string part = temporary_beside(target);
  if (Status written = write_to(part, text); !written) {
    (void)::unlink(part.c_str());
    // The directory may forbid new files although the file itself is writable.
    return exists ? write_to(target, text) : written;
  }
  if (exists) (void)::chmod(part.c_str(), there.st_mode & 07777U);
  if (::rename(part.c_str(), target.c_str()) == 0) return Done{};
  Status failed = Error{std::strerror(errno)};
  (void)::unlink(part.c_str());
  return failed;
}

}  // namespace outrigger
