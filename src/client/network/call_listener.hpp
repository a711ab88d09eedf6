// Lets a service process on the DPU connect whatever the program does, which may compute, or sit in a call of its MPI
// that waits for others: a thread that sleeps until one would like to (SegmentHeader::dpu_calls), and is awake for some
// milliseconds then. It handles no signals, calls no MPI, and is not there in forked children.
//
// Thread rule: start() and stop() by one thread at a time.
#pragma once

#include <pthread.h>

#include <atomic>

#include "client/endpoint_lock.hpp"
#include "client/network/rank_network.hpp"
#include "protocol/segment.hpp"

namespace outrigger::client {

class CallListener {
 public:
  // All must stay until stop().
  CallListener(SegmentHeader& header, EndpointLock& lock) : header_(header), lock_(lock) {}
  CallListener(const CallListener&) = delete;
  CallListener& operator=(const CallListener&) = delete;
  ~CallListener() { stop(); }

  // Where there can be no thread, completion calls let service processes connect.
  void start(RankNetwork& network);
  // Afterwards there is no thread. Without the lock.
  void stop();
  // In a forked child, where the thread is not.
  void forget() { started_ = false; }

 private:
  static void* main(void* self);
  void listen();

  SegmentHeader& header_;
  EndpointLock& lock_;
  RankNetwork* network_ = nullptr;
  pthread_t thread_{};
  bool started_ = false;
  std::atomic<bool> stop_{false};
};

}  // namespace outrigger::client
