// Maps handles of our requests to their operations.
//
// An entry is made with the request and erased only in the request's free_fn: from then on the MPI may give the same
// handle to another thread. Operations that are used again keep their requests and entries. For a persistent collective
// the entry stays until the request is freed. Any thread; the lock is never held during MPI calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/futex_lock.hpp"
#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

struct Operation;
class OperationHold;

namespace detail {
extern constinit std::atomic<std::uint32_t> outstanding;
}

// The first check of every completion call. A thread that sees that another one has collected the last operation sees
// its request overwritten, too.
[[nodiscard]] inline bool nothing_outstanding() {
  return detail::outstanding.load(std::memory_order_acquire) == 0;
}

void insert_request(MPI_Request request, Operation& operation);
void erase_request(MPI_Request request);
// While one is counted, completion calls look for our requests: from the start of an operation until it is collected,
// and as long as there is a persistent collective.
inline void count_outstanding() {
  detail::outstanding.fetch_add(1, std::memory_order_relaxed);
}
inline void uncount_outstanding() {
  detail::outstanding.fetch_sub(1, std::memory_order_release);
}
// Empty: not ours, or its operation is not in use.
[[nodiscard]] OperationHold find_request(MPI_Request request);
// Calls visit(operation) for all. `visit` must not call MPI.
template <class Visit>
void each_request(const Visit& visit);
// Calls visit(index, operation) for our requests among `requests`. `visit` must not call MPI, and must hold operations
// that are used afterwards, if somebody uses them.
template <class Visit>
void find_requests(std::span<const MPI_Request> requests, const Visit& visit);

namespace detail {

// Open addressing, linear probing, deletion by moving back. Grows; never shrinks.
class RequestTable {
 public:
  constexpr RequestTable() = default;
  RequestTable(const RequestTable&) = delete;
  RequestTable& operator=(const RequestTable&) = delete;
  void insert(std::uint64_t key, Operation* operation);
  template <class Visit>
  void each(const Visit& visit) const {
    for (std::size_t i = 0; i < capacity_; ++i) {
      if (entries_[i].operation != nullptr) visit(*entries_[i].operation);
    }
  }
  void erase(std::uint64_t key);
  [[nodiscard]] Operation* find(std::uint64_t key) const {
    if (capacity_ == 0) return nullptr;
    for (std::size_t i = home(key);; i = next(i)) {
      if (entries_[i].operation == nullptr) return nullptr;
      if (entries_[i].key == key) return entries_[i].operation;
    }
  }

 private:
  struct Entry {
    std::uint64_t key = 0;
    Operation* operation = nullptr;  // nullptr: empty
  };
  [[nodiscard]] std::size_t home(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> 20) & (capacity_ - 1);
  }
  [[nodiscard]] std::size_t next(std::size_t i) const { return (i + 1) & (capacity_ - 1); }
  void grow();

  Entry* entries_ = nullptr;
  std::size_t capacity_ = 0;  // power of two
  std::size_t used_ = 0;
};

extern constinit FutexLock table_mutex;
extern constinit RequestTable table_of_requests;

}  // namespace detail

template <class Visit>
void each_request(const Visit& visit) {
  const std::scoped_lock lock(detail::table_mutex);
  detail::table_of_requests.each(visit);
}

template <class Visit>
void find_requests(std::span<const MPI_Request> requests, const Visit& visit) {
  const std::scoped_lock lock(detail::table_mutex);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (Operation* operation = detail::table_of_requests.find(handle_key(requests[i]))) visit(i, *operation);
  }
}

}  // namespace outrigger::mpi
