// The table of the kinds, and the check by it.
#include "capi/kinds.hpp"

#include <errno.h>

#include <array>

#include "capi/addresses.hpp"

namespace baton::capi {
namespace {

// The numbers of the header are those of the contracts.
constexpr int number(OperationKind kind) { return static_cast<int>(kind) + 1; }
static_assert(BATON_READ_STREAM == number(OperationKind::read_stream));
static_assert(BATON_WRITE_DATAGRAM == number(OperationKind::write_datagram));
static_assert(BATON_ACCEPT == number(OperationKind::accept));
static_assert(BATON_SHUTDOWN == number(OperationKind::shutdown));
static_assert(BATON_CLOSE == number(OperationKind::close));
static_assert(BATON_TIMER == number(OperationKind::timer));
static_assert(BATON_POST == number(OperationKind::user));
static_assert(operation_kinds == BATON_POST);
constexpr int number(Operation::Flag flag) { return static_cast<int>(flag); }
static_assert(BATON_VECTORED == number(Operation::vectored));
static_assert(BATON_EXACTLY == number(Operation::exactly));
static_assert(BATON_UNTIL == number(Operation::until));
static_assert(BATON_POOLED == number(Operation::pooled));
static_assert(BATON_DATA_ONLY == number(Operation::data_only));
static_assert(BATON_READABLE == number(Operation::readable));
static_assert(BATON_WRITABLE == number(Operation::writable));
static_assert(BATON_APPEND == number(Operation::append));

using enum OperationKind;
constexpr Use none = Use::none;
constexpr Use maybe = Use::optional;
constexpr Use must = Use::required;
constexpr std::uint16_t list = BATON_VECTORED;
constexpr std::uint16_t whole = BATON_VECTORED | BATON_EXACTLY;
constexpr std::uint16_t stream = whole | BATON_UNTIL | BATON_POOLED;
constexpr std::uint16_t ready = BATON_READABLE | BATON_WRITABLE;

// clang-format off
//  kind            handle buffer offset address       deadline flags                 one of
constexpr std::array<KindFacts, operation_kinds> table{{
    {read_stream,    must, must, false, Address::none,    maybe, stream,               0},
    {write_stream,   must, must, false, Address::none,    maybe, whole,                0},
    {read_file,      must, must, true,  Address::none,    maybe, whole | BATON_APPEND, 0},
    {write_file,     must, must, true,  Address::none,    maybe, whole | BATON_APPEND, 0},
    {read_datagram,  must, must, false, Address::stored,  maybe, list,                 0},
    {write_datagram, must, must, false, Address::perhaps, maybe, list,                 0},
    {accept,         must, none, false, Address::stored,  maybe, BATON_ADOPT,          0},
    {connect,        must, none, false, Address::given,   maybe, 0,                    0},
    {sync_file,      must, none, false, Address::none,    maybe, BATON_DATA_ONLY,      0},
    {wait_ready,     must, none, false, Address::none,    maybe, ready,                ready},
    {shutdown,       must, none, false, Address::none,    maybe, 0,                    0},
    {close,          must, none, false, Address::none,    maybe, 0,                    0},
    {timer,          none, none, false, Address::none,    must,  0,                    0},
    {user,           none, none, false, Address::none,    none,  0,                    0},
}};
// clang-format on
constexpr bool is_in_order() {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (static_cast<std::size_t>(table[i].kind) != i) return false;
  }
  return true;
}
static_assert(is_in_order());

bool fits(Address use, const baton_endpoint* endpoint) noexcept {
  if (use == Address::given) return is_address(endpoint);
  return use != Address::perhaps || endpoint == nullptr || is_address(endpoint);
}

bool fits(Use use, std::int64_t deadline_ns) noexcept {
  return use == Use::none || deadline_ns >= (use == Use::required ? 1 : 0);
}

bool is_good_until(const baton_operation& from) noexcept {
  return (from.flags & BATON_VECTORED) == 0 && from.delimiter != nullptr &&
         from.offset <= from.length;
}

bool is_good_buffer(const baton_operation& from) noexcept {
  if ((from.flags & BATON_POOLED) == 0) return from.data != nullptr || from.length == 0;
  // The block has the pool's size, and there is exactly one.
  return from.data != nullptr && (from.flags & ~BATON_POOLED) == 0;
}

}  // namespace

const KindFacts* facts_of(std::uint16_t kind) noexcept {
  if (kind < BATON_READ_STREAM || kind > BATON_POST) return nullptr;
  return &table[static_cast<std::size_t>(kind - BATON_READ_STREAM)];
}

int check(const KindFacts& facts, const baton_operation& from) noexcept {
  if ((from.flags & ~facts.flags) != 0) return EINVAL;
  if (facts.one_of != 0 && (from.flags & facts.one_of) == 0) return EINVAL;
  if ((from.flags & BATON_UNTIL) != 0 && !is_good_until(from)) return EINVAL;
  if (facts.buffer != Use::none && !is_good_buffer(from)) return EINVAL;
  if (!fits(facts.address, from.endpoint) || !fits(facts.deadline, from.deadline_ns)) return EINVAL;
  if (facts.kind == user && from.notify > BATON_NOTIFY_NONE) return EINVAL;
  return 0;
}

}  // namespace baton::capi
