// Linked like the preload library (src/mpi/native/unwinding.cpp): its own exceptions, and those of its callers.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/native/die.hpp"

namespace outrigger::mpi {

void die(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::abort();
}

}  // namespace outrigger::mpi

namespace {

void throw_again() {
  try {
    throw std::runtime_error("thrown");
  } catch (const std::exception& first) {
    if (std::string_view(first.what()) != "thrown") return;
    throw;
  }
}

bool catches_again() {
  try {
    throw_again();
  } catch (const std::runtime_error& error) {
    return std::string_view(error.what()) == "thrown";
  }
  return false;
}

// Thrown by the runtime, through frames with objects.
bool catches_from_runtime() {
  try {
    std::vector<std::string> texts(3, std::string(100, 'x'));
    static_cast<void>(texts.at(texts.size()));
  } catch (...) {
    return true;
  }
  return false;
}

struct Count {
  explicit Count(int& destroyed) : destroyed_(destroyed) {}
  Count(const Count&) = delete;
  Count& operator=(const Count&) = delete;
  ~Count() { ++destroyed_; }
  int& destroyed_;
};

}  // namespace

extern "C" {

bool catches_own() {
  return catches_again() && catches_from_runtime() && catches_again();
}

// Exceptions of `call` pass to the caller, despite handlers here.
void pass_through(void (*call)(), int* destroyed) {
  const Count outer(*destroyed);
  try {
    const Count inner(*destroyed);
    call();
  } catch (const std::exception&) {
    *destroyed = -1;
  }
}

}  // extern "C"
