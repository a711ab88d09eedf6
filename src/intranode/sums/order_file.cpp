#include "intranode/sums/order_file.hpp"

#include <sstream>
#include <utility>

namespace outrigger::intranode {
namespace {

constexpr std::size_t kMostLines = 4096;

std::string words_of(const OrderKey& key) {
  std::ostringstream words;
  words << key.form << ' ' << key.members << ' ' << name_of(key.reduction.operation) << ' '
        << name_of(key.reduction.type) << ' ' << key.elements;
  return words.str();
}

bool is_line(const std::string& words_of_key, const std::string& value) {
  std::istringstream words(words_of_key);
  std::string form;
  std::string operation;
  std::string type;
  std::uint32_t members = 0;
  std::uint64_t elements = 0;
  words >> form >> members >> operation >> type >> elements;
  std::string more;
  if (!words || (words >> more)) return false;
  return value == "native" || SumOrder::parse(value).has_value();
}

}  // namespace

OrderFile::OrderFile(std::string placement, std::string mpi, void (*refuse)(const std::string& path))
    : cache_(
          {"outrigger-sums 1", "sums", kMostLines, &is_line}, std::move(placement),
          [mpi = std::move(mpi)] { return mpi; }, refuse) {}

std::optional<OrderFile::Found> OrderFile::find(const OrderKey& key) {
  const std::optional<std::string> value = cache_.find(words_of(key));
  if (!value) return std::nullopt;
  return Found{SumOrder::parse(*value)};
}

void OrderFile::note(const OrderKey& key, const std::optional<SumOrder>& order) {
  cache_.note(words_of(key), order ? order->text() : "native");
}

void OrderFile::save() {
  cache_.save();
}

}  // namespace outrigger::intranode
