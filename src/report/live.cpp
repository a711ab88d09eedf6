#include "report/live.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "report/message_pack.hpp"
#include "report/names.hpp"
#include "report/summary.hpp"

namespace outrigger::report {
namespace {

constexpr std::array<const char*, kCallForms> kFormNames{"blocking", "nonblocking", "persistent"};

constexpr std::size_t kHeadBytes = 12;

// A rank's ledger, copied and checked.
struct Counted {
  LedgerHeader header;
  std::vector<LedgerRow> rows;
  const LiveRank* rank = nullptr;
};

// Indices in a list of names, in the order of first use.
template <class Key>
class Places {
 public:
  std::size_t of(const Key& key) {
    const auto [found, is_new] = places_.emplace(key, keys_.size());
    if (is_new) keys_.push_back(key);
    return found->second;
  }
  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }

 private:
  std::map<Key, std::size_t> places_;
  std::vector<Key> keys_;
};

class Frame {
 public:
  explicit Frame(const LiveNode& node) : node_(node) {
    for (const LiveRank& rank : node.ranks) {
      std::optional<CheckedLedger> ledger = check_ledger(rank.ledger);
      if (ledger) ranks_.push_back({ledger->header, std::move(ledger->rows), &rank});
    }
  }

  std::vector<std::byte> bytes() {
    pack_rows();  // these fill calls_, communicators_ and places_
    pack_present();
    pack_messages();
    MessagePack& out = out_;
    out.bytes().resize(kHeadBytes);
    out.map(25);
    pack_job();
    pack_names("reaches", kByteNames);
    pack_names("reasons", kReasonNames);
    pack_calls();
    pack_communicators();
    pack_ranks();
    out.text("rows");
    out.list(row_count_);
    out.bytes().insert(out.bytes().end(), rows_.bytes().begin(), rows_.bytes().end());
    out.field("rows_left_out", left_out_);
    pack_places();
    out.text("present");
    out.list(present_count_);
    out.bytes().insert(out.bytes().end(), present_.bytes().begin(), present_.bytes().end());
    out.text("messages");
    out.list(message_count_);
    out.bytes().insert(out.bytes().end(), messages_.bytes().begin(), messages_.bytes().end());
    out.text("shows_messages");
    out.boolean(std::ranges::any_of(ranks_, [](const Counted& rank) { return rank.header.shows_messages != 0; }));
    pack_services();
    pack_wire();
    pack_links();
    pack_dpu();
    return framed();
  }

 private:
  void pack_job() {
    static const LedgerHeader kNone{};
    const LedgerHeader& first = ranks_.empty() ? kNone : ranks_.front().header;
    out_.field("job", std::string_view(node_.job));
    out_.field("host", std::string_view(node_.host));
    out_.field("keeper", static_cast<std::uint64_t>(node_.keeper));
    out_.field("uid", std::uint64_t{node_.uid});
    out_.field("node", std::uint64_t{first.node});
    out_.field("nodes", std::uint64_t{first.nodes});
    out_.field("world", std::uint64_t{first.world_size});
    out_.field("mpi", std::string_view(text_in(first.mpi)));
    out_.field("at_ns", static_cast<std::uint64_t>(node_.at_ns));
  }

  template <std::size_t count>
  void pack_names(std::string_view field, const std::array<const char*, count>& names) {
    out_.text(field);
    out_.list(count);
    for (const char* name : names) out_.text(name);
  }

  void pack_calls() {
    out_.text("calls");
    out_.list(calls_.keys().size());
    for (const std::uint32_t index : calls_.keys()) {
      const CallKind kind = call_kind_at(index);
      const std::optional<Collective> collective = offloaded_as(kind.call);
      out_.list(3);
      out_.text(name_of(kind));
      out_.text(kFormNames[static_cast<std::size_t>(kind.form)]);
      collective ? out_.text(name_of(*collective)) : out_.nil();
    }
  }

  void pack_communicators() {
    out_.text("communicators");
    out_.list(communicators_.keys().size());
    for (const GroupId& id : communicators_.keys()) {
      const LedgerRow& row = *of_group_.at(id);
      out_.list(5);
      out_.text(text_of(id));
      out_.text(communicator_of(row));
      out_.number(row.size);
      out_.number(row.members.first);
      out_.number(row.members.stride);
    }
  }

  void pack_ranks() {
    out_.text("ranks");
    out_.list(ranks_.size());
    for (const Counted& rank : ranks_) {
      const std::int64_t until_ns = rank.header.ended_ns != 0 ? rank.header.ended_ns : node_.at_ns;
      out_.list(8);
      out_.number(rank.header.world_rank);
      out_.number(static_cast<std::uint64_t>(rank.rank->pid));
      out_.number(rank.header.service.sp);
      out_.boolean(rank.rank->gone);
      out_.real(1e-9 * (static_cast<double>(until_ns) - static_cast<double>(rank.header.started_ns)));
      out_.real(1e-9 * static_cast<double>(rank.header.cpu_in_calls_ns));
      out_.real(1e-9 * static_cast<double>(rank.header.waits.slept_ns));
      out_.boolean(rank.header.ended_ns != 0);
    }
  }

  void pack_rows() {
    for (std::size_t place = 0; place < ranks_.size(); ++place) {
      for (const LedgerRow& row : ranks_[place].rows) {
        if (!row.is_call() || (row.calls == 0 && row.call_ns == 0)) continue;
        if (row_count_ == kMostLiveRows) {
          ++left_out_;
          continue;
        }
        ++row_count_;
        of_group_.emplace(row.group, &row);
        pack_row(place, row);
      }
    }
  }

  void pack_row(std::size_t rank, const LedgerRow& row) {
    rows_.list(15);
    rows_.number(rank);
    rows_.number(calls_.of(row.kind));
    rows_.number(communicators_.of(row.group));
    for (const std::uint64_t count : {row.calls, row.offloaded, row.bytes, row.least_bytes, row.most_bytes}) {
      rows_.number(count);
    }
    for (const std::int64_t time_ns : {row.time_ns(), row.hidden_ns, row.late_ns, row.most_late_ns}) {
      rows_.number(static_cast<std::uint64_t>(time_ns));
    }
    rows_.number(row.late);
    pack_counts(row.native);
    pack_counts(row.reached);
  }

  void pack_present() {
    for (std::size_t place = 0; place < ranks_.size(); ++place) {
      for (const PresentCall& call : ranks_[place].header.present) {
        if (call.since_ns != 0) pack_call(place, call);
      }
    }
  }

  void pack_call(std::size_t rank, const PresentCall& call) {
    const Counted& counted = ranks_[rank];
    const LedgerRow* row = row_at(counted, call.row);
    const LedgerRow* site = row_at(counted, call.site);
    if (row == nullptr || !row->is_call()) return;
    ++present_count_;
    of_group_.emplace(row->group, row);
    present_.list(8);
    present_.number(rank);
    present_.number(calls_.of(row->kind));
    present_.number(communicators_.of(row->group));
    const bool has_place = site != nullptr && site->is_site();
    present_.signed_number(!has_place ? -1 : static_cast<std::int64_t>(place_of(counted, site->site, site->caller)));
    present_.boolean(call.inside != 0);
    present_.boolean(call.waits != 0);
    present_.number(call.ordinal);
    present_.real(seconds_since(call.since_ns));
  }

  [[nodiscard]] double seconds_since(std::int64_t since_ns) const {
    return 1e-9 * std::max(0.0, static_cast<double>(node_.at_ns) - static_cast<double>(since_ns));
  }

  void pack_messages() {
    for (std::size_t place = 0; place < ranks_.size(); ++place) {
      for (const PresentMessage& message : ranks_[place].header.messages) {
        if (message.calls != 0 && message.call < kMessageCalls.size()) pack_message(place, message);
      }
    }
  }

  void pack_message(std::size_t rank, const PresentMessage& message) {
    const Counted& counted = ranks_[rank];
    ++message_count_;
    messages_.list(14);
    messages_.number(rank);
    messages_.text(kMessageCalls[message.call]);
    messages_.boolean(message.inside != 0);
    messages_.boolean(std::ranges::any_of(counted.header.present, [&](const PresentCall& call) {
      return call.thread == message.thread && call.since_ns != 0;
    }));
    messages_.number(message.calls);
    messages_.real(seconds_since(message.since_ns));
    const bool has_place = message.site.object != 0;
    messages_.signed_number(!has_place ? -1
                                       : static_cast<std::int64_t>(place_of(counted, message.site, message.caller)));
    message.has_name != 0 ? messages_.text(text_in(message.name)) : messages_.nil();
    messages_.number(message.has_name != 0 ? message.size : 0);
    for (const MessagePeer& peer : {message.to, message.from}) {
      messages_.signed_number(peer.rank);
      messages_.signed_number(peer.tag);
    }
    messages_.number(message.requests);
  }

  // The rank writes these numbers without a lock.
  [[nodiscard]] static const LedgerRow* row_at(const Counted& rank, std::uint32_t number) {
    return number == 0 || number > rank.rows.size() ? nullptr : &rank.rows[number - 1];
  }

  [[nodiscard]] std::size_t place_of(const Counted& rank, const CodePlace& site, const CodePlace& caller) {
    const auto object = [&](const CodePlace& place) { return object_of(rank.header, place); };
    return places_.of({object(site), site.offset, object(caller), caller.offset});
  }

  void pack_places() {
    out_.text("places");
    out_.list(places_.keys().size());
    for (const auto& [object, offset, caller, caller_offset] : places_.keys()) {
      out_.list(4);
      out_.text(object);
      out_.number(offset);
      out_.text(caller);
      out_.number(caller_offset);
    }
  }

  template <std::size_t count>
  void pack_counts(const std::array<std::uint64_t, count>& values) {
    rows_.list(static_cast<std::size_t>(std::ranges::count_if(values, [](auto value) { return value != 0; })));
    for (std::size_t i = 0; i < count; ++i) {
      if (values[i] == 0) continue;
      rows_.list(2);
      rows_.number(i);
      rows_.number(values[i]);
    }
  }

  void pack_services() {
    out_.text("services");
    out_.list(node_.services.size());
    for (const LiveService& service : node_.services) {
      out_.list(9);
      out_.number(service.number);
      out_.number(static_cast<std::uint64_t>(service.pid));
      out_.signed_number(service.cpu);
      out_.boolean(service.core_is_free);
      out_.number(service.ran_ns);
      out_.number(service.waited_ns);
      out_.number(service.restarts);
      out_.signed_number(service.other_job);
      out_.text(service.warning);
    }
  }

  void pack_wire() {
    out_.text("wire");
    out_.list(node_.wire.size());
    for (const WireRoute& route : node_.wire) {
      out_.list(2);
      out_.text(route.kind());
      out_.text(transports_of(route));
    }
  }

  void pack_links() {
    std::vector<const LiveLink*> largest;
    LiveLink all;
    for (const LiveLink& link : node_.links) {
      largest.push_back(&link);
      all.sent_bytes += link.sent_bytes;
      all.received_bytes += link.received_bytes;
    }
    const std::size_t told = std::min(largest.size(), kMostLiveLinks);
    const auto bytes = [](const LiveLink* link) { return link->sent_bytes + link->received_bytes; };
    std::ranges::partial_sort(largest, largest.begin() + static_cast<std::ptrdiff_t>(told), std::ranges::greater(),
                              bytes);
    out_.text("links");
    out_.list(told);
    for (const LiveLink* link : std::span(largest).first(told)) {
      out_.list(4);
      out_.number(link->node);
      out_.text(link->name);
      out_.number(link->sent_bytes);
      out_.number(link->received_bytes);
    }
    out_.text("all_links");
    out_.list(3);
    for (const std::uint64_t number : {std::uint64_t{largest.size()}, all.sent_bytes, all.received_bytes}) {
      out_.number(number);
    }
  }

  void pack_dpu() {
    out_.text("dpu");
    out_.list(3);
    out_.text(node_.dpu.name);
    out_.number(node_.dpu.read_bytes);
    out_.number(node_.dpu.written_bytes);
  }

  // The caller has reserved the room.
  [[nodiscard]] std::vector<std::byte> framed() {
    const std::size_t bytes = out_.bytes().size() - kHeadBytes;
    const std::array<std::uint32_t, 3> head{kLiveMagic, kLiveVersion, static_cast<std::uint32_t>(bytes)};
    static_assert(sizeof head == kHeadBytes);
    std::memcpy(out_.bytes().data(), head.data(), kHeadBytes);
    return std::move(out_.bytes());
  }

  const LiveNode& node_;
  std::vector<Counted> ranks_;
  Places<std::uint32_t> calls_;  // by index_of(CallKind)
  Places<GroupId> communicators_;
  std::map<GroupId, const LedgerRow*> of_group_;  // any row of that group
  Places<std::tuple<std::string, std::uint64_t, std::string, std::uint64_t>> places_;
  MessagePack out_;
  MessagePack rows_;
  MessagePack present_;
  std::size_t present_count_ = 0;
  MessagePack messages_;
  std::size_t message_count_ = 0;
  std::size_t row_count_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace

std::vector<std::byte> live_frame(const LiveNode& node) {
  return Frame(node).bytes();
}

}  // namespace outrigger::report
