#include "mpi/polite/library_slot.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace outrigger::mpi {
namespace {

#if defined(__aarch64__)
constexpr std::uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT;
constexpr std::uint32_t kGlobalData = R_AARCH64_GLOB_DAT;
#else
constexpr std::uint32_t kJumpSlot = R_X86_64_JUMP_SLOT;
constexpr std::uint32_t kGlobalData = R_X86_64_GLOB_DAT;
#endif

// The parts of a library's dynamic section that describe its slots.
class Relocations {
 public:
  explicit Relocations(const link_map& map) : base_(map.l_addr) {
    for (const ElfW(Dyn)* entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB: symbols_ = at<ElfW(Sym)>(entry->d_un.d_ptr); break;
        case DT_STRTAB: names_ = at<char>(entry->d_un.d_ptr); break;
        case DT_JMPREL: calls_ = at<ElfW(Rela)>(entry->d_un.d_ptr); break;
        case DT_PLTRELSZ: calls_bytes_ = entry->d_un.d_val; break;
        case DT_RELA: others_ = at<ElfW(Rela)>(entry->d_un.d_ptr); break;
        case DT_RELASZ: others_bytes_ = entry->d_un.d_val; break;
        default: break;
      }
    }
  }

  [[nodiscard]] void** slot_of(const char* function) const {
    if (symbols_ == nullptr || names_ == nullptr) return nullptr;
    void** slot = find(entries(calls_, calls_bytes_), function);
    return slot != nullptr ? slot : find(entries(others_, others_bytes_), function);
  }

 private:
  // Some C libraries relocate the section's addresses, others do not.
  template <class T>
  [[nodiscard]] const T* at(std::uintptr_t address) const {
    return reinterpret_cast<const T*>(address < base_ ? address + base_ : address);
  }
  static std::span<const ElfW(Rela)> entries(const ElfW(Rela) * first, std::size_t bytes) {
    return {first, first != nullptr ? bytes / sizeof(ElfW(Rela)) : 0};
  }
  [[nodiscard]] void** find(std::span<const ElfW(Rela)> entries, const char* function) const {
    for (const ElfW(Rela) & entry : entries) {
      const auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(entry.r_info));
      if (type != kJumpSlot && type != kGlobalData) continue;
      const ElfW(Sym)& symbol = symbols_[ELF64_R_SYM(entry.r_info)];
      if (std::strcmp(names_ + symbol.st_name, function) == 0) return reinterpret_cast<void**>(base_ + entry.r_offset);
    }
    return nullptr;
  }

  std::uintptr_t base_;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
  const ElfW(Rela) * calls_ = nullptr;
  std::size_t calls_bytes_ = 0;
  const ElfW(Rela) * others_ = nullptr;
  std::size_t others_bytes_ = 0;
};

}  // namespace

void** library_slot(const void* inside, const char* function) {
  Dl_info info{};
  link_map* map = nullptr;
  if (dladdr1(inside, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return nullptr;
  return Relocations(*map).slot_of(function);
}

bool may_call_by([[maybe_unused]] void* const* slot) {
#if defined(__x86_64__)
  return true;
#else
  Dl_info code{};
  Dl_info own{};
  return ::dladdr(*slot, &code) != 0 && ::dladdr(slot, &own) != 0 && code.dli_fbase != own.dli_fbase;
#endif
}

bool write_slot(void** slot, void* function) {
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto* page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(slot) & ~(page_bytes - 1));
  if (::mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  std::atomic_ref<void*>(*slot).store(function, std::memory_order_release);
  return true;
}

}  // namespace outrigger::mpi
