#include "intranode/sums/sum_order.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace outrigger::intranode {
namespace {

TEST(Order, IsWhatItsTextSays) {
  const SumTree tree = SumTree::linear(3);
  const auto other = SumTree::parse("((0,2),1)").value();
  const SumOrder order = SumOrder::of({{5, tree}, {9, other}, {SumOrder::kRest, tree}}).value();
  EXPECT_EQ(order.text(), "5:((0,1),2);9:((0,2),1);((0,1),2)");
  EXPECT_EQ(SumOrder::parse(order.text()), order);
  EXPECT_EQ(SumOrder::parse("((0,1),2)"), SumOrder(tree));
  for (const char* text :
       {"", ";", "5:((0,1),2)", "5:((0,1),2);", "5:((0,1),2);5:((0,1),2);((0,1),2)", "0:((0,1),2);((0,1),2)",
        "5:((0,1),2);(0,1)", "x:(0,1);(0,1)", "5(0,1);(0,1)", "18446744073709551615:(0,1);(0,1)"})
    EXPECT_EQ(SumOrder::parse(text), std::nullopt) << text;
  std::string many = "(0,1)";
  for (std::size_t part = SumOrder::kMostParts; part > 0; --part) many.insert(0, std::to_string(part) + ":(0,1);");
  EXPECT_EQ(SumOrder::parse(many), std::nullopt);
  EXPECT_TRUE(SumOrder::parse(std::string_view(many).substr(many.find(';') + 1)));
}

TEST(Order, EvaluatesAnyPiece) {
  const SumTree tree = SumTree::linear(3);
  const auto other = SumTree::parse("((0,2),1)").value();
  const SumOrder order = SumOrder::of({{5, tree}, {9, other}, {SumOrder::kRest, tree}}).value();
  constexpr std::size_t kElements = 14;
  std::vector<std::vector<double>> values(3, std::vector<double>(kElements));
  for (std::size_t t = 0; t < kElements; ++t) {
    values[0][t] = 1e16;
    values[1][t] = 3;
    values[2][t] = -1e16;
  }
  ASSERT_NE((1e16 + 3) - 1e16, (1e16 - 1e16) + 3);
  const Reduction sum{ReduceOperation::sum, ElementType::float64};
  for (std::size_t first = 0; first <= kElements; ++first) {
    for (std::size_t elements = 0; first + elements <= kElements; ++elements) {
      std::vector<double> out(kElements + 1, -1);
      std::vector<const std::byte*> from;
      for (const auto& each : values) from.push_back(reinterpret_cast<const std::byte*>(each.data() + first));
      EXPECT_EQ(evaluate(order, sum, from, reinterpret_cast<std::byte*>(out.data()), first, elements), Bits::exact);
      for (std::size_t t = 0; t < elements; ++t) {
        const bool in_other = first + t >= 5 && first + t < 9;
        EXPECT_EQ(out[t], in_other ? (1e16 - 1e16) + 3 : (1e16 + 3) - 1e16) << first << " " << t;
      }
      EXPECT_EQ(out[elements], -1);
    }
  }
  values[1][12] = std::nan("");
  std::vector<double> out(kElements);
  std::vector<const std::byte*> from;
  for (const auto& each : values) from.push_back(reinterpret_cast<const std::byte*>(each.data()));
  EXPECT_EQ(evaluate(order, sum, from, reinterpret_cast<std::byte*>(out.data()), 0, 12), Bits::exact);
  EXPECT_EQ(evaluate(order, sum, from, reinterpret_cast<std::byte*>(out.data()), 0, 13), Bits::ask_native);
}

}  // namespace
}  // namespace outrigger::intranode
