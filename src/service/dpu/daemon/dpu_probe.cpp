#include "service/dpu/daemon/dpu_probe.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "fabric/dpu/probe.hpp"
#include "proof/dpu_handshake.hpp"
#include "protocol/options/secret_text.hpp"
#include "protocol/options/transports.hpp"

namespace outrigger::service {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kProbeTime{20};

int complain(const std::string& reason) {
  std::fprintf(stderr, "outriggerd: %s\n", reason.c_str());
  return 1;
}

void print(const DpuProbed& probed) {
  nlohmann::json found;
  found["reach"] = (probed.reach & kReachAlias) != 0 ? "alias" : (probed.reach & kReachRdma) != 0 ? "rdma" : "none";
  found["device"] = probed.device.data();
  if (probed.reach == 0) {
    found["problem"] = probed.text.data();
  } else {
    found["round_trip_us"] = probed.round_trip_us;
    found["bandwidth_bytes_per_s"] = probed.bytes_per_s;
  }
  std::printf("%s\n", found.dump().c_str());
}

// The network makes progress until the DPU has connected, and is idle from then on.
Result<DpuProbed> ask(DpuLink& link, fabric::dpu::ProbedMemory& memory) {
  link.send(DpuFrameKind::probe, 0, {}, encoded(memory.address()));
  bool quiet = false;
  const Clock::time_point deadline = Clock::now() + kProbeTime;
  while (Clock::now() < deadline) {
    if (!quiet) memory.progress();
    link.work(Clock::now());
    const std::optional<DpuFrame> frame = link.next();
    if (!frame) {
      if (!link.open()) return Error{"the DPU: " + link.problem()};
      continue;
    }
    if (frame->kind == DpuFrameKind::wired) {
      quiet = true;
      memory.be_quiet();
    }
    if (frame->kind != DpuFrameKind::probed) continue;
    std::optional<DpuProbed> probed = decoded<DpuProbed>(frame->packet);
    if (!probed) return Error{"the DPU sent a malformed answer"};
    probed->device.back() = '\0';
    probed->text.back() = '\0';
    return *probed;
  }
  return Error{"the DPU does not answer"};
}

}  // namespace

int run_dpu_probe(const std::string& address) {
  (void)::signal(SIGPIPE, SIG_IGN);
  const Result<Secret> secret = read_secret_line();
  if (!secret) return complain(secret.error());
  const Clock::time_point deadline = Clock::now() + kDpuSilence;
  Result<DpuLink> link = DpuLink::connect(address, deadline);
  if (!link) return complain("DPU " + address + ": " + link.error());
  const auto host = proof::DpuHandshake::Side::host;
  if (Status status = proof::run_dpu_handshake(link.value().fd(), host, secret.value(), deadline); !status) {
    return complain("DPU " + address + ": " + status.error());
  }
  Result<std::unique_ptr<fabric::dpu::ProbedMemory>> memory = fabric::dpu::ProbedMemory::open(allowed_transports());
  if (!memory) return complain("this host: " + memory.error());
  const Result<DpuProbed> probed = ask(link.value(), *memory.value());
  if (!probed) return complain(probed.error());
  print(probed.value());
  (void)std::fflush(stdout);
  ::_exit(0);  // skips UCX's destructors, as service processes do
}

void answer_probe(DpuLink& link, const DpuFrame& question) {
  const Result<RankAddress> address = decode_rank_address(question.attached);
  const auto wired = [&link] { link.send(DpuFrameKind::wired, 0, {}); };
  fabric::dpu::DpuOptions options;
  options.transports = allowed_transports();
  const Result<fabric::dpu::ProbeFigures> figures = address ? fabric::dpu::probe_memory(address.value(), options, wired)
                                                            : Result<fabric::dpu::ProbeFigures>(Error{address.error()});
  DpuProbed probed;
  if (figures) {
    probed.reach = figures.value().reach;
    probed.round_trip_us = figures.value().round_trip_us;
    probed.bytes_per_s = figures.value().bytes_per_s;
    figures.value().device.copy(probed.device.data(), probed.device.size() - 1);
  } else {
    figures.error().copy(probed.text.data(), probed.text.size() - 1);
  }
  link.send(DpuFrameKind::probed, 0, encoded(probed));
}

}  // namespace outrigger::service
