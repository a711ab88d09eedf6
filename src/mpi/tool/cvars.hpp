// Our control variables (MPI_T): the settings that are environment variables (protocol/options/settings.hpp), by the
// same names. They are texts, and what stands there when MPI_Init looks at them counts; until then a tool may write
// them.
#pragma once

#include <span>

#include "mpi/tool/indices.hpp"
#include "protocol/options/settings.hpp"

namespace outrigger::mpi {

// What `outrigger run` or tests set, which may be secrets, is no variable, nor is what the library does not read.
[[nodiscard]] std::span<const SettingRow* const> cvar_rows();
[[nodiscard]] int cvar_count();
[[nodiscard]] Indices& cvar_indices();

}  // namespace outrigger::mpi
