#include "service/dpu/daemon/kept_figures.hpp"

#include <atomic>

namespace outrigger::service {

void KeptFigures::Sums::add(const ServicePages& pages) {
  constexpr auto kOrder = std::memory_order_relaxed;
  read_bytes += pages.host_memory.received_bytes.load(kOrder);
  written_bytes += pages.host_memory.sent_bytes.load(kOrder);
  links.resize(kLinkPlaces);
  for (std::size_t place = 0; place < kLinkPlaces; ++place) {
    links[place].sent_bytes += pages.links[place].sent_bytes.load(kOrder);
    links[place].received_bytes += pages.links[place].received_bytes.load(kOrder);
  }
}

void KeptFigures::keep(const ServicePages* pages) {
  if (pages != nullptr) of_the_dead_.add(*pages);
}

void KeptFigures::answer(DpuLink& link, const DpuFiguresAsk& ask, std::span<const ServicePages* const> shown) const {
  Sums all = of_the_dead_;
  for (const ServicePages* pages : shown) {
    if (pages != nullptr) all.add(*pages);
  }
  DpuFigures told{ask.number, all.read_bytes, all.written_bytes, {}};
  for (std::uint32_t node = 0; node < all.links.size(); ++node) {
    const DpuLinkFigures& one = all.links[node];
    if (one.sent_bytes + one.received_bytes == 0) continue;
    told.links.push_back({node, one.sent_bytes, one.received_bytes});
  }
  link.send(DpuFrameKind::figures, 0, {}, encoded(told));
}

}  // namespace outrigger::service
