#include "service/placement/needed_libraries.hpp"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>

namespace outrigger::service {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Entry = ElfW(Dyn);

// More than any program has; larger files are damaged, or not programs.
constexpr std::size_t kMaxSegments = 1024;
constexpr std::size_t kMaxDynamicBytes = 1U << 20U;
constexpr std::size_t kMaxNameBytes = 1024;

constexpr std::array<std::string_view, 8> kFirst = {"libasan.so",       "libhwasan.so",     "libtsan.so",
                                                    "liblsan.so",       "libclang_rt.asan", "libclang_rt.hwasan",
                                                    "libclang_rt.tsan", "libclang_rt.lsan"};

class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : file_(path, std::ios::binary) {}

  template <class T>
  [[nodiscard]] bool read(std::uint64_t offset, std::span<T> into) {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    file_.read(reinterpret_cast<char*>(into.data()), static_cast<std::streamsize>(into.size_bytes()));
    return file_.good();
  }

  [[nodiscard]] std::string text(std::uint64_t offset) {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    std::string found;
    for (char c = 0; found.size() < kMaxNameBytes && file_.get(c) && c != '\0';) found += c;
    return found;
  }

 private:
  std::ifstream file_;
};

bool is_native(const Header& header) {
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  constexpr unsigned char kOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == kClass &&
         header.e_ident[EI_DATA] == kOrder && header.e_phentsize == sizeof(Segment);
}

std::vector<Segment> segments_of(ElfFile& file) {
  Header header{};
  if (!file.read(0, std::span(&header, 1)) || !is_native(header) || header.e_phnum > kMaxSegments) return {};
  std::vector<Segment> segments(header.e_phnum);
  if (!file.read(header.e_phoff, std::span(segments))) return {};
  return segments;
}

std::vector<Entry> dynamic_entries(ElfFile& file, std::span<const Segment> segments) {
  for (const Segment& segment : segments) {
    if (segment.p_type != PT_DYNAMIC || segment.p_filesz > kMaxDynamicBytes) continue;
    std::vector<Entry> entries(segment.p_filesz / sizeof(Entry));
    if (file.read(segment.p_offset, std::span(entries))) return entries;
  }
  return {};
}

std::optional<std::uint64_t> offset_of(std::span<const Segment> segments, std::uint64_t address) {
  for (const Segment& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
      return address - segment.p_vaddr + segment.p_offset;
    }
  }
  return std::nullopt;
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

void append(std::string& list, std::string_view entry) {
  if (entry.empty()) return;
  if (!list.empty()) list += ':';
  list += entry;
}

std::vector<std::string> entries_of(std::string_view list) {
  std::vector<std::string> entries;
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find_first_of(": "));  // ld.so(8)
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    if (!entry.empty()) entries.emplace_back(entry);
  }
  return entries;
}

}  // namespace

std::vector<std::string> needed_libraries(const std::string& path) {
  ElfFile file(path);
  const std::vector<Segment> segments = segments_of(file);
  const std::vector<Entry> entries = dynamic_entries(file, segments);
  const auto table = std::find_if(entries.begin(), entries.end(), [](const Entry& e) { return e.d_tag == DT_STRTAB; });
  if (table == entries.end()) return {};
  const std::optional<std::uint64_t> names = offset_of(segments, table->d_un.d_ptr);
  if (!names) return {};
  std::vector<std::string> found;
  for (const Entry& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED) found.push_back(file.text(*names + entry.d_un.d_val));
  }
  return found;
}

std::string program_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  return program_on_path(name, path == nullptr ? "/bin:/usr/bin" : path);
}

std::string program_on_path(const std::string& name, std::string_view path) {
  if (name.find('/') != std::string::npos) return name;
  while (true) {
    const std::string_view directory = path.substr(0, path.find(':'));
    std::string candidate = directory.empty() ? name : std::string(directory) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    if (directory.size() == path.size()) return {};
    path.remove_prefix(directory.size() + 1);
  }
}

bool must_be_first(std::string_view library) {
  const std::string_view file = file_name(library);
  return std::any_of(kFirst.begin(), kFirst.end(), [file](std::string_view name) { return file.starts_with(name); });
}

std::string preload_list(const std::string& ours, const std::string& present, const std::vector<std::string>& needed) {
  std::string list;
  // By name alone: the loader finds it where it finds the program's own library, and treats both as the same.
  for (const std::string& library : needed) {
    if (must_be_first(library)) append(list, library);
  }
  for (const std::string& entry : entries_of(present)) {
    if (must_be_first(entry)) append(list, entry);
  }
  append(list, ours);
  append(list, present);
  return list;
}

}  // namespace outrigger::service
