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
using enum HandleUse;
constexpr std::int64_t any = KindFacts::any;
constexpr std::uint16_t list = BATON_VECTORED;
constexpr std::uint16_t whole = BATON_VECTORED | BATON_EXACTLY;
constexpr std::uint16_t stream = whole | BATON_UNTIL | BATON_POOLED;
constexpr std::uint16_t ready = BATON_READABLE | BATON_WRITABLE;

// clang-format off
//  kind            handle  buffer  offset address       flags                 one of deadline from
constexpr std::array<KindFacts, operation_kinds> table{{
    {read_stream,    pinned, true,   false, Address::none,    stream,               0,     0},
    {write_stream,   pinned, true,   false, Address::none,    whole,                0,     0},
    {read_file,      pinned, true,   true,  Address::none,    whole | BATON_APPEND, 0,     0},
    {write_file,     pinned, true,   true,  Address::none,    whole | BATON_APPEND, 0,     0},
    {read_datagram,  pinned, true,   false, Address::stored,  list,                 0,     0},
    {write_datagram, pinned, true,   false, Address::perhaps, list,                 0,     0},
    {accept,         pinned, false,  false, Address::stored,  BATON_ADOPT,          0,     0},
    {connect,        pinned, false,  false, Address::given,   0,                    0,     0},
    {sync_file,      pinned, false,  false, Address::none,    BATON_DATA_ONLY,      0,     0},
    {wait_ready,     pinned, false,  false, Address::none,    ready,                ready, 0},
    {shutdown,       pinned, false,  false, Address::none,    0,                    0,     0},
    {close,          closed, false,  false, Address::none,    0,                    0,     0},
    {timer,          none,   false,  false, Address::none,    0,                    0,     1},
    {user,           none,   false,  false, Address::none,    0,                    0,     any},
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

const KindFacts* check(const baton_operation& from) noexcept {
  const auto index = static_cast<std::size_t>(from.kind) - BATON_READ_STREAM;
  if (index >= operation_kinds) return nullptr;
  const KindFacts& facts = table.data()[index];  // checked above, so no second time
  if ((from.flags & ~facts.flags) != 0) return nullptr;
  if (facts.one_of != 0 && (from.flags & facts.one_of) == 0) return nullptr;
  if ((from.flags & BATON_UNTIL) != 0 && !is_good_until(from)) return nullptr;
  if (facts.has_buffer && !is_good_buffer(from)) return nullptr;
  if (!fits(facts.address, from.endpoint) || from.deadline_ns < facts.deadline_min) return nullptr;
  if (facts.kind == user && from.notify > BATON_NOTIFY_NONE) return nullptr;
  return &facts;
}

}  // namespace baton::capi
