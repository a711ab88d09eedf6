// Cluster files: the project's own files are valid, and errors in a file are reported with their line.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "sim/model/cluster.hpp"
#include "sim/model/quantity.hpp"

namespace outrigger::sim::model {
namespace {

TEST(Quantity, UnitsAreRequired) {
  EXPECT_EQ(parse_time_ns("1.2 us").value(), 1200U);
  EXPECT_EQ(parse_time_ns("3ms").value(), 3'000'000U);
  EXPECT_EQ(parse_bytes("64 KiB").value(), 65536U);
  EXPECT_EQ(parse_bytes("1.5MB").value(), 1'500'000U);
  EXPECT_DOUBLE_EQ(parse_bytes_per_s("100 Gbit/s").value(), 12.5e9);
  EXPECT_DOUBLE_EQ(parse_bytes_per_s("24 GB/s").value(), 24e9);
  for (const char* bad :
       {"", "us", "1", "-1 us", "1 kus", "1e5 us", "inf us", "nan s", "1  us", "1 us ", "9999999 s"}) {
    EXPECT_FALSE(parse_time_ns(bad)) << bad;
  }
  EXPECT_NE(parse_bytes_per_s("100 Gb").error().find("Gbit/s"), std::string::npos);
  EXPECT_NE(parse_bytes("100").error().find("no unit"), std::string::npos);
}

std::string box() {
  return R"(name = "box"
nodes = 4
[host]
cores = 2
memory = "20 GB/s"
copy = "10 GB/s"
reduce = "5 GB/s"
[mpi]
message = "5 us"
post = "5 us"
eager = "64 KiB"
thread_switch = "5 us"
[network]
topology = "fat_tree"
nodes_per_leaf = 2
taper = 2
wire = "memory"
link = "1 Gbit/s"
message = "0 ns"
latency = "15 us"
hop = "5 us"
queue = "256 KiB"
chunk = "64 KiB"
[service]
placement = "host_core"
reach = "direct"
per_node = 1
own_core = true
ranks_copy = false
notice = "1 us"
event = "2 us"
message = "8 us"
move = "2 us"
mark = "0.2 us"
copy = "10 GB/s"
reduce = "5 GB/s"
)";
}

std::string with(const std::string& line, const std::string& instead) {
  std::string text = box();
  const std::size_t at = text.find(line + "\n");
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), instead);
}

TEST(ClusterFile, EveryKeyIsRead) {
  const Result<Cluster> cluster = parse_cluster(box(), "box.toml");
  ASSERT_TRUE(cluster.ok()) << cluster.error();
  EXPECT_EQ(cluster.value().nodes, 4U);
  EXPECT_EQ(cluster.value().host.cores, 2U);
  EXPECT_DOUBLE_EQ(cluster.value().network.link_bytes_per_s, 125e6);
  EXPECT_DOUBLE_EQ(cluster.value().network.taper, 2);
  EXPECT_EQ(cluster.value().network.chunk_bytes, 65536U);
  EXPECT_EQ(cluster.value().service.notice_ns, 1000U);
  EXPECT_FALSE(cluster.value().pcie.present);
}

// Ranks copy for a DPU unless the file forbids it.
TEST(ClusterFile, RanksCopyForADpuByDefault) {
  const auto copies = [](const std::string& line) {
    std::string text = with("own_core = true\nranks_copy = false", line + "memory = \"80 GB/s\"\nlatency = \"0.1 us\"");
    const std::string host = "placement = \"host_core\"";
    text.replace(text.find(host), host.size(), "placement = \"dpu\"");
    const Result<Cluster> read = parse_cluster(text + "[pcie]\nrate = \"10 GB/s\"\nlatency = \"1 us\"\n", "f.toml");
    EXPECT_TRUE(read.ok()) << read.error();
    return read.ok() && read.value().service.ranks_copy;
  };
  EXPECT_TRUE(copies(""));
  EXPECT_TRUE(copies("ranks_copy = true\n"));
  EXPECT_FALSE(copies("ranks_copy = false\n"));
}

TEST(ClusterFile, OnlyADpuHasCopyCores) {
  const auto error = [](const std::string& text) { return parse_cluster(text, "f.toml").error(); };
  EXPECT_NE(error(with("per_node = 1", "per_node = 1\ncopy_cores = 1")).find("copy_cores"), std::string::npos);
}

TEST(ClusterFile, ErrorsNameLineKeyAndAllowedValues) {
  const auto error = [](const std::string& text) { return parse_cluster(text, "f.toml").error(); };
  const auto says = [](const std::string& whole, const std::string& part) {
    EXPECT_NE(whole.find(part), std::string::npos) << whole;
  };
  says(error(with("link = \"1 Gbit/s\"", "link = \"1 Gb\"")), "f.toml:18: network.link: '1 Gb' has the unit 'Gb'");
  says(error(with("link = \"1 Gbit/s\"", "link = 5")), "f.toml:18: network.link: a text in quotes");
  says(error(with("link = \"1 Gbit/s\"", "link = \"0 B/s\"")), "more than 0");
  says(error(with("link = \"1 Gbit/s\"", "")), "network.link: is missing");
  says(error(with("taper = 2", "taper = 1000")), "f.toml:16: network.taper: a number from 0.1 to 100");
  says(error(with("cores = 2", "cores = 0")), "f.toml:4: host.cores: a whole number from 1");
  says(error(with("cores = 2", "cores = 2\ncolour = 3")), "f.toml:5: host.colour: unknown key; allowed");
  says(error(with("wire = \"memory\"", "wire = \"air\"")), "'air' is none of: memory, processor");
  says(error(with("placement = \"host_core\"", "placement = \"dpu\"")), "service.own_core: unknown key");
  says(error(with("reach = \"direct\"", "reach = \"staged\"")),
       "with placement \"host_core\" write reach = \"direct\"");
  says(error(with("cores = 2", "cores = 2\nprocessors = 3")), "host.processors: nodes have 2 of these cores each");
  says(error(with("cores = 2", "cores = 2\nwaiting = \"sleep\"")), "'sleep' is none of: yield, spin");
  says(error("[host\n"), "f.toml:1: ");
  says(error("[\n"), "f.toml: not valid TOML");
  says(error("\n# 5 \xC2\xB5s\n"), "f.toml:2: a character that is not ASCII");
  says(error(""), "name: is missing");
  says(read_cluster("/does/not/exist.toml").error(), "/does/not/exist.toml: cannot be read");
}

TEST(ClusterFile, ConfidenceIntervalsAreChecked) {
  const auto error = [](const std::string& lines) {
    const Result<Cluster> cluster = parse_cluster(box() + lines, "f.toml");
    return cluster ? std::string() : cluster.error();
  };
  EXPECT_EQ(error("[confidence.host]\ncopy = [\"9 GB/s\", \"11 GB/s\"]\n"), "");
  EXPECT_EQ(error("[confidence]\n[confidence.service]\nevent = [\"2 us\", \"2 us\"]\n"), "");
  const auto says = [&error](const std::string& lines, const std::string& part) {
    EXPECT_NE(error(lines).find(part), std::string::npos) << error(lines);
  };
  says("[confidence.host]\ncopy = [\"11 GB/s\", \"12 GB/s\"]\n", "f.toml:38: confidence.host.copy: the value is not");
  says("[confidence.host]\ncopy = [\"9 us\", \"11 GB/s\"]\n", "confidence.host.copy: '9 us' has the unit 'us'");
  says("[confidence.host]\ncopy = [\"9 GB/s\"]\n", "confidence.host.copy: two texts");
  says("[confidence.host]\ncopy = 9\n", "confidence.host.copy: two texts");
  says("[confidence.host]\ncores = [\"1 B\", \"2 B\"]\n", "confidence.host.cores: the file has no quantity");
  says("[confidence.pcie]\nrate = [\"1 GB/s\", \"2 GB/s\"]\n", "confidence.pcie: the file has no table [pcie]");
  says("[confidence.colour]\n", "confidence.colour: unknown key");
}

TEST(ClusterFile, ProjectsFilesAreValid) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(OUTRIGGER_CLUSTERS)) {
    if (entry.path().extension() != ".toml") continue;  // the README
    const Result<Cluster> cluster = read_cluster(entry.path());
    EXPECT_TRUE(cluster.ok()) << cluster.error();
    ++files;
  }
  EXPECT_GE(files, 6U);
}

}  // namespace
}  // namespace outrigger::sim::model
