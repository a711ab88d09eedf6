#include "protocol/course.hpp"

namespace outrigger {
namespace {

constexpr std::size_t kFirstChoice = Course::kWords - kMostChoices;
constexpr std::uint32_t kForGood = 1;
constexpr std::uint32_t kFailing = 1U << 31U;  // beside a trial's ways

std::uint32_t encode_choice(const Choice& choice) {
  return std::uint32_t{choice.key.value} << 16U | std::uint32_t{choice.way.value} << 8U |
         (choice.for_good ? kForGood : 0);
}

Choice decode_choice(std::uint32_t word) {
  return {{static_cast<std::uint16_t>(word >> 16U)}, {static_cast<std::uint8_t>(word >> 8U)}, (word & kForGood) != 0};
}

// `earlier`: of those before it.
bool is_valid(const Choice& choice, const Course& earlier) {
  if (!choice.key.known()) return choice == Choice{};
  return choice.way.possible_for(choice.key) && earlier.choice(choice.key) == nullptr &&
         (choice.way.is_native() || !choice.for_good);
}

}  // namespace

Course::Words Course::encode() const {
  Words words{};
  words[0] = suspended.busy;
  words[1] = suspended.small;
  words[2] = std::uint32_t{trial.number} << 16U | trial.key.value;
  words[3] = std::uint32_t{trial.usual.value} << 16U | std::uint32_t{trial.other.value} << 8U | trial.window_log2 |
             (suspended.failing ? kFailing : 0);
  for (std::size_t i = 0; i < kMostChoices; ++i) words[kFirstChoice + i] = encode_choice(choices[i]);
  return words;
}

std::optional<Course> Course::decode(const Words& words) {
  Course course;
  course.suspended = {words[0], words[1], (words[3] & kFailing) != 0};
  course.trial.number = static_cast<std::uint16_t>(words[2] >> 16U);
  course.trial.key.value = static_cast<std::uint16_t>(words[2]);
  course.trial.usual.value = static_cast<std::uint8_t>(words[3] >> 16U);
  course.trial.other.value = static_cast<std::uint8_t>(words[3] >> 8U);
  course.trial.window_log2 = static_cast<std::uint8_t>(words[3]);
  if (!course.trial.valid()) return std::nullopt;
  bool last = false;
  for (std::size_t i = 0; i < kMostChoices; ++i) {
    const Choice choice = decode_choice(words[kFirstChoice + i]);
    if (!is_valid(choice, course) || (last && choice.key.known())) return std::nullopt;
    last = !choice.key.known();
    course.choices[i] = choice;
  }
  return course.encode() == words ? std::optional(course) : std::nullopt;
}

}  // namespace outrigger
