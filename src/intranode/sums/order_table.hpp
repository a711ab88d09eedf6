// When to learn which order: the reductions of one communicator, by their exact number of elements, as an MPI may
// change its algorithm at any number. The step depends only on the calls so far and on what the members have agreed on,
// so it is the same at all members.
//
//     calls 1 .. kLookUpAfter      native
//     next                         look up: the order of an earlier job (order_file.hpp), verified by vectors
//     until it pays                native, if none was found
//     next                         learn
//     from then on                 use, or native for good
//     now and then                 verify, then use: after kVerifyAfter calls, later more seldom
//
// Cost model: a learned call takes about half of native's time, so learning is repaid after twice its time. Two
// conditions, in the unit of learning_time():
//
//     the key's calls have taken twice the time of learning it: as many again repay it
//     all calls so far, of all keys, have taken kCallsForEach times as long as all learning, this one included; the
//     first kFree of that time are free, about a millisecond
//
// So a program that ends right then has lost 1 / kCallsForEach of the time of its reductions on the communicator, or a
// millisecond. Verifying what an earlier job has found comes on top: at most 64 calls for each key.
//
// A vector that is longer than kMostBytes is native: learning takes memory of several vectors.
//
// Minima and maxima are used from the first call on (sum_order.hpp). Calls that evaluate() could not do are done twice;
// after kMostAsked of them a key is native for good.
//
// Bounds: kMostKeys; the least recently used gives way, and is looked up again.
// Thread rule: as for the communicator's collectives, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>

#include "intranode/sums/order_learner.hpp"
#include "intranode/sums/sum_order.hpp"
#include "protocol/reduction.hpp"

namespace outrigger::intranode {

struct OrderKey {
  std::string form;  // one word: the collective, and the root or the member on which the order depends, as reduce@3
  std::uint32_t members = 0;
  Reduction reduction;
  std::uint64_t elements = 0;
  bool operator==(const OrderKey&) const = default;
};

enum class OrderStep : std::uint8_t { native, look_up, learn, verify, use };

class OrderTable {
 public:
  static constexpr std::size_t kMostKeys = 128;
  static constexpr std::uint64_t kLookUpAfter = 32;
  static constexpr std::uint64_t kCallsForEach = 16;
  static constexpr std::uint64_t kCallsOfKey = 2;
  static constexpr std::uint64_t kLookAgain = 8;
  static constexpr std::uint64_t kFree = std::uint64_t{1} << 21;
  static constexpr std::uint32_t kMostAsked = 16;
  static constexpr std::uint64_t kVerifyAfter = 10'000;
  static constexpr std::uint64_t kLessOften = 4;  // factor on the calls until the next time
  static constexpr std::uint64_t kNever = UINT64_MAX;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

  struct Entry {
    OrderKey key;
    std::uint64_t calls = 0;
    std::uint64_t time_of_call = 0;
    bool looked_up = false;
    bool settled = false;           // learned or refused
    std::optional<SumOrder> order;  // settled without one: native for good
    SumRefusal refusal = SumRefusal::none;
    std::uint32_t asked = 0;
    std::uint64_t verify_after = kVerifyAfter;  // calls
    std::uint64_t due = 0;                      // the first call that is not as the one before
  };
  // A key's entry, so that the next call with the same key finds it at once.
  class Place {
   private:
    friend class OrderTable;
    std::list<Entry>::iterator at_;
    std::uint64_t dropped_ = UINT64_MAX;  // entries until then
  };

  // `first_call_learns`: without counting calls, for tests and for users who ask for it.
  explicit OrderTable(bool first_call_learns = false) : at_once_(first_call_learns) {}

  // Counts a call. The entry is valid until the next next().
  struct Next {
    OrderStep step;
    Entry* entry;
  };
  [[nodiscard]] Next next(const OrderKey& key, const Learning& learning);
  // The place of the entry of the last next().
  [[nodiscard]] Place place();
  // The entry of that place, if its next call is as the one before: it has an order to use, or is native. Otherwise
  // next() has to be called.
  [[nodiscard]] Entry* again_at(const Place& place) const {
    return place.dropped_ == dropped_ && place.at_->calls + 1 < place.at_->due ? &*place.at_ : nullptr;
  }
  // Counts that call.
  void count_at(const Place& place) {
    ++place.at_->calls;
    if (place.at_ != entries_.begin()) entries_.splice(entries_.begin(), entries_, place.at_);
  }

  // After OrderStep::look_up without an order.
  static void not_found(Entry& entry) {
    entry.looked_up = true;
    entry.due = 0;
  }
  // The entry has what the members agreed on.
  static void settle(Entry& entry, std::optional<SumOrder> order, SumRefusal refusal);
  // After OrderStep::verify: the order is still right. Otherwise settle() it.
  static void verified(Entry& entry);
  // Some member had Bits::ask_native, so the call was done twice.
  static void asked(Entry& entry);

  // For reports.
  [[nodiscard]] const std::list<Entry>& entries() const { return entries_; }

 private:
  [[nodiscard]] static Next next_of_settled(Entry& entry);
  [[nodiscard]] Next next_of_unsettled(Entry& entry, const Learning& learning);
  [[nodiscard]] Entry& add(const OrderKey& key, const Learning& learning);
  [[nodiscard]] bool pays(const Entry& entry, const Learning& learning) const;
  [[nodiscard]] std::uint64_t time_of_calls() const;

  bool at_once_;
  std::uint64_t dropped_ = 0;
  std::uint64_t dropped_time_ = 0;   // of their calls
  std::uint64_t learning_time_ = 0;  // so far
  std::list<Entry> entries_;         // the most recently used first
};

}  // namespace outrigger::intranode
