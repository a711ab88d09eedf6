#include "mpi/completion/completion.hpp"

#include <algorithm>

#include "mpi/completion/driving.hpp"
#include "mpi/completion/request_table.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/real.hpp"
#include "mpi/persistent/persistent.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {

int raise_error(const CommState& comm, int code) {
  real().Comm_call_errhandler(comm.error_comm(), code);
  return code;
}

bool is_in_status(int code) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) real().Error_class(code, &error_class);  // MPICH's codes say more than the class
  return error_class == MPI_ERR_IN_STATUS;
}

OurRequests::OurRequests(std::span<const MPI_Request> requests) {
  find_requests(requests, [this](std::size_t index, Operation& operation) { add(index, operation); });
}

OurRequests::~OurRequests() {
  if (!failed_) return;
  for (const Entry& entry : entries()) {
    if (entry.comm != nullptr) entry.comm->release();
  }
}

void OurRequests::add(std::size_t index, Operation& operation) {
  if (is_native(operation)) return;
  Entry entry{.index = index, .operation = &operation, .persistent = operation.persistent != nullptr};
  if (entry.persistent) {
    ++persistent_;
    entry.inactive = entry.done = !is_running(operation);
  }
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
  if (entry.error == MPI_SUCCESS) return;
  failed_ = true;
  entry.comm = entry.operation->comm;  // the operation is gone once it has been collected
  entry.comm->retain();
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

MPI_Request OurRequests::unfinished() const {
  const auto all = entries();
  const auto found = std::find_if(all.begin(), all.end(), [](const Entry& entry) { return !entry.done; });
  return found == all.end() ? constants().request_null : request_to_drive_with(*found->operation);
}

bool OurRequests::persistent_left() const {
  const auto is_left = [](const Entry& entry) { return !entry.done && entry.persistent; };
  return any_persistent() && std::ranges::any_of(entries(), is_left);
}

const OurRequests::Entry* OurRequests::done_persistent(std::size_t index) const {
  if (!any_persistent()) return nullptr;
  for (const Entry& entry : entries()) {
    if (entry.index >= index && entry.done && entry.persistent && !entry.inactive) return &entry;
  }
  return nullptr;
}

void OurRequests::collect_persistent() const {
  if (!any_persistent()) return;
  for (const Entry& entry : entries()) {
    if (entry.persistent) collect(entry);
  }
}

NativeRequests::NativeRequests(const OurRequests& ours, MPI_Request* requests, int count)
    : ours_(ours), requests_(requests) {
  if (!ours.any_persistent()) return;
  copy_.assign(requests, requests + count);
  for (const OurRequests::Entry& entry : ours.entries()) {
    if (entry.persistent) copy_[entry.index] = constants().request_null;
  }
}

NativeRequests::~NativeRequests() {
  if (copy_.empty()) return;
  for (const OurRequests::Entry& entry : ours_.entries()) {
    if (entry.persistent) copy_[entry.index] = requests_[entry.index];
  }
  std::ranges::copy(copy_, requests_);
}

void set_empty(MPI_Status* status) {
  MPI_Request none = constants().request_null;
  if (status != MPI_STATUS_IGNORE) real().Wait(&none, status);
}

int collect_one(const OurRequests& ours, MPI_Status* status) {
  int only = 0;
  if (const std::optional<int> code = collect_any(ours, &only, status)) return *code;
  set_empty(status);
  return MPI_SUCCESS;
}

std::optional<int> collect_any(const OurRequests& ours, int* index, MPI_Status* status) {
  const OurRequests::Entry* entry = ours.done_persistent(0);
  if (entry == nullptr) return std::nullopt;
  OurRequests::collect(*entry);
  set_empty(status);
  *index = static_cast<int>(entry->index);
  return ours.result_of_one(MPI_SUCCESS, *index);
}

void collect_some(const OurRequests& ours, int* collected, int* indices, MPI_Status* statuses) {
  const bool active = ours.persistent_left() || ours.done_persistent(0) != nullptr;
  if (!active) return;
  if (*collected == MPI_UNDEFINED) *collected = 0;
  for (std::size_t from = 0; const OurRequests::Entry* entry = ours.done_persistent(from);) {
    OurRequests::collect(*entry);
    set_empty(status_at(statuses, static_cast<std::size_t>(*collected)));
    indices[(*collected)++] = static_cast<int>(entry->index);
    from = entry->index + 1;
  }
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
  return entry == nullptr || entry->error == MPI_SUCCESS ? code : raise_error(*entry->comm, entry->error);
}

int OurRequests::result_of_many(int code, std::span<const int> indices, bool whole_array, int collected,
                                MPI_Status* statuses) const {
  if (!failed_ || (code != MPI_SUCCESS && !is_in_status(code))) return code;
  const CommState* failed = nullptr;
  for (int i = 0; i < collected; ++i) {
    const auto position = static_cast<std::size_t>(i);
    const Entry* entry = entry_at(whole_array ? position : static_cast<std::size_t>(indices[position]));
    const int error = entry == nullptr ? MPI_SUCCESS : entry->error;
    if (error != MPI_SUCCESS) failed = entry->comm;
    // The field is undefined where the native call has seen no error.
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
