#include "intranode/sums/order_file.hpp"

#include <sstream>
#include <utility>

namespace outrigger::intranode {
namespace {

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
  return value == "native" || parse_orders(value).has_value();
}

}  // namespace

std::string text_of(const MemberOrders& orders) {
  std::string text;
  for (const SumOrder& order : orders) text.append(text.empty() ? "" : "|").append(order.text());
  return text;
}

std::optional<MemberOrders> parse_orders(std::string_view text) {
  MemberOrders orders;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = text.find('|');
    const std::optional<SumOrder> order = SumOrder::parse(text.substr(0, end));
    if (!order || orders.size() == SumTree::kMostMembers) return std::nullopt;
    orders.push_back(*order);
    if (end != std::string_view::npos) text.remove_prefix(end + 1);
  }
  return orders;
}

OrderFile::OrderFile(std::string placement, std::string mpi, void (*refuse)(const std::string& path))
    : cache_(
          {"outrigger-sums 2", "sums", kMostLines, &is_line, {}, kMostBytes}, std::move(placement),
          [mpi = std::move(mpi)] { return mpi; }, refuse) {}

std::optional<MemberOrders> OrderFile::find(const OrderKey& key) {
  const std::optional<std::string> value = cache_.find(words_of(key));
  if (!value) return std::nullopt;
  return *value == "native" ? MemberOrders() : parse_orders(*value);
}

void OrderFile::note(const OrderKey& key, const MemberOrders& orders) {
  cache_.note(words_of(key), orders.empty() ? "native" : text_of(orders));
}

void OrderFile::save() {
  cache_.save();
}

}  // namespace outrigger::intranode
