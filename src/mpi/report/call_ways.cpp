#include "mpi/report/call_ways.hpp"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <climits>
#include <span>
#include <string>
#include <string_view>

namespace outrigger::mpi {
namespace {

using report::CodePlace;

constexpr std::size_t kMostFrames = 128;

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
    if (!found_) way_.places.site = code_place_of(code_at(origin_.caller));
    return way_;
  }

 private:
  _Unwind_Reason_Code next(_Unwind_Context* context) {
    const auto address = static_cast<std::uintptr_t>(frames().address(context));
    began_ = began_ || address == reinterpret_cast<std::uintptr_t>(origin_.caller);
    if (++frames_ > kMostFrames || address == 0) return _URC_END_OF_STACK;
    if (!began_) return _URC_NO_REASON;
    remember(static_cast<std::uintptr_t>(frames().frame(context)), address);
    return is_last(code_at(reinterpret_cast<const void*>(address))) ? _URC_END_OF_STACK : _URC_NO_REASON;
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

}  // namespace

FoundCode code_at(const void* address) {
  static const int here = 0;
  static const void* const own_base = object_at(reinterpret_cast<std::uintptr_t>(&here)).base;
  FoundCode code = object_at(reinterpret_cast<std::uintptr_t>(address) - 1);
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

bool is_in_mpi_frame(const void* place) {
  struct Search {
    std::uintptr_t place;
    const void* code = nullptr;  // of the frames that begin below, the last one's
    bool ends = false;
  };
  Search search{reinterpret_cast<std::uintptr_t>(place)};
  const auto step = [](_Unwind_Context* context, void* data) {
    Search& here = *static_cast<Search*>(data);
    here.ends = frames().frame(context) > here.place;
    if (here.ends) return _URC_END_OF_STACK;
    here.code = reinterpret_cast<const void*>(frames().address(context));
    return _URC_NO_REASON;
  };
  if (frames().works()) (void)frames().backtrace(step, &search);
  return search.ends && code_at(search.code).owner == CodeOwner::mpi;
}

CallWay way_of(const CallOrigin& origin, const FoundCode& caller) {
  if (caller.owner != CodeOwner::program) return StackWalk(origin).follow();
  CallWay direct;
  direct.places.site = code_place_of(caller);
  return direct;
}

}  // namespace outrigger::mpi
