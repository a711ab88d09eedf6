// MPI_T_category_get_num, MPI_T_category_get_info and the like: one category, "outrigger", with all our variables.
// Indices in the MPI's own answers are translated.
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "mpi/native/constants.hpp"
#include "mpi/tool/cvars.hpp"
#include "mpi/tool/pvars.hpp"
#include "mpi/tool/texts.hpp"

namespace outrigger::mpi {
namespace {

constexpr std::string_view kCategoryName = "outrigger";
constexpr std::string_view kCategoryText = "What Outrigger offloads, and its settings";

int category_count() {
  return 1;
}

constinit Indices category_places(&category_count);

// Updates the known numbers of the MPI's variables and categories; `categories` gets the latter.
int see_native_lists(int& categories) {
  int code = native_count(Call::T_category_get_num, categories);
  if (code != MPI_SUCCESS) return code;
  category_places.see_native(categories);
  int count = 0;
  code = native_count(Call::T_pvar_get_num, count);
  if (code == MPI_SUCCESS) pvar_indices().see_native(count);
  code = native_count(Call::T_cvar_get_num, count);
  if (code == MPI_SUCCESS) cvar_indices().see_native(count);
  return code;
}

struct CategoryNumber {
  template <Call call>
  static int run(const CallSite& site, Word number) {
    if (site.inside_mpi() || !abi_matches() || number == 0) return site.pass(call, number);
    int count = 0;
    const int code = see_native_lists(count);
    if (code == MPI_SUCCESS) *argument<int*>(number) = category_places.total(count);
    return code;
  }
};

struct CategoryInfo {
  template <Call call>
  static int run(const CallSite& site, Word index, Word name, Word name_length, Word text, Word text_length, Word cvars,
                 Word pvars, Word categories) {
    const auto passed = [&](Word to) {
      return site.pass(call, to, name, name_length, text, text_length, cvars, pvars, categories);
    };
    if (site.inside_mpi() || !abi_matches()) return passed(index);
    int count = 0;
    if (const int code = see_native_lists(count); code != MPI_SUCCESS) return code;
    if (!category_places.ours(argument<int>(index))) {
      const std::optional<int> native = category_places.native(argument<int>(index), count);
      return native ? passed(static_cast<Word>(*native)) : MPI_T_ERR_INVALID_INDEX;
    }
    give_text(argument<char*>(name), argument<int*>(name_length), kCategoryName);
    give_text(argument<char*>(text), argument<int*>(text_length), kCategoryText);
    give(argument<int*>(cvars), cvar_count());
    give(argument<int*>(pvars), pvar_count());
    give(argument<int*>(categories), 0);
    return MPI_SUCCESS;
  }
};

struct CategoryIndex {
  template <Call call>
  static int run(const CallSite& site, Word name, Word index) {
    if (site.inside_mpi() || !abi_matches() || name == 0 || index == 0) return site.pass(call, name, index);
    int count = 0;
    if (const int code = see_native_lists(count); code != MPI_SUCCESS) return code;
    int& found = *argument<int*>(index);
    if (kCategoryName == argument<const char*>(name)) {
      found = category_places.of_ours(0);
      return MPI_SUCCESS;
    }
    const int code = site.pass(call, name, index);
    if (code == MPI_SUCCESS) found = category_places.of_native(found);
    return code;
  }
};

int no_members() {
  return 0;
}
Indices& category_indices() {
  return category_places;
}

// Members of a category: the one of ours has all `ours`. `place_in_info`: index of their count among the three of
// MPI_T_category_get_info.
template <Indices& (*of)(), int (*ours)(), int place_in_info>
struct CategoryMembers {
  template <Call call>
  static int run(const CallSite& site, Word index, Word length, Word members) {
    if (site.inside_mpi() || !abi_matches()) return site.pass(call, index, length, members);
    int count = 0;
    if (const int code = see_native_lists(count); code != MPI_SUCCESS) return code;
    auto* list = argument<int*>(members);
    const int room = argument<int>(length);
    if (category_places.ours(argument<int>(index))) {
      for (int i = 0; list != nullptr && i < std::min(room, ours()); ++i) list[i] = of().of_ours(i);
      return MPI_SUCCESS;
    }
    const std::optional<int> native = category_places.native(argument<int>(index), count);
    if (!native) return MPI_T_ERR_INVALID_INDEX;
    const int code = site.pass(call, static_cast<Word>(*native), length, members);
    if (code != MPI_SUCCESS || list == nullptr) return code;
    const int written = std::min(room, members_of(*native));
    for (int i = 0; i < written; ++i) list[i] = of().of_native(list[i]);
    return code;
  }

 private:
  static int members_of(int native) {
    std::array<int, 3> numbers{};
    std::array<Word, 3> places{};
    for (std::size_t i = 0; i < numbers.size(); ++i) places[i] = reinterpret_cast<Word>(&numbers[i]);
    int none = 0;
    const Word length = reinterpret_cast<Word>(&none);
    const int code = pass(Call::T_category_get_info, static_cast<Word>(native), Word{0}, length, Word{0}, length,
                          places[0], places[1], places[2]);
    return code == MPI_SUCCESS ? numbers[place_in_info] : 0;
  }
};

#if OUTRIGGER_MPI4
// Events, which only the MPI has.
struct CategoryEvents {
  template <Call call, class... Words>
  static int run(const CallSite& site, Word index, Words... rest) {
    if (site.inside_mpi() || !abi_matches()) return site.pass(call, index, rest...);
    int count = 0;
    if (const int code = see_native_lists(count); code != MPI_SUCCESS) return code;
    if (!category_places.ours(argument<int>(index))) {
      const std::optional<int> native = category_places.native(argument<int>(index), count);
      return native ? site.pass(call, static_cast<Word>(*native), rest...) : MPI_T_ERR_INVALID_INDEX;
    }
    if constexpr (call == Call::T_category_get_num_events) give(argument<int*>(rest...), 0);
    return MPI_SUCCESS;
  }
};
#endif

}  // namespace

OUTRIGGER_ENTRY(T_category_get_num, 1, CategoryNumber)
OUTRIGGER_ENTRY(T_category_get_info, 8, CategoryInfo)
OUTRIGGER_ENTRY(T_category_get_index, 2, CategoryIndex)
OUTRIGGER_ENTRY(T_category_get_cvars, 3, CategoryMembers<&cvar_indices, &cvar_count, 0>)
OUTRIGGER_ENTRY(T_category_get_pvars, 3, CategoryMembers<&pvar_indices, &pvar_count, 1>)
OUTRIGGER_ENTRY(T_category_get_categories, 3, CategoryMembers<&category_indices, &no_members, 2>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(T_category_get_num_events, 2, CategoryEvents)
OUTRIGGER_ENTRY(T_category_get_events, 3, CategoryEvents)
#endif

}  // namespace outrigger::mpi
