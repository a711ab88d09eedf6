// A thread that serves the DPU while the program computes or blocks in its MPI. It sleeps until a service process wants
// to connect (SegmentHeader::dpu_calls), and then drives the network for some milliseconds. If the DPU is lost
// (kDpuLost) it leaves the DPU and ends. It handles no signals, calls no MPI, and does not exist in forked children.
//
// Thread rule: start() and stop() by one thread at a time.
#pragma once

#include <pthread.h>

#include <atomic>

#include "client/endpoint_lock.hpp"
#include "client/memory/regions.hpp"
#include "client/network/rank_network.hpp"
#include "client/operations/doorbell.hpp"
#include "client/start/control_channel.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

class CallListener {
 public:
  // All must stay until stop().
  CallListener(SegmentHeader& header, EndpointLock& lock, ControlChannel& control, Regions& regions, Doorbell& doorbell)
      : header_(header), lock_(lock), control_(control), regions_(regions), doorbell_(doorbell) {}
  CallListener(const CallListener&) = delete;
  CallListener& operator=(const CallListener&) = delete;
  ~CallListener() { stop(); }

  // If there can be no thread, completion calls let service processes connect.
  void start(RankNetwork& network);
  // Ends the thread. Without the lock.
  void stop();
  // In a forked child, which lacks the thread.
  void forget() { started_ = false; }

 private:
  static void* main(void* self);
  void listen();
  // Service processes of this node replace those on the DPU.
  void leave_dpu();

  SegmentHeader& header_;
  EndpointLock& lock_;
  ControlChannel& control_;
  Regions& regions_;
  Doorbell& doorbell_;
  RankNetwork* network_ = nullptr;
  pthread_t thread_{};
  bool started_ = false;
  std::atomic<bool> stop_{false};
};

}  // namespace outrigger::client
