#include "mpi/native/real.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include "mpi/native/constants.hpp"
#include "mpi/native/message.hpp"
#include "protocol/options/libraries.hpp"

namespace outrigger::mpi {
namespace {

#if defined(OUTRIGGER_ABI_OPENMPI)
constexpr std::string_view kAbi = "openmpi";
#elif defined(OUTRIGGER_ABI_MPICH)
constexpr std::string_view kAbi = "mpich";
#else
constexpr std::string_view kAbi = "mpiabi";
#endif

constexpr std::array kCallNames{
#define OUTRIGGER_NAME(name, ...) "PMPI_" #name,  // without its first letter the other name
    OUTRIGGER_INTERCEPTED(OUTRIGGER_NAME)
#undef OUTRIGGER_NAME
};

struct Library {
  void* handle = nullptr;
  const char* name = nullptr;
  bool matches = false;
};

constinit std::mutex resolve_mutex;
constinit std::atomic<bool> resolved = false;
constinit Library loaded;
constinit std::atomic<bool> tools_return = false;

// The program's libmpi, of this library's ABI or of another.
Library loaded_library(bool own_abi) {
  for (const LibraryRow& row : kLibraries) {
    if ((row.abi == kAbi) != own_abi) continue;
    for (const char* name : row.sonames) {
      if (name == nullptr) continue;
      if (void* handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) return {.handle = handle, .name = name};
    }
  }
  return {};
}

// Looks a name up in the MPI library and its dependencies, never in this library.
void* symbol(const char* name) {
  return loaded.handle != nullptr ? dlsym(loaded.handle, name) : dlsym(RTLD_NEXT, name);
}

// A call by its name, "PMPI_X". Open MPI 4.1 has MPI 4's persistent collectives as MPIX_X.
void* function(const char* name) {
  void* address = symbol(name);
  if (address != nullptr || kAbi != "openmpi") return address;
  constexpr std::string_view kPmpi = "PMPI_";
  return symbol(("PMPIX_" + std::string(name + kPmpi.size())).c_str());
}

// The next definition after this library's, unless it is libmpi's own. nullptr if libmpi was loaded privately.
void* next_of_tool(const char* name) {
  if (loaded.handle == nullptr) return nullptr;
  void* next = dlsym(RTLD_NEXT, name);
  return next == dlsym(loaded.handle, name) ? nullptr : next;
}

template <class Function>
bool resolve_typed(const char* name, Function& function) {
  function = reinterpret_cast<Function>(symbol(name));
  return function != nullptr;
}

// Before MPI can be asked: launchers tell a process its rank in the environment. At worst every rank prints the line.
bool speaks_for_all() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    const char* rank = std::getenv(name);
    if (rank != nullptr && std::strcmp(rank, "0") != 0) return false;
  }
  return true;
}

const char* first_missing(Real& table) {
#define OUTRIGGER_RESOLVE(name) \
  if (!resolve_typed("PMPI_" #name, table.name)) return "PMPI_" #name;
  OUTRIGGER_USED(OUTRIGGER_RESOLVE)
  OUTRIGGER_USED_CONVERSIONS(OUTRIGGER_RESOLVE)
  OUTRIGGER_INTERCEPTED_MPI3(OUTRIGGER_RESOLVE)
#undef OUTRIGGER_RESOLVE
#if OUTRIGGER_MPI4
#define OUTRIGGER_RESOLVE_IF_THERE(name) static_cast<void>(resolve_typed("PMPI_" #name, table.name));
  OUTRIGGER_INTERCEPTED_MPI4(OUTRIGGER_RESOLVE_IF_THERE)
  OUTRIGGER_USED_MPI4(OUTRIGGER_RESOLVE_IF_THERE)
#undef OUTRIGGER_RESOLVE_IF_THERE
#endif
  return nullptr;
}

constexpr std::size_t kVersionText = 8192;  // the largest MPI_MAX_LIBRARY_VERSION_STRING of all ABIs

// Name of the loaded MPI from its version text: MPICH's ABI and the standard one have several MPIs.
const char* name_of_mpi() {
  static std::array<char, kVersionText> text{};
  int length = 0;
  if (detail::table.Get_library_version(text.data(), &length) != MPI_SUCCESS) return kAbiName;
  const std::string_view version(text.data());
  if (version.starts_with("Open MPI")) return "Open MPI";
  if (version.starts_with("Intel")) return "Intel MPI";
  return version.starts_with("MPICH") ? "MPICH" : kAbiName;
}

void resolve_all() {
  const std::scoped_lock lock(resolve_mutex);
  if (resolved.load(std::memory_order_relaxed)) return;
  loaded = loaded_library(true);
  loaded.matches = loaded.handle != nullptr;
  if (!loaded.matches) {
    loaded = loaded_library(false);
    if (speaks_for_all()) {
      print("this library is for %s, the program uses another MPI (%s): running natively", kAbiName,
            loaded.name != nullptr ? loaded.name : "an unknown libmpi");
    }
  }
  for (std::size_t i = 0; i < kCallNames.size(); ++i) {
    detail::addresses[i].store(function(kCallNames[i]), std::memory_order_release);
    detail::tools[i].address.store(next_of_tool(kCallNames[i] + 1), std::memory_order_release);
  }
  if (loaded.matches) {
    if (const char* missing = first_missing(detail::table)) {
      print("this %s has no %s: running natively", kAbiName, missing);
      loaded.matches = false;
    }
  }
  if (loaded.matches) detail::fill_constants(name_of_mpi());
  resolved.store(true, std::memory_order_release);
}

}  // namespace

namespace detail {

constinit std::array<std::atomic<void*>, static_cast<std::size_t>(Call::count)> addresses{};
constinit Real table{};
constinit std::array<Tool, static_cast<std::size_t>(Call::count)> tools{};

void* resolve(Call call) {
  resolve_all();
  const auto index = static_cast<std::size_t>(call);
  void* address = addresses[index].load(std::memory_order_acquire);
  if (address == nullptr) {
    print("%s was called, but no loaded MPI library defines it", kCallNames[index]);
    std::abort();
  }
  return address;
}

}  // namespace detail

void* tool_behind(Call call) {
  if (!resolved.load(std::memory_order_acquire)) resolve_all();
  return const_cast<void*>(detail::tools[static_cast<std::size_t>(call)].address.load(std::memory_order_acquire));
}

bool tools_come_back() {
  return tools_return.load(std::memory_order_relaxed);
}

void trust_tools() {
  tools_return.store(true, std::memory_order_relaxed);
}

bool provided(Call call) {
  if (!resolved.load(std::memory_order_acquire)) resolve_all();
  return detail::addresses[static_cast<std::size_t>(call)].load(std::memory_order_acquire) != nullptr;
}

bool abi_matches() {
  if (!resolved.load(std::memory_order_acquire)) resolve_all();
  return loaded.matches;
}

namespace {

void* found(void* address, const char* name) {
  if (address != nullptr) return address;
  print("the loaded %s has no symbol %s", kAbiName, name);
  std::abort();
}

}  // namespace

void* data_symbol_if_there(const char* name) {
  // An executable may hold its own copy of a library's data, which the library then uses: it comes first in the global
  // scope. If the library was loaded privately there is no such copy.
  void* address = dlsym(RTLD_DEFAULT, name);
  return address != nullptr ? address : symbol(name);
}

void* function_if_there(const char* name) {
  return symbol(name);
}

void* data_symbol(const char* name) {
  return found(data_symbol_if_there(name), name);
}

void* callers_symbol(const char* name, const void* return_address) {
  Dl_info caller{};
  void* handle = nullptr;
  if (dladdr(return_address, &caller) != 0) handle = dlopen(caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  void* address = handle != nullptr ? dlsym(handle, name) : nullptr;
  return found(address != nullptr ? address : symbol(name), name);
}

}  // namespace outrigger::mpi
