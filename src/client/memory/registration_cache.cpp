#include "client/memory/registration_cache.hpp"

#include <algorithm>

namespace outrigger::client {
namespace {

constexpr std::uint64_t kPage = 4096;

}  // namespace

RegistrationCache::RegistrationCache(Registrar& registrar, SegmentView segment, UnmappedRanges* notes)
    : registrar_(registrar), segment_(segment), notes_(notes), places_(kKeyCount) {}

RegistrationCache::~RegistrationCache() {
  drop_all();
}

void RegistrationCache::drop_all() {
  for (std::uint32_t index = 0; index < places_.size(); ++index) {
    if (places_[index].registration != nullptr) drop(index);
  }
}

std::optional<RegionId> RegistrationCache::use(std::uint64_t address, std::uint64_t bytes) {
  drain();
  const std::uint64_t begin = address / kPage * kPage;
  std::uint64_t end = 0;
  if (bytes == 0 || __builtin_add_overflow(address, bytes + (kPage - 1), &end)) return std::nullopt;
  end = end / kPage * kPage;
  std::optional<std::uint32_t> index = find(begin, end);
  if (index) {
    ++hits_;
  } else {
    index = free_place();
    if (!index) return std::nullopt;
    KeyEntry& entry = segment_.key(*index);
    void* registration = registrar_.add(begin, end - begin, entry);
    // Other registrations may hold the resources.
    while (registration == nullptr && drop_oldest_idle()) registration = registrar_.add(begin, end - begin, entry);
    if (registration == nullptr) return std::nullopt;
    Place& place = places_[*index];
    place = Place{begin, end - begin, registration, place.generation + 1, 0, notes_ == nullptr, 0};
    entry.base = begin;
    entry.bytes = end - begin;
    entry.region = id_of(*index).value();
    ++registered_;
    if (notes_ != nullptr) ranges_.emplace(begin, *index);
    longest_ = std::max(longest_, end - begin);
  }
  Place& place = places_[*index];
  ++place.users;
  place.last_use = ++uses_;
  return id_of(*index);
}

void RegistrationCache::release(RegionId region) {
  if (!is_keyed(region) || places_.empty()) return;
  const std::uint32_t index = key_index(region);
  Place& place = places_[index];
  if (place.registration == nullptr || id_of(index) != region || place.users == 0) return;
  if (--place.users == 0 && place.stale) drop(index);
}

void RegistrationCache::forget(std::uint64_t address, std::uint64_t bytes) {
  drain();
  give_back(address, address + bytes);
}

void RegistrationCache::drain() {
  if (notes_ == nullptr || notes_->empty()) return;
  notes_->drain([this](std::uint64_t begin, std::uint64_t end) { give_back(begin, end); });
}

void RegistrationCache::give_back(std::uint64_t begin, std::uint64_t end) {
  auto item = ranges_.lower_bound(begin > longest_ ? begin - longest_ : 0);
  while (item != ranges_.end() && item->first < end) {
    const std::uint32_t index = item->second;
    Place& place = places_[index];
    if (place.base + place.bytes <= begin) {
      ++item;
      continue;
    }
    item = ranges_.erase(item);
    place.stale = true;
    if (place.users == 0) drop(index);
  }
}

std::optional<std::uint32_t> RegistrationCache::find(std::uint64_t begin, std::uint64_t end) const {
  for (auto item = ranges_.upper_bound(begin); item != ranges_.begin();) {
    --item;
    const Place& place = places_[item->second];
    if (place.base + place.bytes >= end) return item->second;
    if (begin - place.base >= longest_) break;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> RegistrationCache::free_place() {
  const auto is_free = [](const Place& place) { return place.registration == nullptr; };
  auto found = std::ranges::find_if(places_, is_free);
  if (found == places_.end() && drop_oldest_idle()) found = std::ranges::find_if(places_, is_free);
  if (found == places_.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - places_.begin());
}

bool RegistrationCache::drop_oldest_idle() {
  std::optional<std::uint32_t> oldest;
  for (std::uint32_t index = 0; index < places_.size(); ++index) {
    const Place& place = places_[index];
    if (place.registration == nullptr || place.users != 0) continue;
    if (!oldest || place.last_use < places_[*oldest].last_use) oldest = index;
  }
  if (!oldest) return false;
  drop(*oldest);
  return true;
}

void RegistrationCache::drop(std::uint32_t index) {
  Place& place = places_[index];
  const auto [first, last] = ranges_.equal_range(place.base);
  const auto found = std::find_if(first, last, [index](const auto& item) { return item.second == index; });
  if (found != last) ranges_.erase(found);
  registrar_.remove(place.registration);
  place.registration = nullptr;
  segment_.key(index).region = 0;
  --registered_;
}

}  // namespace outrigger::client
