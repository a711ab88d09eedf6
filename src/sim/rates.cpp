#include "sim/rates.hpp"

#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <thread>

#include "reduce/reduce.hpp"

namespace outrigger::sim {
namespace {

constexpr std::size_t kBlock_bytes = std::size_t{1} << 20U;
constexpr std::size_t kLarge_bytes = std::size_t{32} << 20U;  // each of the two buffers, on each core
constexpr std::size_t kRepetitions = 20;
constexpr std::size_t kFewest_bytes = std::size_t{1} << 20U;  // both buffers together
constexpr std::size_t kPasses_bytes = kLarge_bytes;           // copied per sample, or each buffer twice
constexpr Reduction kSum{ReduceOperation::sum, ElementType::float64};

template <class Work>
double seconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Buffers {
  explicit Buffers(std::size_t bytes) : from(bytes, std::byte{1}), other(bytes, std::byte{2}), into(bytes) {}
  std::vector<std::byte> from;
  std::vector<std::byte> other;
  std::vector<std::byte> into;
};

void copy_here(std::span<std::byte> into, std::span<const std::byte> from) {
  std::memcpy(into.data(), from.data(), from.size());
}

// Cost of process_vm_readv, which is the same for memory of this process.
void copy_by_kernel(std::span<std::byte> into, std::span<std::byte> from) {
  const iovec local{into.data(), into.size()};
  const iovec remote{from.data(), from.size()};
  [[maybe_unused]] const ssize_t bytes = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
}

bool kernel_copies() {
  std::array from{std::byte{1}};
  std::array into{std::byte{0}};
  copy_by_kernel(into, from);
  return into == from;
}

// Copies the first part of both buffers repeatedly; one untimed copy first, so that the data are in cache if they fit.
template <class Copy>
double copy_rate(Buffers& buffers, std::size_t bytes, const Copy& copies) {
  const std::size_t half = bytes / 2;
  const std::size_t passes = std::max<std::size_t>(2, kPasses_bytes / half);
  const auto copy = [&](std::size_t pass) {
    buffers.from[pass % half] = static_cast<std::byte>(pass);
    copies(std::span(buffers.into).first(half), std::span(buffers.from).first(half));
  };
  copy(0);
  const double time_s = seconds([&] {
    for (std::size_t pass = 0; pass < passes; ++pass) copy(pass);
  });
  return static_cast<double>(passes * half) / time_s;
}

double reduce_rate(Buffers& buffers) {
  const double time_s = seconds([&buffers] {
    for (std::size_t i = 0; i < kRepetitions; ++i) reduce::apply(kSum, buffers.from, buffers.other, buffers.into);
  });
  return static_cast<double>(kRepetitions * buffers.into.size()) / time_s;
}

unsigned allowed_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return std::max(1U, std::thread::hardware_concurrency());
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

double memory_rate(std::vector<Buffers>& of_cores) {
  const double time_s = seconds([&of_cores] {
    std::vector<std::jthread> threads;
    for (Buffers& buffers : of_cores) {
      threads.emplace_back([&buffers] { std::memcpy(buffers.into.data(), buffers.from.data(), buffers.from.size()); });
    }
  });
  return static_cast<double>(2 * of_cores.size() * kLarge_bytes) / time_s;
}

std::vector<CopyRates> sizes_of_copies() {
  std::vector<CopyRates> sizes;
  for (std::size_t bytes = kFewest_bytes; bytes <= 2 * kLarge_bytes; bytes *= 2) sizes.push_back({bytes, {}});
  return sizes;
}

template <class Copy>
void sample(std::vector<CopyRates>& sizes, Buffers& buffers, const Copy& copies) {
  for (CopyRates& one : sizes) {
    one.samples.push_back(copy_rate(buffers, static_cast<std::size_t>(one.bytes), copies));
  }
}

}  // namespace

Rates measure_rates(std::uint32_t samples) {
  Rates rates;
  Buffers block(kBlock_bytes);
  std::vector<Buffers> of_cores;
  for (unsigned core = 0; core < allowed_cores(); ++core) of_cores.emplace_back(kLarge_bytes);
  rates.by_bytes = sizes_of_copies();
  if (kernel_copies()) rates.kernel = sizes_of_copies();
  for (std::uint32_t number = 0; number < samples; ++number) {
    sample(rates.by_bytes, of_cores.front(), copy_here);
    sample(rates.kernel, of_cores.front(), copy_by_kernel);
    rates.copy.push_back(copy_rate(block, 2 * kBlock_bytes, copy_here));
    rates.reduce.push_back(reduce_rate(block));
    rates.memory.push_back(memory_rate(of_cores));
  }
  return rates;
}

}  // namespace outrigger::sim
