// MPI_T_cvar_get_num, MPI_T_cvar_get_info, MPI_T_cvar_handle_alloc, MPI_T_cvar_read and the like.
#include "mpi/tool/cvars.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "mpi/job/standing.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/tool/texts.hpp"

namespace outrigger::mpi {
namespace {

constexpr std::size_t kSettingBytes = 4096;  // of a value, with its end

int see_native_cvars(int& count) {
  const int code = native_count(Call::T_cvar_get_num, count);
  if (code == MPI_SUCCESS) cvar_indices().see_native(count);
  return code;
}

// Our handles are addresses of the variable's place in the table. nullptr: not ours.
const SettingRow* row_of(MPI_T_cvar_handle handle) {
  const auto rows = cvar_rows();
  const auto address = reinterpret_cast<std::uintptr_t>(handle);
  const auto first = reinterpret_cast<std::uintptr_t>(rows.data());
  if (address < first || address >= first + rows.size_bytes()) return nullptr;
  return *reinterpret_cast<const SettingRow* const*>(address);
}

struct CvarNumber {
  template <Call call>
  static int run(const CallSite& site, Word number) {
    int count = 0;
    if (site.inside_mpi() || !abi_matches() || number == 0) return site.pass(call, number);
    const int code = see_native_cvars(count);
    if (code == MPI_SUCCESS) *argument<int*>(number) = cvar_indices().total(count);
    return code;
  }
};

struct CvarInfo {
  template <Call call>
  static int run(const CallSite& site, Word index, Word name, Word name_length, Word verbosity, Word type,
                 Word enumeration, Word text, Word text_length, Word bind, Word scope) {
    const auto passed = [&](Word to) {
      return site.pass(call, to, name, name_length, verbosity, type, enumeration, text, text_length, bind, scope);
    };
    if (site.inside_mpi() || !abi_matches()) return passed(index);
    int count = 0;
    if (const int code = see_native_cvars(count); code != MPI_SUCCESS) return code;
    const std::optional<int> place = cvar_indices().ours(argument<int>(index));
    if (!place) {
      const std::optional<int> native = cvar_indices().native(argument<int>(index), count);
      return native ? passed(static_cast<Word>(*native)) : MPI_T_ERR_INVALID_INDEX;
    }
    const SettingRow& row = *cvar_rows()[static_cast<std::size_t>(*place)];
    give_text(argument<char*>(name), argument<int*>(name_length), row.name);
    give_text(
        argument<char*>(text), argument<int*>(text_length),
        std::string(row.meaning) + ". Valid: " + std::string(row.valid) + ". Unless set: " + std::string(row.initial));
    give<int>(argument<int*>(verbosity), MPI_T_VERBOSITY_USER_BASIC);
    give(argument<MPI_Datatype*>(type), constants().character);
    give(argument<MPI_T_enum*>(enumeration), MPI_T_ENUM_NULL);
    give<int>(argument<int*>(bind), MPI_T_BIND_NO_OBJECT);
    give<int>(argument<int*>(scope), row.alike ? MPI_T_SCOPE_ALL_EQ : MPI_T_SCOPE_LOCAL);
    return MPI_SUCCESS;
  }
};

struct CvarIndex {
  template <Call call>
  static int run(const CallSite& site, Word name, Word index) {
    if (site.inside_mpi() || !abi_matches() || name == 0 || index == 0) return site.pass(call, name, index);
    int count = 0;
    if (const int code = see_native_cvars(count); code != MPI_SUCCESS) return code;
    int& found = *argument<int*>(index);
    const auto rows = cvar_rows();
    const std::string_view wanted_name(argument<const char*>(name));
    const auto ours = std::ranges::find_if(rows, [&](const SettingRow* row) { return row->name == wanted_name; });
    if (ours != rows.end()) {
      found = cvar_indices().of_ours(static_cast<int>(ours - rows.begin()));
      return MPI_SUCCESS;
    }
    const int code = site.pass(call, name, index);
    if (code == MPI_SUCCESS) found = cvar_indices().of_native(found);
    return code;
  }
};

struct CvarHandleAlloc {
  template <Call call>
  static int run(const CallSite& site, Word index, Word object, Word handle, Word count) {
    if (site.inside_mpi() || !abi_matches()) return site.pass(call, index, object, handle, count);
    int known = 0;
    if (const int code = see_native_cvars(known); code != MPI_SUCCESS) return code;
    const std::optional<int> place = cvar_indices().ours(argument<int>(index));
    if (!place) {
      const std::optional<int> native = cvar_indices().native(argument<int>(index), known);
      if (!native) return MPI_T_ERR_INVALID_INDEX;
      return site.pass(call, static_cast<Word>(*native), object, handle, count);
    }
    if (handle == 0) return MPI_T_ERR_INVALID;
    const SettingRow* const* row = &cvar_rows()[static_cast<std::size_t>(*place)];
    *argument<MPI_T_cvar_handle*>(handle) =
        reinterpret_cast<MPI_T_cvar_handle>(const_cast<const SettingRow**>(row));  // only an address
    give(argument<int*>(count), static_cast<int>(kSettingBytes));
    return MPI_SUCCESS;
  }
};

struct CvarHandleFree {
  template <Call call>
  static int run(const CallSite& site, Word handle) {
    auto* place = argument<MPI_T_cvar_handle*>(handle);
    if (place == nullptr || row_of(*place) == nullptr) return site.pass(call, handle);
    *place = MPI_T_CVAR_HANDLE_NULL;
    return MPI_SUCCESS;
  }
};

struct CvarRead {
  template <Call call>
  static int run(const CallSite& site, Word handle, Word memory) {
    const SettingRow* row = row_of(argument<MPI_T_cvar_handle>(handle));
    if (row == nullptr) return site.pass(call, handle, memory);
    if (memory == 0) return MPI_T_ERR_INVALID;
    const char* value = std::getenv(row->name.data());
    int length = static_cast<int>(kSettingBytes);
    give_text(argument<char*>(memory), &length, value == nullptr ? "" : value);
    return MPI_SUCCESS;
  }
};

struct CvarWrite {
  template <Call call>
  static int run(const CallSite& site, Word handle, Word memory) {
    const SettingRow* row = row_of(argument<MPI_T_cvar_handle>(handle));
    if (row == nullptr) return site.pass(call, handle, memory);
    if (memory == 0) return MPI_T_ERR_INVALID;
    if (stage() != Stage::before_init) return MPI_T_ERR_CVAR_SET_NOT_NOW;
    const char* text = argument<const char*>(memory);
    if (std::find(text, text + kSettingBytes, '\0') == text + kSettingBytes) return MPI_T_ERR_INVALID;
    return ::setenv(row->name.data(), text, 1) == 0 ? MPI_SUCCESS : MPI_T_ERR_CVAR_SET_NOT_NOW;
  }
};

}  // namespace

std::span<const SettingRow* const> cvar_rows() {
  static const auto* rows = [] {
    auto* made = new std::vector<const SettingRow*>;
    for (const SettingRow& row : kSettings) {
      if (!row.internal && row.name != setting::kBuild) made->push_back(&row);
    }
    return made;
  }();
  return *rows;
}

int cvar_count() {
  return static_cast<int>(cvar_rows().size());
}

Indices& cvar_indices() {
  static constinit Indices indices(&cvar_count);
  return indices;
}

OUTRIGGER_ENTRY(T_cvar_get_num, 1, CvarNumber)
OUTRIGGER_ENTRY(T_cvar_get_info, 10, CvarInfo)
OUTRIGGER_ENTRY(T_cvar_get_index, 2, CvarIndex)
OUTRIGGER_ENTRY(T_cvar_handle_alloc, 4, CvarHandleAlloc)
OUTRIGGER_ENTRY(T_cvar_handle_free, 1, CvarHandleFree)
OUTRIGGER_ENTRY(T_cvar_read, 2, CvarRead)
OUTRIGGER_ENTRY(T_cvar_write, 2, CvarWrite)

}  // namespace outrigger::mpi
