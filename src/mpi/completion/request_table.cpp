#include "mpi/completion/request_table.hpp"

#include <cassert>

#include "mpi/collectives/offloaded_collective.hpp"

namespace outrigger::mpi {
namespace detail {

constinit std::atomic<std::uint32_t> outstanding = 0;
constinit FutexLock table_mutex;
constinit RequestTable table_of_requests;

void RequestTable::insert(std::uint64_t key, Operation* operation) {
  if (2 * (used_ + 1) > capacity_) grow();
  std::size_t i = home(key);
  while (entries_[i].operation != nullptr) {
    assert(entries_[i].key != key);
    i = next(i);
  }
  entries_[i] = Entry{key, operation};
  ++used_;
}

void RequestTable::erase(std::uint64_t key) {
  if (capacity_ == 0) return;
  std::size_t hole = home(key);
  while (entries_[hole].operation != nullptr && entries_[hole].key != key) hole = next(hole);
  if (entries_[hole].operation == nullptr) return;
  for (std::size_t i = next(hole); entries_[i].operation != nullptr; i = next(i)) {
    const std::size_t wanted = home(entries_[i].key);
    // Moves entries back that a search would miss: their home is not between the hole (exclusive) and here.
    if (((i - wanted) & (capacity_ - 1)) >= ((i - hole) & (capacity_ - 1))) {
      entries_[hole] = entries_[i];
      hole = i;
    }
  }
  entries_[hole] = Entry{};
  --used_;
}

void RequestTable::grow() {
  const std::size_t old_capacity = capacity_;
  Entry* old = entries_;
  capacity_ = old_capacity == 0 ? 64 : 2 * old_capacity;
  entries_ = new Entry[capacity_];
  used_ = 0;
  for (std::size_t i = 0; i < old_capacity; ++i) {
    if (old[i].operation != nullptr) insert(old[i].key, old[i].operation);
  }
  delete[] old;
}

}  // namespace detail

void insert_request(MPI_Request request, Operation& operation) {
  const std::scoped_lock lock(detail::table_mutex);
  detail::table_of_requests.insert(handle_key(request), &operation);
}

void erase_request(MPI_Request request) {
  const std::scoped_lock lock(detail::table_mutex);
  detail::table_of_requests.erase(handle_key(request));
}

OperationHold find_request(MPI_Request request) {
  const std::scoped_lock lock(detail::table_mutex);
  Operation* operation = detail::table_of_requests.find(handle_key(request));
  return operation == nullptr ? OperationHold() : OperationHold::of_used(*operation);
}

}  // namespace outrigger::mpi
