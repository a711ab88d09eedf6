// A list that mostly has one element, for which it allocates nothing.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace outrigger {

template <class T>
class MostlyOne {
 public:
  void push_back(T element) {
    if (size_++ == 0) {
      first_ = std::move(element);
    } else {
      more_.push_back(std::move(element));
    }
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T& operator[](std::size_t index) { return index == 0 ? first_ : more_[index - 1]; }
  [[nodiscard]] const T& operator[](std::size_t index) const { return index == 0 ? first_ : more_[index - 1]; }

 private:
  T first_{};
  std::vector<T> more_;
  std::size_t size_ = 0;
};

}  // namespace outrigger
