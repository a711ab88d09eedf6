#include "request.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace outrigger::slurm {
namespace {

using ::testing::HasSubstr;

struct Words {
  explicit Words(std::vector<std::string> given) : texts(std::move(given)) {
    for (std::string& text : texts) pointers.push_back(text.data());
  }
  std::vector<std::string> texts;
  std::vector<char*> pointers;
};

TEST(Request, WordsAreOptionalAndInAnyOrder) {
  EXPECT_EQ(parse_request("").value().way, Way::on);
  EXPECT_EQ(parse_request("off").value().way, Way::off);
  const Request both = parse_request("mpich,report").value();
  EXPECT_EQ(both.way, Way::report);
  EXPECT_EQ(both.abi, "mpich");
  EXPECT_EQ(parse_request("openmpi").value().way, Way::on);
}

TEST(Request, UnknownWordsAreNamedWithTheKnownOnes) {
  EXPECT_THAT(parse_request("yes").error(), HasSubstr("'yes' is unknown; write on, off or report"));
  EXPECT_THAT(parse_request("on,,off").error(), HasSubstr("'' is unknown"));
}

TEST(Site, OffByDefault) {
  EXPECT_EQ(parse_site({}).value().initial.way, Way::off);
  Words words({"default=on,mpich", "prefix=/opt/outrigger"});
  const Site site = parse_site(words.pointers).value();
  EXPECT_EQ(site.initial.way, Way::on);
  EXPECT_EQ(site.initial.abi, "mpich");
  EXPECT_EQ(site.prefix, "/opt/outrigger");
}

TEST(Site, UnknownWordsAreErrors) {
  Words unknown({"defualt=on"});
  EXPECT_THAT(parse_site(unknown.pointers).error(), HasSubstr("'defualt=on' is neither default=WORDS nor prefix="));
  Words wrong({"default=maybe"});
  EXPECT_THAT(parse_site(wrong.pointers).error(), HasSubstr("'maybe' is unknown"));
}

TEST(Library, IsForTheProgramsMpi) {
  EXPECT_EQ(abi_of({"libm.so.6", "libmpi.so.40", "libc.so.6"}), "openmpi");
  EXPECT_EQ(abi_of({"libmpich.so.12"}), "mpich");
  EXPECT_EQ(abi_of({"libmpi_abi.so.1"}), "mpiabi");
  EXPECT_EQ(abi_of({"libmpi.so.1", "libc.so.6"}), "");
}

TEST(Library, IsBelowThePrefixOrWithThePlugin) {
  EXPECT_EQ(library_for("mpich", "/opt/o", "/lib/slurm"), "/opt/o/lib/liboutrigger-mpich.so");
  EXPECT_EQ(library_for("mpich", "", "/lib/slurm"), "/lib/slurm/liboutrigger-mpich.so");
  EXPECT_EQ(library_for("lam", "/opt/o", ""), "");
}

}  // namespace
}  // namespace outrigger::slurm
