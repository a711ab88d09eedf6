#include "mpi/polite/fabric_reads.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "mpi/polite/library_slot.hpp"

namespace outrigger::mpi {
namespace {

// libfabric's binary interface (rdma/fabric.h, fi_domain.h, fi_eq.h): fabrics, domains and queues begin alike, and each
// table of functions begins with its size. Functions are only added at the end of tables.
struct Object {
  std::size_t kind;
  void* context;
  void* common_functions;
  void** table;
};
constexpr std::size_t kOpenDomain = 1;
constexpr std::size_t kOpenQueue = 2;
constexpr std::size_t kReadQueue = 1;
constexpr std::size_t kMostWords = 64;

constexpr const char* kOpenFabric = "fi_fabric";
using OpenFabric = int(void* attributes, Object** fabric, void* context);
using Open = int(Object* parent, void* attributes, Object** opened, void* context);

constinit void** fabric_slot = nullptr;  // written in MPI_Init
constinit OpenFabric* open_fabric_natively = nullptr;

std::mutex mutex;
constinit ReadQueue* reads = nullptr;  // instead of the queues' own function

// Copies of tables. They are kept for good: queues may be in use until the end of the process.
using Tables = std::vector<void**>;
struct Copies {
  Tables of_fabrics_and_domains;
  Tables of_queues;
};
Copies& copies() {
  static auto* const all = new Copies;
  return *all;
}

// Before each copy: this address, and then the address of its original.
constinit const char mark = 0;
constexpr std::size_t kWordsBefore = 2;

bool is_copy(void** table) {
  return table[-2] == static_cast<const void*>(&mark);
}

// The object has a copy, or a table that its provider has given it since.
template <class Function>
Function* original(void** table, std::size_t number) {
  if (is_copy(table)) table = static_cast<void**>(table[-1]);
  return reinterpret_cast<Function*>(table[number]);
}

// Several objects have the same table. nullptr: the table is of an unknown kind.
void** copy_of(void** table, std::size_t number, Tables& known) {
  if (table == nullptr) return nullptr;  // its provider sets it later
  const auto is_here = [table](void** copy) { return copy == table || copy[-1] == table; };
  if (const auto here = std::ranges::find_if(known, is_here); here != known.end()) return *here;
  const auto bytes = reinterpret_cast<std::uintptr_t>(table[0]);
  const std::size_t words = bytes / sizeof(void*);
  if (bytes % sizeof(void*) != 0 || words <= number || words > kMostWords) return nullptr;
  if (table[number] == nullptr) return nullptr;
  auto* const memory = new void*[kWordsBefore + words];
  void** const copy = memory + kWordsBefore;
  copy[-2] = const_cast<char*>(&mark);
  copy[-1] = static_cast<void*>(table);
  std::copy_n(table, words, copy);
  known.push_back(copy);
  return copy;
}

void replace(Object& object, std::size_t number, Open* function) {
  const std::scoped_lock lock(mutex);
  void** const copy = copy_of(object.table, number, copies().of_fabrics_and_domains);
  if (copy == nullptr) return;
  copy[number] = reinterpret_cast<void*>(function);
  object.table = copy;
}

void direct(void** queues) {
  ReadQueue* const read = reads != nullptr ? reads : original<ReadQueue>(queues, kReadQueue);
  std::atomic_ref<void*>(queues[kReadQueue]).store(reinterpret_cast<void*>(read), std::memory_order_release);
}

int open_queue(Object* domain, void* attributes, Object** queue, void* context) {
  const int code = original<Open>(domain->table, kOpenQueue)(domain, attributes, queue, context);
  if (code != 0) return code;
  const std::scoped_lock lock(mutex);
  void** const copy = copy_of((*queue)->table, kReadQueue, copies().of_queues);
  if (copy == nullptr) return code;
  direct(copy);
  (*queue)->table = copy;
  return code;
}

int open_domain(Object* fabric, void* information, Object** domain, void* context) {
  const int code = original<Open>(fabric->table, kOpenDomain)(fabric, information, domain, context);
  if (code == 0) replace(**domain, kOpenQueue, &open_queue);
  return code;
}

int open_fabric(void* attributes, Object** fabric, void* context) {
  const int code = open_fabric_natively(attributes, fabric, context);
  // The loader writes the slot when the function is called for the first time.
  static_cast<void>(write_slot(fabric_slot, reinterpret_cast<void*>(&open_fabric)));
  if (code == 0) replace(**fabric, kOpenDomain, &open_domain);
  return code;
}

}  // namespace

void prepare_fabric_reads(const void* inside) {
  void** const slot = library_slot(inside, kOpenFabric);
  if (slot == nullptr || *slot == reinterpret_cast<void*>(&open_fabric) || !may_call_by(slot)) return;
  open_fabric_natively = reinterpret_cast<OpenFabric*>(*slot);
  fabric_slot = slot;
  static_cast<void>(write_slot(slot, reinterpret_cast<void*>(&open_fabric)));
}

bool has_fabric_queues() {
  const std::scoped_lock lock(mutex);
  return !copies().of_queues.empty();
}

void redirect_fabric_reads(ReadQueue* to) {
  const std::scoped_lock lock(mutex);
  reads = to;
  for (void** const queues : copies().of_queues) direct(queues);
}

ReadQueue* native_read(const void* queue) {
  return original<ReadQueue>(static_cast<const Object*>(queue)->table, kReadQueue);
}

}  // namespace outrigger::mpi
