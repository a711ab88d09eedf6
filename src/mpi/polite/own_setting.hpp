// MPIs' own settings that make waiting ranks yield. `outrigger run` sets them for ranks that share cores.
#pragma once

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace outrigger::mpi {

inline constexpr const char* kOpenMpiYields = "OMPI_MCA_mpi_yield_when_idle";

namespace detail {

struct OwnSetting {
  std::string_view mpi;
  int first_version;  // the first major one with the setting
  const char* variable;
};
inline constexpr std::array<OwnSetting, 3> kOwnSettings{OwnSetting{"Open MPI", 0, kOpenMpiYields},
                                                        OwnSetting{"Intel MPI", 0, "I_MPI_THREAD_YIELD"},
                                                        OwnSetting{"MPICH", 5, "MPIR_CVAR_CH4_PROGRESS_THROTTLE"}};

[[nodiscard]] inline bool is_off(std::string_view value) {
  constexpr std::array<std::string_view, 6> kOff{"", "0", "off", "no", "false", "disable"};
  for (const std::string_view off : kOff) {
    if (value == off) return true;
  }
  return false;
}

// The number after the first colon or `v`: of "MPICH Version:      5.0.2".
[[nodiscard]] inline int major_version(std::string_view text) {
  const std::size_t digit = text.find_first_of("0123456789");
  return digit == std::string_view::npos ? 0 : std::atoi(text.data() + digit);
}

}  // namespace detail

// "VARIABLE=value" if this MPI knows the variable and it is on; else empty. `mpi`, `version`: its name and the text of
// MPI_Get_library_version, terminated.
[[nodiscard]] inline std::string own_setting(std::string_view mpi, const char* version) {
  for (const detail::OwnSetting& setting : detail::kOwnSettings) {
    if (setting.mpi != mpi || detail::major_version(version) < setting.first_version) continue;
    const char* const value = std::getenv(setting.variable);
    if (value != nullptr && !detail::is_off(value)) return std::string(setting.variable) + "=" + value;
  }
  return {};
}

}  // namespace outrigger::mpi
