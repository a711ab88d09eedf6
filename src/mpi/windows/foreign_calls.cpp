#include "mpi/windows/foreign_calls.hpp"

#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <span>
#include <string_view>

#include "base/futex_lock.hpp"

namespace outrigger::mpi {
namespace {

using report::NoWindow;

constexpr std::array<std::string_view, 5> kShmem{"shmem_init", "pshmem_init", "start_pes", "shmemx_init",
                                                 "nvshmem_init"};
constexpr std::string_view kExtension = "MPIX_";
// They take no data, or this library intercepts them.
constexpr std::array<std::string_view, 5> kHarmless{"Comm_", "Query_", "GPU_query", "Grequest_", "Mutex_"};
constexpr std::string_view kIntercepted = "_init";
constexpr std::array<std::string_view, 5> kMpiFiles{"libmpi", "libpmpi", "mca_", "libmca_", "libopen-"};
constexpr std::array kProgressThreads{"MPICH_ASYNC_PROGRESS",     "MPICH_NEMESIS_ASYNC_PROGRESS",
                                      "MPIR_CVAR_ASYNC_PROGRESS", "I_MPI_ASYNC_PROGRESS",
                                      "MV2_ASYNC_PROGRESS",       "OMPI_MCA_btl_tcp_progress_thread"};
constexpr std::array<std::string_view, 6> kSwitchedOff{"", "0", "no", "off", "false", "disable"};

template <std::size_t count>
bool starts_with_any(std::string_view text, const std::array<std::string_view, count>& beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return text.starts_with(beginning); });
}

NoWindow reason_of(std::string_view function) {
  if (starts_with_any(function, kShmem)) return NoWindow::others;
  if (function.starts_with('P')) function.remove_prefix(1);
  if (!function.starts_with(kExtension)) return NoWindow::none;
  function.remove_prefix(kExtension.size());
  return starts_with_any(function, kHarmless) || function.ends_with(kIntercepted) ? NoWindow::none : NoWindow::calls;
}

bool is_of_mpi(const char* path) {
  std::string_view name(path == nullptr ? "" : path);
  name.remove_prefix(name.rfind('/') + 1);
  return starts_with_any(name, kMpiFiles);
}

// References to other objects, by the object's dynamic section.
struct References {
  const char* names = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  std::array<std::span<const ElfW(Rela)>, 2> tables;

  [[nodiscard]] NoWindow reason() const {
    if (names == nullptr || symbols == nullptr) return NoWindow::none;
    for (const auto& table : tables) {
      for (const ElfW(Rela) & one : table) {
        const ElfW(Sym)& symbol = symbols[one.r_info >> 32U];
        if (symbol.st_shndx != SHN_UNDEF || symbol.st_name == 0) continue;
        if (const NoWindow why = reason_of(names + symbol.st_name); why != NoWindow::none) return why;
      }
    }
    return NoWindow::none;
  }
};

// Pointers there are addresses, except in objects that the loader leaves alone.
template <class Type>
const Type* pointer_in(const dl_phdr_info& object, ElfW(Addr) value) {
  const ElfW(Addr) address = value < object.dlpi_addr ? object.dlpi_addr + value : value;
  return reinterpret_cast<const Type*>(address);  // NOLINT(performance-no-int-to-ptr)
}

References references_of(const dl_phdr_info& object) {
  References found;
  const std::span headers(object.dlpi_phdr, object.dlpi_phnum);
  const auto dynamic = std::ranges::find(headers, ElfW(Word){PT_DYNAMIC}, &ElfW(Phdr)::p_type);
  if (dynamic == headers.end()) return found;
  std::array<const ElfW(Rela)*, 2> begins{};
  std::array<std::size_t, 2> bytes{};
  const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(  // NOLINT(performance-no-int-to-ptr)
      object.dlpi_addr + dynamic->p_vaddr);
  for (; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_STRTAB: found.names = pointer_in<char>(object, entry->d_un.d_ptr); break;
      case DT_SYMTAB: found.symbols = pointer_in<ElfW(Sym)>(object, entry->d_un.d_ptr); break;
      case DT_JMPREL: begins[0] = pointer_in<ElfW(Rela)>(object, entry->d_un.d_ptr); break;
      case DT_RELA: begins[1] = pointer_in<ElfW(Rela)>(object, entry->d_un.d_ptr); break;
      case DT_PLTRELSZ: bytes[0] = entry->d_un.d_val; break;
      case DT_RELASZ: bytes[1] = entry->d_un.d_val; break;
      default: break;
    }
  }
  for (std::size_t i = 0; i < begins.size(); ++i) {
    if (begins[i] != nullptr) found.tables[i] = std::span(begins[i], bytes[i] / sizeof(ElfW(Rela)));
  }
  return found;
}

struct LoadedCode {
  unsigned long long loads = 0;  // libraries ever loaded, at the last look
  NoWindow why = NoWindow::none;
  bool is_new = true;
};

int look_at_object(dl_phdr_info* object, std::size_t /*bytes*/, void* data) {
  auto& look = *static_cast<LoadedCode*>(data);
  if (look.loads == object->dlpi_adds && !look.is_new) return 1;  // at the first object: all are known
  look.is_new = true;
  look.loads = object->dlpi_adds;
  if (is_of_mpi(object->dlpi_name)) return 0;
  look.why = references_of(*object).reason();
  return look.why == NoWindow::none ? 0 : 1;
}

}  // namespace

NoWindow foreign_calls() {
  static constinit FutexLock mutex;
  static constinit LoadedCode last;
  const std::scoped_lock lock(mutex);
  if (last.why != NoWindow::none) return last.why;
  ::dl_iterate_phdr(&look_at_object, &last);
  last.is_new = false;
  return last.why;
}

bool wants_progress_threads() {
  return std::ranges::any_of(kProgressThreads, [](const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr && std::ranges::find(kSwitchedOff, std::string_view(value)) == kSwitchedOff.end();
  });
}

}  // namespace outrigger::mpi
