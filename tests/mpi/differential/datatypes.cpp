#include "datatypes.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace differential {
namespace {

struct Part {
  MPI_Datatype type;
  int bytes;
};

// The predefined types whose sequence is the unit's signature.
std::vector<Part> parts_of(UnitKind kind) {
  switch (kind) {
    case UnitKind::byte: return {{MPI_BYTE, 1}};
    case UnitKind::character: return {{MPI_CHAR, 1}};
    case UnitKind::short_int: return {{MPI_SHORT, 2}};
    case UnitKind::integer: return {{MPI_INT, 4}};
    case UnitKind::long_long: return {{MPI_LONG_LONG, 8}};
    case UnitKind::single: return {{MPI_FLOAT, 4}};
    case UnitKind::real: return {{MPI_DOUBLE, 8}};
    case UnitKind::pair: return {{MPI_DOUBLE, 8}, {MPI_INT, 4}};
    case UnitKind::record: return {{MPI_INT, 4}, {MPI_DOUBLE, 8}, {MPI_CHAR, 1}};
  }
  return {};
}

const char* name_of(UnitKind kind) {
  constexpr std::array<const char*, unit_kinds> names = {"byte",  "char",   "short", "int",   "long long",
                                                         "float", "double", "pair",  "record"};
  return names[static_cast<std::size_t>(kind)];
}

std::string text(const char* name, std::initializer_list<long> numbers) {
  std::string result = name;
  for (long number : numbers) {
    result += ' ';
    result += std::to_string(number);
  }
  return result;
}

// One after another with gaps, in the signature's order or, in memory, in reverse.
Datatype make_struct_unit(Random& random, UnitKind kind) {
  const std::vector<Part> parts = parts_of(kind);
  std::vector<int> lengths(parts.size(), 1);
  std::vector<MPI_Aint> displacements(parts.size());
  std::vector<MPI_Datatype> types(parts.size());
  const bool backwards = random.chance(30);
  MPI_Aint at = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t part = backwards ? parts.size() - 1 - i : i;
    at = (at + 7) / 8 * 8 + 8 * random.below(3);
    displacements[part] = at;
    types[part] = parts[part].type;
    at += parts[part].bytes;
  }
  MPI_Datatype type;
  MPI_Type_create_struct(static_cast<int>(parts.size()), lengths.data(), displacements.data(), types.data(), &type);
  return {type, true, std::string(backwards ? "reversed " : "") + name_of(kind) + " struct"};
}

Datatype make_unit(Random& random, UnitKind kind) {
#ifdef MPICH_VERSION
  // MPICH 4.0 reports truncation if a struct meets a pair type of the same signature, so they are not mixed.
  constexpr int predefined_percent = 100;
#else
  constexpr int predefined_percent = 50;
#endif
  if (kind == UnitKind::pair && random.chance(predefined_percent)) return {MPI_DOUBLE_INT, false, "MPI_DOUBLE_INT"};
  if (kind == UnitKind::pair || kind == UnitKind::record) return make_struct_unit(random, kind);
  const MPI_Datatype predefined = parts_of(kind).front().type;
  if (random.chance(10)) {
    MPI_Datatype copy;
    MPI_Type_dup(predefined, &copy);
    return {copy, true, std::string("dup of ") + name_of(kind)};
  }
  return {predefined, false, name_of(kind)};
}

// Splits `units` into pieces of at most `longest`.
std::vector<int> split(Random& random, int units, int longest) {
  std::vector<int> pieces;
  while (units > 0) {
    const int piece = std::min(units, random.between(1, longest));
    pieces.push_back(piece);
    units -= piece;
  }
  return pieces;
}

// Non-overlapping places for the pieces, with gaps, in any order; sometimes starting below zero.
std::vector<int> place(Random& random, const std::vector<int>& pieces) {
  std::vector<std::size_t> order(pieces.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (random.chance(50)) {
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(static_cast<int>(i)))]);
    }
  }
  std::vector<int> places(pieces.size());
  int at = random.chance(20) ? -random.below(10) : random.below(4);
  for (std::size_t i : order) {
    places[i] = at;
    at += pieces[i] + random.below(3);
  }
  return places;
}

int divisor(Random& random, int number) {
  std::vector<int> divisors;
  for (int candidate = 1; candidate <= number; ++candidate) {
    if (number % candidate == 0) divisors.push_back(candidate);
  }
  return divisors[static_cast<std::size_t>(random.below(static_cast<int>(divisors.size())))];
}

Datatype make_vector(Random& random, const Datatype& unit, int units, int block) {
  const int blocks = units / block;
  const int stride = (block + random.below(4)) * (random.chance(15) ? -1 : 1);
  MPI_Datatype type;
  if (random.chance(50)) {
    MPI_Type_vector(blocks, block, stride, unit.get(), &type);
    return {type, true, text("vector", {blocks, block, stride})};
  }
  const MPI_Aint bytes = stride * unit.span().extent + (stride > 0 ? 8 * random.below(3) : 0);
  MPI_Type_create_hvector(blocks, block, bytes, unit.get(), &type);
  return {type, true, text("hvector", {blocks, block, bytes})};
}

Datatype make_indexed(Random& random, const Datatype& unit, int units) {
  const std::vector<int> pieces = split(random, units, 5);
  const std::vector<int> places = place(random, pieces);
  const int count = static_cast<int>(pieces.size());
  MPI_Datatype type;
  if (random.chance(50)) {
    MPI_Type_indexed(count, pieces.data(), places.data(), unit.get(), &type);
    return {type, true, text("indexed", {count})};
  }
  std::vector<MPI_Aint> addresses(places.begin(), places.end());
  for (MPI_Aint& address : addresses) address *= unit.span().extent;
  MPI_Type_create_hindexed(count, pieces.data(), addresses.data(), unit.get(), &type);
  return {type, true, text("hindexed", {count})};
}

Datatype make_indexed_block(Random& random, const Datatype& unit, int units) {
  const int block = divisor(random, units);
  const std::vector<int> pieces(static_cast<std::size_t>(units / block), block);
  const std::vector<int> places = place(random, pieces);
  MPI_Datatype type;
  MPI_Type_create_indexed_block(units / block, block, places.data(), unit.get(), &type);
  return {type, true, text("indexed_block", {units / block, block})};
}

Datatype make_subarray(Random& random, const Datatype& unit, int units) {
  const int columns = divisor(random, units);
  const int subsizes[2] = {units / columns, columns};
  int sizes[2];
  int starts[2];
  for (int i = 0; i < 2; ++i) {
    sizes[i] = subsizes[i] + random.below(4);
    starts[i] = random.between(0, sizes[i] - subsizes[i]);
  }
  MPI_Datatype type;
  MPI_Type_create_subarray(2, sizes, subsizes, starts, random.chance(50) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, unit.get(),
                           &type);
  return {type, true, text("subarray", {subsizes[0], subsizes[1], sizes[0], sizes[1]})};
}

// Two different layouts, one after the other.
Datatype make_struct(Random& random, const Datatype& unit, int units) {
  const int first = random.between(1, units - 1);
  const Datatype head = make_vector(random, unit, first, divisor(random, first));
  const Datatype tail = make_indexed(random, unit, units - first);
  const Datatype::Span a = head.span();
  const Datatype::Span b = tail.span();
  const int lengths[2] = {1, 1};
  const MPI_Aint displacements[2] = {0, a.true_lower + a.true_extent - b.true_lower + 8 * random.below(4)};
  const MPI_Datatype types[2] = {head.get(), tail.get()};
  MPI_Datatype type;
  MPI_Type_create_struct(2, lengths, displacements, types, &type);
  return {type, true, "struct of (" + head.name() + ", " + tail.name() + ")"};
}

Datatype make_contiguous(const Datatype& unit, int units) {
  MPI_Datatype type;
  MPI_Type_contiguous(units, unit.get(), &type);
  return {type, true, text("contiguous", {units})};
}

Datatype lay_out(Random& random, const Datatype& unit, int units, bool coarse) {
  if (coarse) return random.chance(50) ? make_contiguous(unit, units) : make_vector(random, unit, units, units);
  switch (random.below(units > 1 ? 7 : 6)) {
    case 0: return make_contiguous(unit, units);
    case 1:
    case 2: return make_vector(random, unit, units, divisor(random, units));
    case 3: return make_indexed(random, unit, units);
    case 4: return make_indexed_block(random, unit, units);
    case 5: return make_subarray(random, unit, units);
    default: return make_struct(random, unit, units);
  }
}

// A gap before, behind or both; the lower bound may become negative.
Datatype make_resized(Random& random, const Datatype& inner) {
  const Datatype::Span span = inner.span();
  const MPI_Aint before = 8 * random.below(4);
  const MPI_Aint behind = 8 * random.below(6);
  const MPI_Aint low = std::min(span.lower, span.true_lower);
  const MPI_Aint high = std::max(span.lower + span.extent, span.true_lower + span.true_extent);
  MPI_Datatype type;
  MPI_Type_create_resized(inner.get(), low - before, high - low + before + behind, &type);
  return {type, true, text("resized", {low - before, high - low + before + behind}) + " of " + inner.name()};
}

}  // namespace

Datatype::Datatype(MPI_Datatype handle, bool owned, std::string name)
    : handle_(handle), owned_(owned), name_(std::move(name)) {}

Datatype::~Datatype() {
  if (owned_) MPI_Type_free(&handle_);
}

Datatype::Span Datatype::span() const {
  Span result{};
  MPI_Type_get_extent(handle_, &result.lower, &result.extent);
  MPI_Type_get_true_extent(handle_, &result.true_lower, &result.true_extent);
  return result;
}

void Datatype::swap(Datatype& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(owned_, other.owned_);
  std::swap(name_, other.name_);
}

int unit_bytes(UnitKind kind) {
  int bytes = 0;
  for (const Part& part : parts_of(kind)) bytes += part.bytes;
  return bytes;
}

Datatype make_type(Random& random, UnitKind kind, int units, bool coarse) {
  Datatype unit = make_unit(random, kind);
  if (units == 1 && random.chance(60)) {
    if (unit.get() != parts_of(kind).front().type) unit.commit();
    return unit;
  }
  Datatype type = lay_out(random, unit, units, coarse);
  std::string name = type.name() + " of " + unit.name();
  if (random.chance(25)) {
    type = make_resized(random, type);
    name = type.name() + " of " + unit.name();
  }
  type.commit();
  if (random.chance(15)) {
    MPI_Datatype copy;
    MPI_Type_dup(type.get(), &copy);  // committed, because the original is; outlives it
    return {copy, true, "dup of " + name};
  }
  type.rename(name);
  return type;
}

Datatype make_column(Random& random, UnitKind kind, int units, int width) {
  const Datatype unit = make_unit(random, kind);
  const Datatype::Span span = unit.span();
  MPI_Datatype vector;
  MPI_Type_vector(units, 1, width, unit.get(), &vector);
  const Datatype strided(vector, true, "");
  MPI_Datatype column;
  MPI_Type_create_resized(strided.get(), span.lower, span.extent, &column);
  Datatype result(column, true, text("column", {units, width}) + " of " + unit.name());
  result.commit();
  return result;
}

Datatype at_address(const Datatype& type, const void* address) {
  MPI_Aint displacement;
  MPI_Get_address(address, &displacement);
  const int length = 1;
  MPI_Datatype absolute;
  MPI_Type_create_hindexed(1, &length, &displacement, type.get(), &absolute);
  Datatype result(absolute, true, "absolute " + type.name());
  result.commit();
  return result;
}

}  // namespace differential
