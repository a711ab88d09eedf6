// A stand-in for a network that moves memory by exported handles, on one machine: libucp with four replaced calls, in
// front of a real one named libucq (made by test_alias.py). The real library reads; the kernel writes the bytes into
// the other process's imported memory.
//
// OUTRIGGER_TEST_EXPORTS injects faults, as words `what=N`, from the N-th call of that kind in a process on:
//
//   pack      is rejected
//   import    is rejected
//   read      fails
//   odd       every second one from there on fails
//   lie       reports success without writing
//   hang      never ends
//   late      reports success, but writes only when that memory is next read over its own connection: the minimum
//             that a network guarantees
//
// OUTRIGGER_TEST_EXPORTS_LIVE names a directory with a file for each valid handle. Use of another one fails and makes a
// file `stale` there.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/ucx_exports.hpp"

namespace {

using outrigger::exports::MapParameters;
using outrigger::exports::PackParameters;
using outrigger::exports::ReleaseParameters;

constexpr std::uint64_t kMagic = 0x3154524F50584546ULL;

struct Handle {
  std::uint64_t magic = kMagic;
  std::int64_t pid = 0;
  std::uint64_t id = 0;
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
};

struct Read {
  Handle into;
  std::uint64_t to = 0;
  std::vector<std::byte> bytes;
  bool lies = false;
  bool late = false;
  ucp_request_param_t parameters{};  // of the reader
};

struct State {
  std::mutex mutex;
  std::map<ucp_mem_h, std::uint64_t> exported;  // ids
  std::map<ucp_mem_h, std::unique_ptr<Handle>> imported;
  std::list<std::unique_ptr<Read>> late;
  std::uint64_t next_id = 1;
};

State& state() {
  static auto* all = new State;
  return *all;
}

template <class Function>
Function real(const char* name, Function /*as*/) {
  static void* library = ::dlopen("libucq.so.0", RTLD_NOW | RTLD_NOLOAD);
  void* found = library != nullptr ? ::dlsym(library, name) : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "fake_exports: no %s in libucq.so.0\n", name);
    std::abort();
  }
  return reinterpret_cast<Function>(found);
}

// The first call that fails; 0: none.
unsigned from_which(const std::string& what) {
  const char* text = std::getenv("OUTRIGGER_TEST_EXPORTS");
  const std::string words = "," + std::string(text != nullptr ? text : "");
  const std::size_t place = words.find("," + what + "=");
  return place == std::string::npos ? 0 : static_cast<unsigned>(std::atoi(&words[place + what.size() + 2]));
}

bool goes_wrong(const char* what, unsigned call) {
  const unsigned first = from_which(what);
  return first != 0 && call >= first;
}

std::string live_file(const std::string& name) {
  const char* directory = std::getenv("OUTRIGGER_TEST_EXPORTS_LIVE");
  return directory != nullptr ? std::string(directory) + "/" + name : std::string();
}

std::string name_of(std::int64_t pid, std::uint64_t id) {
  return std::to_string(pid) + "-" + std::to_string(id);
}

void touch(const std::string& path) {
  const int fd = path.empty() ? -1 : ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) ::close(fd);
}

bool is_good(const Handle& handle) {
  const std::string path = live_file(name_of(handle.pid, handle.id));
  if (path.empty() || ::access(path.c_str(), F_OK) == 0) return true;
  touch(live_file("stale"));
  return false;
}

bool place(const Read& read) {
  const iovec here{const_cast<std::byte*>(read.bytes.data()), read.bytes.size()};
  const iovec there{reinterpret_cast<void*>(read.to), read.bytes.size()};
  return ::process_vm_writev(static_cast<pid_t>(read.into.pid), &here, 1, &there, 1, 0) ==
         static_cast<ssize_t>(read.bytes.size());
}

// The bytes have arrived. Returns the read's result for the caller.
ucs_status_t came(std::unique_ptr<Read> read, ucs_status_t status) {
  if (status != UCS_OK || read->lies) return status;
  if (read->late) {
    const std::lock_guard lock(state().mutex);
    state().late.push_back(std::move(read));
    return UCS_OK;
  }
  return place(*read) ? UCS_OK : UCS_ERR_IO_ERROR;
}

void on_came(void* request, ucs_status_t status, void* argument) {
  std::unique_ptr<Read> read(static_cast<Read*>(argument));
  const ucp_request_param_t parameters = read->parameters;
  parameters.cb.send(request, came(std::move(read), status), parameters.user_data);
}

void place_late(std::uint64_t read_address) {
  const std::lock_guard lock(state().mutex);
  for (auto item = state().late.begin(); item != state().late.end();) {
    const Handle& into = (*item)->into;
    const bool of_it = read_address >= into.base && read_address < into.base + into.bytes;
    if (of_it) (void)place(**item);
    item = of_it ? state().late.erase(item) : std::next(item);
  }
}

const Handle* imported(const ucp_request_param_t* parameters) {
  if ((parameters->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH) == 0) return nullptr;
  const std::lock_guard lock(state().mutex);
  const auto found = state().imported.find(parameters->memh);
  return found == state().imported.end() ? nullptr : found->second.get();
}

}  // namespace

extern "C" {

// The real library needs hardware for the feature.
ucs_status_t ucp_init_version(unsigned major, unsigned minor, const ucp_params_t* parameters,
                              const ucp_config_t* config, ucp_context_h* context) {
  ucp_params_t without = *parameters;
  without.features &= ~outrigger::exports::kFeature;
  return real("ucp_init_version", &ucp_init_version)(major, minor, &without, config, context);
}

// By their linker names, as headers may declare them with other types.
ucs_status_t fake_memh_pack(ucp_mem_h memory, const PackParameters* parameters, void** buffer,
                            std::size_t* bytes) __asm__("ucp_memh_pack");
void fake_memh_buffer_release(void* buffer, const ReleaseParameters* parameters) __asm__("ucp_memh_buffer_release");

ucs_status_t fake_memh_pack(ucp_mem_h memory, const PackParameters* parameters, void** buffer, std::size_t* bytes) {
  static std::atomic<unsigned> calls{0};
  const bool wanted = (parameters->field_mask & outrigger::exports::kPackFieldFlags) != 0 &&
                      (parameters->flags & outrigger::exports::kPackExport) != 0;
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  if (!wanted || goes_wrong("pack", ++calls) || ucp_mem_query(memory, &attributes) != UCS_OK) {
    return UCS_ERR_UNSUPPORTED;
  }
  Handle handle;
  handle.pid = ::getpid();
  handle.base = reinterpret_cast<std::uintptr_t>(attributes.address);
  handle.bytes = attributes.length;
  const std::lock_guard lock(state().mutex);
  handle.id = state().next_id++;
  state().exported[memory] = handle.id;
  touch(live_file(name_of(handle.pid, handle.id)));
  *buffer = std::malloc(sizeof(handle));
  *bytes = sizeof(handle);
  std::memcpy(*buffer, &handle, sizeof(handle));
  return UCS_OK;
}

void fake_memh_buffer_release(void* buffer, const ReleaseParameters* /*parameters*/) {
  std::free(buffer);
}

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t* parameters, ucp_mem_h* memory) {
  static std::atomic<unsigned> calls{0};
  if ((parameters->field_mask & outrigger::exports::kMapFieldExported) == 0) {
    return real("ucp_mem_map", &ucp_mem_map)(context, parameters, memory);
  }
  auto handle = std::make_unique<Handle>();
  std::memcpy(handle.get(), reinterpret_cast<const MapParameters*>(parameters)->exported_memh_buffer, sizeof(Handle));
  if (handle->magic != kMagic || goes_wrong("import", ++calls)) return UCS_ERR_UNREACHABLE;
  if (!is_good(*handle)) return UCS_ERR_UNREACHABLE;
  *memory = reinterpret_cast<ucp_mem_h>(handle.get());
  const std::lock_guard lock(state().mutex);
  state().imported.emplace(*memory, std::move(handle));
  return UCS_OK;
}

ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h memory) {
  {
    const std::lock_guard lock(state().mutex);
    if (state().imported.erase(memory) != 0) return UCS_OK;
    const auto exported = state().exported.find(memory);
    if (exported != state().exported.end()) {
      const std::string path = live_file(name_of(::getpid(), exported->second));
      if (!path.empty()) (void)::unlink(path.c_str());
      state().exported.erase(exported);
    }
  }
  return real("ucp_mem_unmap", &ucp_mem_unmap)(context, memory);
}

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h endpoint, void* buffer, std::size_t count, std::uint64_t address, ucp_rkey_h key,
                             const ucp_request_param_t* parameters) {
  static std::atomic<unsigned> calls{0};
  const auto real_get = real("ucp_get_nbx", &ucp_get_nbx);
  const Handle* into = imported(parameters);
  if (into == nullptr) {
    place_late(address);
    return real_get(endpoint, buffer, count, address, key, parameters);
  }
  const unsigned call = ++calls;
  const std::uint64_t to = reinterpret_cast<std::uintptr_t>(buffer);
  const bool inside = to >= into->base && count <= into->bytes && to - into->base <= into->bytes - count;
  const bool odd = goes_wrong("odd", call) && (call - from_which("odd")) % 2 == 0;
  if (!inside || !is_good(*into) || odd || goes_wrong("read", call)) return UCS_STATUS_PTR(UCS_ERR_IO_ERROR);
  auto read = std::make_unique<Read>();
  read->into = *into;
  read->to = to;
  read->bytes.resize(count);
  read->lies = goes_wrong("lie", call);
  read->late = goes_wrong("late", call);
  read->parameters = *parameters;
  ucp_request_param_t mine = *parameters;
  mine.op_attr_mask &= ~static_cast<std::uint32_t>(UCP_OP_ATTR_FIELD_MEMH);
  mine.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  if (goes_wrong("hang", call)) {
    // A request that never completes: the caller gets one that stays.
    mine.cb.send = [](void* request, ucs_status_t, void*) { (void)request; };
    static auto* kept = new std::list<std::unique_ptr<Read>>;
    kept->push_back(std::move(read));
    mine.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    return real_get(endpoint, kept->back()->bytes.data(), count, address, key, &mine);
  }
  mine.cb.send = on_came;
  mine.user_data = read.get();
  std::byte* room = read->bytes.data();
  const ucs_status_ptr_t request = real_get(endpoint, room, count, address, key, &mine);
  if (UCS_PTR_IS_PTR(request)) {
    (void)read.release();  // on_came()
    return request;
  }
  return UCS_STATUS_PTR(came(std::move(read), UCS_PTR_STATUS(request)));
}

}  // extern "C"
