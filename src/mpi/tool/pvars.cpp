// MPI_T_pvar_get_num, MPI_T_pvar_get_info, MPI_T_pvar_get_index.
#include "mpi/tool/pvars.hpp"

#include <optional>
#include <string_view>

#include "mpi/native/constants.hpp"
#include "mpi/tool/texts.hpp"

namespace outrigger::mpi {
namespace {

constexpr std::string_view kVariablePrefix = "outrigger_";

int class_of(const PvarRow& row) {
  return row.is_time() ? MPI_T_PVAR_CLASS_TIMER : MPI_T_PVAR_CLASS_COUNTER;
}

// MPI_SUCCESS: the MPI's variables are known, so indices can be classified.
int see_native_pvars(int& count) {
  const int code = native_count(Call::T_pvar_get_num, count);
  if (code == MPI_SUCCESS) pvar_indices().see_native(count);
  return code;
}

struct PvarNumber {
  template <Call call>
  static int run(const CallSite& site, Word number) {
    int count = 0;
    if (site.inside_mpi() || !abi_matches() || number == 0) return site.pass(call, number);
    const int code = see_native_pvars(count);
    if (code == MPI_SUCCESS) *argument<int*>(number) = pvar_indices().total(count);
    return code;
  }
};

struct PvarInfo {
  template <Call call>
  static int run(const CallSite& site, Word index, Word name, Word name_length, Word verbosity, Word kind, Word type,
                 Word enumeration, Word text, Word text_length, Word bind, Word readonly, Word continuous,
                 Word atomic) {
    const auto passed = [&](Word to) {
      return site.pass(call, to, name, name_length, verbosity, kind, type, enumeration, text, text_length, bind,
                       readonly, continuous, atomic);
    };
    if (site.inside_mpi() || !abi_matches()) return passed(index);
    int count = 0;
    if (const int code = see_native_pvars(count); code != MPI_SUCCESS) return code;
    const std::optional<int> place = pvar_indices().ours(argument<int>(index));
    if (!place) {
      const std::optional<int> native = pvar_indices().native(argument<int>(index), count);
      return native ? passed(static_cast<Word>(*native)) : MPI_T_ERR_INVALID_INDEX;
    }
    const PvarRow row = pvar_at(*place);
    give_text(argument<char*>(name), argument<int*>(name_length), row.name());
    give_text(argument<char*>(text), argument<int*>(text_length), row.description());
    give<int>(argument<int*>(verbosity), MPI_T_VERBOSITY_USER_BASIC);
    give(argument<int*>(kind), class_of(row));
    give(argument<MPI_Datatype*>(type), row.is_time() ? constants().double_precision : constants().unsigned_long_long);
    give(argument<MPI_T_enum*>(enumeration), MPI_T_ENUM_NULL);
    give<int>(argument<int*>(bind), row.of_communicator ? MPI_T_BIND_MPI_COMM : MPI_T_BIND_NO_OBJECT);
    give(argument<int*>(readonly), 0);
    give(argument<int*>(continuous), 0);
    give(argument<int*>(atomic), 0);
    return MPI_SUCCESS;
  }
};

std::optional<int> place_of(std::string_view name, int kind) {
  if (!name.starts_with(kVariablePrefix)) return std::nullopt;
  for (int place = 0; place < pvar_count(); ++place) {
    const PvarRow row = pvar_at(place);
    if (row.name() == name && class_of(row) == kind) return place;
  }
  return std::nullopt;
}

struct PvarIndex {
  template <Call call>
  static int run(const CallSite& site, Word name, Word kind, Word index) {
    if (site.inside_mpi() || !abi_matches() || name == 0 || index == 0) return site.pass(call, name, kind, index);
    int count = 0;
    if (const int code = see_native_pvars(count); code != MPI_SUCCESS) return code;
    int& found = *argument<int*>(index);
    if (const std::optional<int> place = place_of(argument<const char*>(name), argument<int>(kind))) {
      found = pvar_indices().of_ours(*place);
      return MPI_SUCCESS;
    }
    const int code = site.pass(call, name, kind, index);
    if (code == MPI_SUCCESS) found = pvar_indices().of_native(found);
    return code;
  }
};

}  // namespace

std::string PvarRow::name() const {
  if (!of_communicator) return counter->name;
  return std::string(kVariablePrefix) + "comm_" + counter->name.substr(kVariablePrefix.size());
}

std::string PvarRow::description() const {
  return counter->description + (of_communicator ? ", on one communicator" : ", on all communicators") +
         (is_time() ? ", in seconds" : "");
}

int pvar_count() {
  return static_cast<int>(2 * report::counters().size());
}

PvarRow pvar_at(int place) {
  const auto counters = report::counters().size();
  const std::size_t which = static_cast<std::size_t>(place) % counters;
  return {&report::counters()[which], which, static_cast<std::size_t>(place) >= counters};
}

Indices& pvar_indices() {
  static constinit Indices indices(&pvar_count);
  return indices;
}

OUTRIGGER_ENTRY(T_pvar_get_num, 1, PvarNumber)
OUTRIGGER_ENTRY(T_pvar_get_info, 13, PvarInfo)
OUTRIGGER_ENTRY(T_pvar_get_index, 3, PvarIndex)

}  // namespace outrigger::mpi
