#include "mpi/completion/completion.hpp"

#include <algorithm>

#include "mpi/completion/driving.hpp"
#include "mpi/completion/request_table.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"
#include "mpi/persistent/persistent.hpp"

namespace outrigger::mpi {

int raise_error(const CommState& comm, int code) {
  real().Comm_call_errhandler(comm.error_comm(), code);
  return code;
}

bool is_in_status(int code) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) real().Error_class(code, &error_class);  // MPICH's codes contain more than the class
  return error_class == MPI_ERR_IN_STATUS;
}

OurRequests::OurRequests(std::span<const MPI_Request> requests) {
  find_requests(requests, [this](std::size_t index, Operation& operation) { add(index, operation); });
}

// The program may ask its MPI for those that are done and not collected.
OurRequests::~OurRequests() {
  for (const Entry& entry : entries()) {
    Operation& operation = *entry.operation;
    if (entry.done && !operation.taken.load(std::memory_order_relaxed)) complete_for_mpi(operation);
    drop(operation);
  }
}

void OurRequests::add(std::size_t index, Operation& operation) {
  if (is_native(operation) || !hold_if_used(operation)) return;
  of_ranks_ = of_ranks_ || operation.by_ranks;
  const bool inactive = operation.persistent != nullptr && !is_running(operation);
  const Entry entry{index, &operation, inactive, inactive, MPI_SUCCESS};
  if (size_ < kInline) {
    few_[size_] = entry;
  } else {
    if (size_ == kInline) many_.assign(few_.begin(), few_.end());
    many_.push_back(entry);
  }
  ++size_;
}

void OurRequests::look_at(Job& job, Entry& entry) {
  if (entry.done || !progress(job, *entry.operation)) return;
  entry.done = true;
  entry.error = entry.operation->error;
  failed_ = failed_ || entry.error != MPI_SUCCESS;
}

bool OurRequests::progress_any(Job& job) {
  bool any = false;
  for (Entry& entry : entries()) {
    look_at(job, entry);
    any = any || (entry.done && !entry.inactive);
  }
  return any;
}

bool OurRequests::progress_all(Job& job) {
  bool all = true;
  for (Entry& entry : entries()) {
    look_at(job, entry);
    all = all && entry.done;
  }
  return all;
}

const OurRequests::Entry* OurRequests::first_done(std::size_t index) const {
  const auto all = entries();
  const auto found = std::ranges::find_if(
      all, [index](const Entry& entry) { return entry.index >= index && entry.done && !entry.inactive; });
  return found == all.end() ? nullptr : &*found;
}

void OurRequests::collect(const Entry& entry, MPI_Request* requests, MPI_Status* status) {
  Operation& operation = *entry.operation;
  if (operation.persistent != nullptr) {
    if (!entry.inactive) collect_run(operation);
    return set_empty(status);
  }
  requests[entry.index] = constants().request_null;
  mpi::collect(operation) ? set_status(status) : set_empty(status);
}

void OurRequests::collect_among(const Entry& entry, MPI_Request* requests, MPI_Status* status) {
  collect(entry, requests, status);
  if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = entry.error;
}

NativeRequests::NativeRequests(const OurRequests& ours, MPI_Request* requests, int count, Done done)
    : ours_(ours), requests_(requests, static_cast<std::size_t>(count)) {
  if (requests_.size() <= kInline) {
    std::ranges::copy(requests_, few_.begin());
  } else {
    many_.assign(requests_.begin(), requests_.end());
  }
  for (const OurRequests::Entry& entry : ours.entries()) {
    data()[entry.index] = entry.done && done == Done::null ? constants().request_null : driving_request();
  }
}

// Leaves our requests alone: another thread may have collected them.
NativeRequests::~NativeRequests() {
  auto ours = ours_.entries().begin();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (ours != ours_.entries().end() && ours->index == i) {
      ++ours;
    } else {
      requests_[i] = data()[i];
    }
  }
}

void set_empty(MPI_Status* status) {
  MPI_Request none = constants().request_null;
  if (status != MPI_STATUS_IGNORE) real().Wait(&none, status);
}

int collect_only(const OurRequests& ours, MPI_Request* request, MPI_Status* status) {
  OurRequests::collect(ours.entries().front(), request, status);
  return ours.result_of_one(MPI_SUCCESS, 0);
}

std::optional<int> collect_any(const OurRequests& ours, MPI_Request* requests, int* index, MPI_Status* status) {
  const OurRequests::Entry* entry = ours.first_done(0);
  if (entry == nullptr) return std::nullopt;
  OurRequests::collect(*entry, requests, status);
  *index = static_cast<int>(entry->index);
  return ours.result_of_one(MPI_SUCCESS, *index);
}

void collect_some(const OurRequests& ours, MPI_Request* requests, int* collected, int* indices, MPI_Status* statuses) {
  for (std::size_t from = 0; const OurRequests::Entry* entry = ours.first_done(from); from = entry->index + 1) {
    if (*collected == MPI_UNDEFINED) *collected = 0;
    OurRequests::collect_among(*entry, requests, status_at(statuses, static_cast<std::size_t>(*collected)));
    indices[(*collected)++] = static_cast<int>(entry->index);
  }
}

int collect_all(const OurRequests& ours, int count, MPI_Request* requests, MPI_Status* statuses, int code) {
  if (code != MPI_SUCCESS && !is_in_status(code)) return code;
  for (const OurRequests::Entry& entry : ours.entries()) {
    if (entry.done) OurRequests::collect_among(entry, requests, status_at(statuses, entry.index));
  }
  return ours.result_of_many(code, {}, true, count, statuses);
}

const OurRequests::Entry* OurRequests::entry_at(std::size_t index) const {  // entries are in the array's order
  const auto all = entries();
  const auto found = std::lower_bound(all.begin(), all.end(), index,
                                      [](const Entry& entry, std::size_t wanted) { return entry.index < wanted; });
  return found != all.end() && found->index == index ? &*found : nullptr;
}

int OurRequests::result_of_one(int code, int index) const {
  if (!failed_ || code != MPI_SUCCESS || index < 0) return code;
  const Entry* entry = entry_at(static_cast<std::size_t>(index));
  return entry == nullptr || entry->error == MPI_SUCCESS ? code : raise_error(*entry->operation->comm, entry->error);
}

int OurRequests::result_of_many(int code, std::span<const int> indices, bool whole_array, int collected,
                                MPI_Status* statuses) const {
  if (!failed_ || (code != MPI_SUCCESS && !is_in_status(code))) return code;
  const CommState* failed = nullptr;
  for (int i = 0; i < collected; ++i) {
    const auto position = static_cast<std::size_t>(i);
    const Entry* entry = entry_at(whole_array ? position : static_cast<std::size_t>(indices[position]));
    const int error = entry == nullptr ? MPI_SUCCESS : entry->error;
    if (error != MPI_SUCCESS) failed = entry->operation->comm;
    // The field is undefined if the native call has seen no error.
    if (statuses != MPI_STATUSES_IGNORE && (error != MPI_SUCCESS || code == MPI_SUCCESS)) {
      statuses[position].MPI_ERROR = error;
    }
  }
  return failed == nullptr ? code : raise_error(*failed, MPI_ERR_IN_STATUS);
}

int OurRequests::result_of_some(int code, const int* indices, const int* collected, MPI_Status* statuses) const {
  if (!failed_ || indices == nullptr || collected == nullptr || *collected <= 0)
    return code;  // it may be MPI_UNDEFINED
  return result_of_many(code, {indices, static_cast<std::size_t>(*collected)}, false, *collected, statuses);
}

}  // namespace outrigger::mpi
