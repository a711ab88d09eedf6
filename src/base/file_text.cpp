#include "base/file_text.hpp"

#include <fcntl.h>

#include <array>
#include <cerrno>

#include "base/unique_fd.hpp"

namespace outrigger {

std::string text_of_file(const std::string& path) {
  std::string text;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return text;
  std::array<char, 4096> part{};
  while (true) {
    const ssize_t bytes = ::read(fd.get(), part.data(), part.size());
    if (bytes > 0) text.append(part.data(), static_cast<std::size_t>(bytes));
    if (bytes == 0 || (bytes < 0 && errno != EINTR)) return text;
  }
}

}  // namespace outrigger
