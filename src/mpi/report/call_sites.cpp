#include "mpi/report/call_sites.hpp"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/futex_lock.hpp"
#include "base/stack.hpp"
#include "mpi/report/present_call.hpp"

namespace outrigger::mpi {
namespace {

using report::CodePlace;
using report::LedgerRow;

constexpr std::size_t kMostFrames = 128;
constexpr std::size_t kMostSlots = 32;
constexpr unsigned kKnownSitesLog2 = 8;
constexpr std::size_t kKnownSites = std::size_t{1} << kKnownSitesLog2;

// A place on the stack where a return address is.
struct ReturnSlot {
  const std::uintptr_t* place = nullptr;
  std::uintptr_t address = 0;
};

struct KnownSite {
  CallOrigin origin;
  std::size_t kind = 0;
  bool waits = false;
  std::uint32_t slot_count = 0;
  std::array<ReturnSlot, kMostSlots> slots;
  LedgerRow* row = nullptr;
};

// A way into the MPI, from the caller outwards.
struct CallWay {
  CallPlaces places;
  std::uint32_t slot_count = 0;
  std::array<ReturnSlot, kMostSlots> slots;
  bool repeats = true;  // slots tell whether another call comes the same way
};

constinit FutexLock sites_mutex;
constinit std::array<KnownSite, kKnownSites> known_sites;  // under the lock

enum class CodeOwner : std::uint8_t { unknown, program, library, mpi };
struct FoundCode {
  CodeOwner owner = CodeOwner::unknown;
  const void* base = nullptr;  // the same for all code of an object
  std::uint64_t offset = 0;    // of the address
  const char* path = nullptr;
};

bool is_mpi(const char* path) {
  std::string_view name(path == nullptr ? "" : path);
  name.remove_prefix(name.rfind('/') + 1);
  return name.starts_with("libmpi") || name.starts_with("mca_") || name.starts_with("libmca_") ||
         name.starts_with("libopen-") || name.starts_with("libpmpi");
}

// The loaded object that has this address. Unlike dladdr() it does not search the object's symbols.
FoundCode object_at(std::uintptr_t address) {
  struct Search {
    std::uintptr_t address;
    FoundCode found;
  } search{address, {}};
  const auto look = [](dl_phdr_info* object, std::size_t /*bytes*/, void* data) {
    auto& wanted = *static_cast<Search*>(data);
    const std::span headers(object->dlpi_phdr, object->dlpi_phnum);
    const bool is_it = std::ranges::any_of(headers, [&](const ElfW(Phdr) & header) {
      return header.p_type == PT_LOAD && wanted.address - object->dlpi_addr - header.p_vaddr < header.p_memsz;
    });
    if (!is_it) return 0;
    const bool is_program = object->dlpi_name[0] == '\0';
    wanted.found = {is_program ? CodeOwner::program : CodeOwner::library, object->dlpi_phdr,
                    wanted.address - object->dlpi_addr, object->dlpi_name};
    return 1;
  };
  (void)::dl_iterate_phdr(look, &search);
  return search.found;
}

// `address`: a return address.
FoundCode code_at(std::uintptr_t address) {
  static const int here = 0;
  static const void* const own_base = object_at(reinterpret_cast<std::uintptr_t>(&here)).base;
  FoundCode code = object_at(address - 1);
  if (code.base == nullptr) return {};
  ++code.offset;
  if (code.base == own_base || is_mpi(code.path)) code.owner = CodeOwner::mpi;
  return code;
}

CodePlace code_place_of(const FoundCode& code) {
  static const std::string program = [] {
    std::array<char, PATH_MAX> path{};
    const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
    return std::string(path.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  }();
  if (code.path == nullptr) return {};
  const std::uint32_t object = object_number(code.owner == CodeOwner::program ? program.c_str() : code.path);
  return object == 0 ? CodePlace{} : CodePlace{code.offset, object};
}

// The stack of this thread. Addresses in it can be read as long as the thread lives.
bool is_on_this_stack(const void* low, const void* high) {
  struct Stack {
    const char* low = nullptr;
    const char* high = nullptr;
  };
  [[gnu::tls_model("initial-exec")]] constinit static thread_local Stack stack;
  if (stack.high == nullptr) {
    pthread_attr_t attributes;
    if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return false;
    void* base = nullptr;
    std::size_t bytes = 0;
    if (::pthread_attr_getstack(&attributes, &base, &bytes) == 0) {
      stack = {static_cast<const char*>(base), static_cast<const char*>(base) + bytes};
    }
    ::pthread_attr_destroy(&attributes);
  }
  return stack.low <= low && low <= high && high < stack.high;
}

// The process's unwinder (native/unwinding.cpp says why).
struct Frames {
  decltype(&::_Unwind_Backtrace) backtrace = nullptr;
  decltype(&::_Unwind_GetIP) address = nullptr;
  decltype(&::_Unwind_GetCFA) frame = nullptr;
  [[nodiscard]] bool works() const { return backtrace != nullptr && address != nullptr && frame != nullptr; }
};

const Frames& frames() {
  static const Frames found = [] {
    Frames one;
    void* library = ::dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL);  // never closed
    if (library == nullptr) return one;
    one.backtrace = reinterpret_cast<decltype(one.backtrace)>(::dlsym(library, "_Unwind_Backtrace"));
    one.address = reinterpret_cast<decltype(one.address)>(::dlsym(library, "_Unwind_GetIP"));
    one.frame = reinterpret_cast<decltype(one.frame)>(::dlsym(library, "_Unwind_GetCFA"));
    return one;
  }();
  return found;
}

// Follows the frames outwards, from the one that has called this library.
class StackWalk {
 public:
  explicit StackWalk(const CallOrigin& origin) : origin_(origin) {}

  [[nodiscard]] CallWay follow() {
    const auto step = [](_Unwind_Context* context, void* walk) { return static_cast<StackWalk*>(walk)->next(context); };
    if (frames().works()) (void)frames().backtrace(step, this);
    if (!found_) way_.places.site = code_place_of(code_at(reinterpret_cast<std::uintptr_t>(origin_.caller)));
    return way_;
  }

 private:
  _Unwind_Reason_Code next(_Unwind_Context* context) {
    const auto address = static_cast<std::uintptr_t>(frames().address(context));
    began_ = began_ || address == reinterpret_cast<std::uintptr_t>(origin_.caller);
    if (++frames_ > kMostFrames || address == 0) return _URC_END_OF_STACK;
    if (!began_) return _URC_NO_REASON;
    remember(static_cast<std::uintptr_t>(frames().frame(context)), address);
    return is_last(code_at(address)) ? _URC_END_OF_STACK : _URC_NO_REASON;
  }

  bool is_last(const FoundCode& code) {
    if (code.owner == CodeOwner::mpi) return false;
    if (!found_) {
      found_ = true;
      way_.places.site = code_place_of(code);
      base_ = code.base;
      return code.owner == CodeOwner::program;
    }
    if (code.base == base_ && code.owner != CodeOwner::unknown) return false;
    way_.places.caller = code_place_of(code);
    return true;
  }

  // The return address into a frame is below the frame, if the processor's calls put it there.
  void remember(std::uintptr_t frame, std::uintptr_t address) {
#if defined(__x86_64__)
    const auto* place = reinterpret_cast<const std::uintptr_t*>(frame - sizeof(address));
    if (way_.slot_count < kMostSlots && is_on_this_stack(origin_.depth, place) && *place == address) {
      way_.slots[way_.slot_count++] = {place, address};
      return;
    }
#endif
    static_cast<void>(frame);
    static_cast<void>(address);
    way_.repeats = false;
  }

  CallOrigin origin_;
  CallWay way_;
  const void* base_ = nullptr;  // of the site's library
  std::size_t frames_ = 0;
  bool began_ = false;
  bool found_ = false;
};

CallWay way_of(const CallOrigin& origin, const FoundCode& caller) {
  if (caller.owner != CodeOwner::program) return StackWalk(origin).follow();
  CallWay direct;
  direct.places.site = code_place_of(caller);
  return direct;
}

bool is_way_of(const KnownSite& known, const CallOrigin& origin) {
  if (known.slot_count == 0) return true;
  if (known.origin.depth != origin.depth || !is_on_this_stack(origin.depth, known.slots[known.slot_count - 1].place)) {
    return false;
  }
  return std::all_of(known.slots.begin(), known.slots.begin() + known.slot_count,
                     [](const ReturnSlot& slot) { return *slot.place == slot.address; });
}

LedgerRow* row_of_places(CallKind kind, bool waits, const CallPlaces& places) {
  using Key = std::tuple<std::size_t, bool, std::uint32_t, std::uint64_t, std::uint32_t, std::uint64_t>;
  static auto* rows = new std::map<Key, LedgerRow*>;  // until the end of the process
  const auto [place, is_new] = rows->try_emplace(
      Key{index_of(kind), waits, places.site.object, places.site.offset, places.caller.object, places.caller.offset});
  if (is_new) place->second = new_site_row(kind, waits, places);
  return place->second;
}

std::size_t site_entry_of(const CallOrigin& origin, std::size_t kind, bool waits, bool with_depth) {
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15ULL;
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(origin.caller) + 2 * kind + (waits ? 1 : 0);
  hash *= kMix;
  if (with_depth) hash = (hash ^ reinterpret_cast<std::uintptr_t>(origin.depth)) * kMix;
  return hash >> (64U - kKnownSitesLog2);
}

LedgerRow* find_row(CallKind kind, bool waits, const CallOrigin& origin) {
  const std::size_t index = index_of(kind);
  std::unique_lock lock(sites_mutex);
  for (const bool with_depth : {false, true}) {
    const KnownSite& known = known_sites[site_entry_of(origin, index, waits, with_depth)];
    const bool is_it = known.row != nullptr && known.origin.caller == origin.caller && known.kind == index &&
                       known.waits == waits && (known.slot_count != 0) == with_depth;
    if (is_it && is_way_of(known, origin)) return known.row;
  }
  // The loader has locks of its own, and runs code of the program under them.
  lock.unlock();
  const CallWay way = way_of(origin, code_at(reinterpret_cast<std::uintptr_t>(origin.caller)));
  lock.lock();
  LedgerRow* row = row_of_places(kind, waits, way.places);
  if (way.repeats && row != nullptr) {
    known_sites[site_entry_of(origin, index, waits, way.slot_count != 0)] =
        KnownSite{origin, index, waits, way.slot_count, way.slots, row};
  }
  return row;
}

[[gnu::tls_model("initial-exec")]] constinit thread_local CompletionOrigin* completion = nullptr;
[[gnu::tls_model("initial-exec")]] constinit thread_local StartOrigin* started_by = nullptr;

}  // namespace

LedgerRow* site_row(CallKind kind, const CallOrigin& origin) {
  return find_row(kind, false, origin);
}

LedgerRow* wait_site_row(CallKind kind, const CallOrigin& origin) {
  return find_row(kind, true, origin);
}

// A thread has one: completion calls inside another, by a callback, belong to the outer one.
void CompletionOrigin::begin() {
  is_outer_ = !is_above(completion, this);
  if (is_outer_) completion = this;
}

void CompletionOrigin::end() const {
  completion = nullptr;
  if (entered_) leave_call(monotonic_ns());
}

bool CompletionOrigin::is_here() {
  return is_above(completion, __builtin_frame_address(0));
}

bool CompletionOrigin::has_counted() {
  return is_here() && completion->has_counted_;
}

LedgerRow* CompletionOrigin::site_of(const LedgerRow& row) {
  if (site_ == nullptr || kind_ != row.kind) {
    kind_ = row.kind;
    site_ = wait_site_row(call_kind_at(kind_), origin_);
  }
  return site_;
}

void CompletionOrigin::waits_for(const LedgerRow& row, std::uint64_t ordinal) {
  if (!is_above(completion, __builtin_frame_address(0))) return;
  completion->entered_ = true;
  const LedgerRow* site = completion->site_of(row);
  enter_call({row, site, true, ordinal}, monotonic_ns());
}

LedgerRow* CompletionOrigin::row_for(CallKind kind) {
  if (!is_above(completion, __builtin_frame_address(0))) return nullptr;
  return wait_site_row(kind, completion->origin_);
}

void CompletionOrigin::add_wait(const LedgerRow& row, std::int64_t spent_ns) {
  if (!is_above(completion, __builtin_frame_address(0))) return;
  completion->has_counted_ = true;
  LedgerRow* site = completion->site_of(row);
  if (site == nullptr) return;
  change_row(*site, [&](LedgerRow& counted) {
    ++counted.calls;
    counted.call_ns += spent_ns;
  });
}

void StartOrigin::begin() {
  begun_ = true;
  outer_ = std::exchange(started_by, this);
}

void StartOrigin::end() const {
  started_by = outer_;
}

LedgerRow* StartOrigin::site_of(const LedgerRow& row) {
  return is_above(started_by, __builtin_frame_address(0)) ? site_row(call_kind_at(row.kind), started_by->origin_)
                                                          : nullptr;
}

}  // namespace outrigger::mpi
