// UCX's exported memory handles (1.15 and later) for builds with older headers: looked up at run time in the process's
// copy of the library. Structs and values are those of ucp/api/ucp.h of UCX 1.15 to 1.22. They stay valid: UCX adds
// fields only at the end, and a mask shows which are set.
//
// Needs UCX's headers; any thread.
#pragma once

#include <dlfcn.h>
#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace outrigger::exports {

inline constexpr std::uint64_t kFeature = 1U << 7;           // UCP_FEATURE_EXPORTED_MEMH
inline constexpr std::uint64_t kMapFieldExported = 1U << 5;  // UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER
inline constexpr std::uint64_t kPackFieldFlags = 1U << 0;    // UCP_MEMH_PACK_PARAM_FIELD_FLAGS
inline constexpr std::uint64_t kPackExport = 1U << 0;        // UCP_MEMH_PACK_FLAG_EXPORT

// ucp_mem_map_params_t
struct MapParameters {
  std::uint64_t field_mask = 0;
  void* address = nullptr;
  std::size_t length = 0;
  unsigned flags = 0;
  unsigned prot = 0;
  ucs_memory_type_t memory_type = UCS_MEMORY_TYPE_HOST;
  const void* exported_memh_buffer = nullptr;
};
static_assert(offsetof(MapParameters, field_mask) == offsetof(ucp_mem_map_params_t, field_mask));
static_assert(offsetof(MapParameters, memory_type) == offsetof(ucp_mem_map_params_t, memory_type));

// ucp_memh_pack_params_t
struct PackParameters {
  std::uint64_t field_mask = 0;
  std::uint64_t flags = 0;
};

// ucp_memh_buffer_release_params_t
struct ReleaseParameters {
  std::uint64_t field_mask = 0;
};

#if UCP_API_VERSION >= UCP_VERSION(1, 15)
static_assert(kFeature == UCP_FEATURE_EXPORTED_MEMH);
static_assert(kMapFieldExported == UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER);
static_assert(kPackFieldFlags == UCP_MEMH_PACK_PARAM_FIELD_FLAGS && kPackExport == UCP_MEMH_PACK_FLAG_EXPORT);
static_assert(offsetof(MapParameters, exported_memh_buffer) == offsetof(ucp_mem_map_params_t, exported_memh_buffer));
static_assert(sizeof(PackParameters) == sizeof(ucp_memh_pack_params_t));
static_assert(sizeof(ReleaseParameters) == sizeof(ucp_memh_buffer_release_params_t));
#endif

struct Calls {
  ucs_status_t (*memh_pack)(ucp_mem_h memory, const PackParameters* parameters, void** buffer, std::size_t* bytes);
  void (*memh_buffer_release)(void* buffer, const ReleaseParameters* parameters);
  explicit operator bool() const { return memh_pack != nullptr && memh_buffer_release != nullptr; }
};

// `library`: for dlsym(). All nullptr if UCX is older: 1.14 exports, but does not import.
[[nodiscard]] inline Calls find_calls(void* library) {
  constexpr unsigned kMajor = 1;
  constexpr unsigned kMinor = 15;
  const auto get_version = reinterpret_cast<decltype(&ucp_get_version)>(::dlsym(library, "ucp_get_version"));
  if (get_version == nullptr) return {};
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  get_version(&major, &minor, &release);
  if (major < kMajor || (major == kMajor && minor < kMinor)) return {};
  return Calls{reinterpret_cast<decltype(Calls::memh_pack)>(::dlsym(library, "ucp_memh_pack")),
               reinterpret_cast<decltype(Calls::memh_buffer_release)>(::dlsym(library, "ucp_memh_buffer_release"))};
}

// The exported handle of registered memory; empty on failure.
[[nodiscard]] inline std::vector<std::byte> pack(const Calls& calls, ucp_mem_h memory) {
  if (!calls) return {};
  const PackParameters parameters{kPackFieldFlags, kPackExport};
  void* buffer = nullptr;
  std::size_t bytes = 0;
  if (calls.memh_pack(memory, &parameters, &buffer, &bytes) != UCS_OK) return {};
  const auto* first = static_cast<const std::byte*>(buffer);
  std::vector<std::byte> packed(first, first + bytes);
  const ReleaseParameters none{};
  calls.memh_buffer_release(buffer, &none);
  return packed;
}

}  // namespace outrigger::exports
