// Calls that are native for good, as this thread has made them last: with the same arguments, but for the buffers, the
// next one is as well, and goes to the MPI at once.
//
// Thread rule: each thread by itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "mpi/communicators/comm_state.hpp"
#include "mpi/native/abi.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/native/real.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

// Why a call is native for good.
struct ForGood {
  CommState* comm = nullptr;  // null: it is not
  report::NativeReason reason = report::NativeReason::none;
};

namespace detail {

inline constexpr std::size_t kMostKnownWords = 9;
struct KnownNative {
  Call call = Call::count;
  report::NativeReason reason = report::NativeReason::none;
  CommState* comm = nullptr;
  std::uint64_t freed = 0;  // communicators, when it was kept
  std::array<Word, kMostKnownWords> words{};
};
inline constexpr std::size_t kKnownNatives = 8;
[[gnu::tls_model("initial-exec")]] extern constinit thread_local std::array<KnownNative, kKnownNatives> known_natives;
[[gnu::tls_model("initial-exec")]] extern constinit thread_local ForGood found_for_good;

// A buffer matters only as MPI_IN_PLACE, which chooses the arguments that count. The request is not looked at.
template <class T>
[[nodiscard]] Word known_word(Word word) {
  if constexpr (std::is_same_v<T, const void*> || std::is_same_v<T, void*>) {
    return word == reinterpret_cast<Word>(MPI_IN_PLACE) ? 1 : 0;
  } else if constexpr (std::is_same_v<T, MPI_Request*>) {
    return 0;
  } else {
    return (Word)argument<T>(word);  // NOLINT(google-readability-casting): a number or a handle, which may be a pointer
  }
}

template <class T, class... Others>
inline constexpr bool is_one_of = std::disjunction_v<std::is_same<T, Others>...>;

// Arrays may change between calls.
template <class T>
inline constexpr bool is_array =
    std::is_pointer_v<T> && !is_one_of<T, const void*, void*, MPI_Request*, MPI_Comm, MPI_Datatype, MPI_Op>;

}  // namespace detail

// For calls with arguments of these types.
template <class... Args>
class KnownNatives {
 public:
  // Nothing: not known.
  template <Call call>
  [[nodiscard]] static ForGood find(WordFor<Args>... words) {
    if constexpr (kMayBeKept) {
      const detail::KnownNative& known = entry<call>();
      if (known.call != call || known.freed != freed_communicators()) return {};
      std::size_t i = 0;
      if ((... && (known.words[i++] == detail::known_word<Args>(words)))) return {known.comm, known.reason};
    }
    return {};
  }
  // The call has passed for this.
  template <Call call>
  static void keep(const ForGood& why, WordFor<Args>... words) {
    if constexpr (kMayBeKept) {
      if (why.comm == nullptr) return;
      detail::KnownNative& known = entry<call>();
      known = {call, why.reason, why.comm, freed_communicators(), {}};
      std::size_t i = 0;
      ((known.words[i++] = detail::known_word<Args>(words)), ...);
    }
  }

  static constexpr bool kMayBeKept = sizeof...(Args) <= detail::kMostKnownWords && (... && !detail::is_array<Args>);

 private:
  template <Call call>
  [[nodiscard]] static detail::KnownNative& entry() {
    return detail::known_natives[static_cast<std::size_t>(call) % detail::kKnownNatives];
  }
};

// Between these a collective's own code says that its call is native for good.
inline void forget_for_good() {
  detail::found_for_good = {};
}
inline void find_for_good(CommState& comm, report::NativeReason reason) {
  detail::found_for_good = {&comm, reason};
}
[[nodiscard]] inline ForGood found_for_good() {
  return detail::found_for_good;
}

}  // namespace outrigger::mpi
