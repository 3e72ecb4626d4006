// The functions of baton.h, over the public interface of C++ alone: what is missing here would be
// missing for everybody. No exception leaves them.
#include "baton.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "baton/acceptor.hpp"
#include "baton/version.hpp"
#include "capi/proactor.hpp"
#include "os/system.hpp"

using baton::Deadline;
using baton::Duration;
using baton::Endpoint;
using baton::Handle;
using baton::Operation;
using baton::OperationKind;
using baton::capi::code_of;
using baton::capi::Collector;
using baton::capi::Inside;
using baton::capi::PinnedHandle;
using baton::capi::Slot;
using baton::capi::SlotReader;

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
static_assert(baton::operation_kinds == BATON_POST);
constexpr int number(Operation::Flag flag) { return static_cast<int>(flag); }
static_assert(BATON_VECTORED == number(Operation::vectored));
static_assert(BATON_EXACTLY == number(Operation::exactly));
static_assert(BATON_UNTIL == number(Operation::until));
static_assert(BATON_DATA_ONLY == number(Operation::data_only));
static_assert(BATON_READABLE == number(Operation::readable));
static_assert(BATON_WRITABLE == number(Operation::writable));
static_assert(BATON_APPEND == number(Operation::append));
constexpr int number(baton::HandleKind kind) { return static_cast<int>(kind) + 1; }
static_assert(BATON_STREAM_SOCKET == number(baton::HandleKind::stream_socket));
static_assert(BATON_PIPE == number(baton::HandleKind::pipe));
static_assert(BATON_AFTER_FORK == BATON_ERROR_BASE + static_cast<int>(baton::errc::after_fork));
static_assert(BATON_WRONG_HANDLE_KIND ==
              BATON_ERROR_BASE + static_cast<int>(baton::errc::wrong_handle_kind));
static_assert(BATON_TIMED_OUT == BATON_ERROR_BASE + static_cast<int>(baton::errc::timed_out));
static_assert(sizeof(baton_buffer) == sizeof(baton::MutableBuffer));
static_assert(sizeof(baton_completion) == 32 && sizeof(baton_operation) == 80);

constexpr std::uint16_t known_flags = BATON_VECTORED | BATON_EXACTLY | BATON_UNTIL |
                                      BATON_DATA_ONLY | BATON_READABLE | BATON_WRITABLE |
                                      BATON_APPEND;
constexpr std::uint32_t slots_default = 1'024;

/// What a function answers when something in it throws: memory, or what a code tells.
int code_of_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (const std::system_error& error) {
    return code_of(error.code());
  } catch (...) {
    return EIO;
  }
}

/// Copies a caller's struct, whatever version it is of: one that is shorter is filled up with
/// zeros, of one that is longer the rest must be zero. 0, EINVAL or E2BIG.
template <class Struct>
int copy_in(const void* from, std::size_t size, Struct& to) noexcept {
  constexpr std::size_t size_first = sizeof(Struct);  // there is one version so far
  if (from == nullptr || size < size_first) return EINVAL;
  const auto* bytes = static_cast<const unsigned char*>(from);
  const unsigned char* unknown = bytes + std::min(size, sizeof(Struct));
  if (std::any_of(unknown, bytes + size, [](unsigned char c) { return c != 0; })) return E2BIG;
  to = {};
  std::memcpy(&to, from, std::min(size, sizeof(Struct)));
  return 0;
}

std::size_t copy_out(std::string_view from, char* to, std::size_t size) noexcept {
  if (to != nullptr && size > 0) {
    const std::size_t count = std::min(from.size(), size - 1);
    std::memcpy(to, from.data(), count);
    to[count] = '\0';
  }
  return from.size();
}

baton::Result<baton::Config, baton::Failure> read_config(const baton_config& from) {
  using baton::Config;
  const std::string_view text = from.text != nullptr ? from.text : "";
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool xml = first != std::string_view::npos && text[first] == '<';
  auto config = xml ? Config::parse_xml(text, Config{}) : Config::parse(text, Config{});
  if (!config || (from.flags & BATON_ENVIRONMENT) == 0) return config;
  return Config::parse_environment(std::move(*config));
}

baton::Result<baton::Config, baton::Failure> make_config(const baton_config& from) {
  auto config = read_config(from);
  if (config) config->let_threads_change("the C interface");
  return config;
}

baton::Failure malformed_config(const char* why) {
  return {std::make_error_code(std::errc::invalid_argument), why};
}

baton::Result<baton_proactor*, baton::Failure> open(const baton_config* given) {
  baton_config from{};
  if (const int error = copy_in(given, given != nullptr ? given->size : 0, from)) {
    return baton::unexpected{
        baton::Failure{{error, std::generic_category()},
                       "the struct baton_config is not of a version that this library knows"}};
  }
  if (from.completion_size < sizeof(baton_completion)) {
    return baton::unexpected{malformed_config("completion_size is less than a baton_completion")};
  }
  if (from.slots > baton::capi::SlotTable::count_max) {
    return baton::unexpected{malformed_config("slots: valid are 0 (1024) to 1048576")};
  }
  if ((from.flags & ~static_cast<std::uint32_t>(BATON_ENVIRONMENT)) != 0) {
    return baton::unexpected{malformed_config("flags: only BATON_ENVIRONMENT is known")};
  }
  auto config = make_config(from);
  if (!config) return baton::unexpected{config.error()};
  return new baton_proactor(std::move(*config), from.slots != 0 ? from.slots : slots_default,
                            from.completion_size);
}

Deadline deadline_of(std::int64_t deadline_ns) noexcept {
  return deadline_ns == 0 ? Deadline::never() : Deadline::at_ns(deadline_ns);
}

baton::Notify level_of(std::uint32_t notify) noexcept {
  switch (notify) {
    case BATON_NOTIFY_STRONG:
      return baton::Notify::strong;
    case BATON_NOTIFY_FOLLOWER:
      return baton::Notify::follower;
    default:
      return baton::Notify::none;
  }
}

/// 0, or why this can be no operation. What it means for the handle is the proactor's to judge.
int check(const baton_operation& from) noexcept {
  if (from.kind < BATON_READ_STREAM || from.kind > BATON_POST) return EINVAL;
  if ((from.flags & ~known_flags) != 0) return EINVAL;
  const auto kind = static_cast<OperationKind>(from.kind - 1);
  switch (kind) {
    case OperationKind::timer:
      return from.deadline_ns > 0 ? 0 : EINVAL;
    case OperationKind::user:
      return from.notify <= BATON_NOTIFY_NONE ? 0 : EINVAL;
    case OperationKind::connect:
    case OperationKind::write_datagram:
      // A datagram socket that is connected needs no address.
      if (kind == OperationKind::write_datagram && from.endpoint == nullptr) break;
      if (from.endpoint == nullptr || from.endpoint->length == 0 ||
          from.endpoint->length > Endpoint::capacity) {
        return EINVAL;
      }
      break;
    case OperationKind::wait_ready:
      return (from.flags & (BATON_READABLE | BATON_WRITABLE)) != 0 ? 0 : EINVAL;
    default:
      break;
  }
  if ((from.flags & BATON_UNTIL) != 0) {
    const bool fits = kind == OperationKind::read_stream && (from.flags & BATON_VECTORED) == 0;
    if (!fits || from.delimiter == nullptr || from.offset > from.length) return EINVAL;
  }
  if (from.data == nullptr && from.length != 0) return EINVAL;
  return from.deadline_ns >= 0 ? 0 : EINVAL;
}

void set_endpoint(Slot& slot, const baton_operation& from) noexcept {
  slot.endpoint_out = nullptr;
  if (from.endpoint == nullptr) return;
  const auto kind = static_cast<OperationKind>(from.kind - 1);
  if (kind == OperationKind::connect || kind == OperationKind::write_datagram) {
    std::memcpy(slot.endpoint.data(), from.endpoint->address, Endpoint::capacity);
    slot.endpoint.set_size(from.endpoint->length);
  } else if (kind == OperationKind::accept || kind == OperationKind::read_datagram) {
    slot.endpoint = Endpoint{};
    slot.endpoint_out = from.endpoint;
  } else {
    return;
  }
  slot.operation.set_endpoint(&slot.endpoint);
}

void fill(Slot& slot, const baton_operation& from, Handle* handle) noexcept {
  Operation& operation = slot.operation;
  operation.prepare(static_cast<OperationKind>(from.kind - 1), handle, from.flags);
  operation.set_deadline(deadline_of(from.deadline_ns));
  operation.set_buffer(baton::MutableBuffer{from.data, from.length});
  switch (operation.kind()) {
    case OperationKind::read_file:
    case OperationKind::write_file:
      operation.set_offset(from.offset);
      break;
    case OperationKind::read_stream:
      if (!operation.has(Operation::until)) break;
      slot.delimiter = {static_cast<const char*>(from.delimiter), from.delimiter_size};
      operation.set_until(&slot.delimiter, static_cast<std::size_t>(from.offset));
      break;
    default:
      break;
  }
  set_endpoint(slot, from);
}

/// Starts what is in the slot. The handle is pinned or, for a close, held by begin_close.
std::error_code start_filled(baton_proactor& self, Slot& slot, std::uint32_t notify) noexcept {
  if (slot.operation.kind() == OperationKind::user) {
    return self.proactor.post(slot.operation, level_of(notify));
  }
  return self.proactor.start(slot.operation);
}

/// One operation into one slot. 0, or why not.
int start_in_slot(baton_proactor& self, Slot& slot, const baton_operation& from, Handle* handle,
                  baton_activation* activation) noexcept {
  fill(slot, from, handle);
  slot.operation.set_completion(baton::capi::deliver, &self);
  slot.tag.store(from.tag, std::memory_order_relaxed);
  slot.operation.set_tag(static_cast<std::uint32_t>(from.tag));
  const baton_activation name = self.slots.name_next(slot);
  // Both before the start: the completion may be faster than this function.
  slot.activation.store(name, std::memory_order_seq_cst);
  if (activation != nullptr) *activation = name;
  if (const std::error_code error = start_filled(self, slot, from.notify)) {
    slot.activation.store(0, std::memory_order_seq_cst);
    return code_of(error);
  }
  return 0;
}

int start_one(baton_proactor& self, const baton_operation& from,
              baton_activation* activation) noexcept {
  if (const int error = check(from)) return error;
  Slot* slot = self.slots.take();
  if (slot == nullptr) return EAGAIN;
  int error = 0;
  if (from.kind == BATON_TIMER || from.kind == BATON_POST) {
    error = start_in_slot(self, *slot, from, nullptr, activation);
  } else if (from.kind == BATON_CLOSE) {
    Handle* handle = self.handles.begin_close(from.handle);
    error = handle != nullptr ? start_in_slot(self, *slot, from, handle, activation)
                              : BATON_HANDLE_CLOSED;
    if (handle != nullptr && error != 0) self.handles.undo_close(from.handle);
  } else {
    const PinnedHandle handle{self.handles, from.handle};
    error = handle.get() != nullptr ? start_in_slot(self, *slot, from, handle.get(), activation)
                                    : BATON_HANDLE_CLOSED;
  }
  if (error != 0) self.slots.give(*slot);
  return error;
}

int bring(baton_proactor& self, baton_completion* out, int max, Deadline deadline) noexcept {
  if (out == nullptr || max <= 0) return -EINVAL;
  Collector collector{reinterpret_cast<std::byte*>(out), self.completion_size, max};
  int error = 0;
  try {
    baton::capi::drive(self, collector, deadline);
  } catch (...) {
    error = code_of_exception();
  }
  if (collector.count > 0 || collector.woken) return collector.count;
  if (error != 0) return -error;
  return self.proactor.stopped() ? -BATON_STOPPED : 0;
}

int answer(baton::CancelResult result) noexcept {
  return result == baton::CancelResult::requested ? 0 : ENOENT;
}

int add_handle(baton_proactor& self, Handle& handle, baton_handle* out) noexcept {
  *out = self.handles.add(handle);
  if (*out != 0) return 0;
  self.proactor.close_detached(handle);
  return ENOMEM;
}

/// A non-blocking stream socket for the endpoint's family.
baton::Result<int> open_socket(const baton::os::System& system, const Endpoint& endpoint) {
  sockaddr address{};
  std::memcpy(&address, endpoint.data(), sizeof(address));
  const int descriptor =
      system.socket(address.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor >= 0) return descriptor;
  return baton::unexpected{std::error_code{errno, std::system_category()}};
}

}  // namespace

baton_proactor::baton_proactor(baton::Config config, std::uint32_t slot_count, std::size_t stride)
    : completion_size(stride),
      system(baton::os::or_real(config.system)),
      slots(slot_count),
      process(system.getpid()),
      proactor(std::move(config)),
      handles(system) {
  wake.set_completion(baton::capi::woken, this);
}

// -- opening and closing --------------------------------------------------------------------------

const char* baton_version(void) { return baton::version().data(); }

int baton_open(const baton_config* config, baton_proactor** out, char* reason,
               std::size_t reason_size) {
  const Inside inside;
  copy_out("", reason, reason_size);
  if (out == nullptr) return EINVAL;
  *out = nullptr;
  try {
    const auto opened = open(config);
    if (opened) {
      *out = *opened;
      return 0;
    }
    copy_out(with_code(opened.error().reason, opened.error().reason_code), reason, reason_size);
    return code_of(opened.error().code);
  } catch (const std::exception& exception) {
    copy_out(exception.what(), reason, reason_size);
    return code_of_exception();
  }
}

void baton_close(baton_proactor* proactor) {
  const Inside inside;
  if (proactor == nullptr) return;
  // In a child that did not call baton_fork_child the slots may hold operations of threads that do
  // not exist here; the memory is left to the end of the process.
  if (proactor->system.getpid() != proactor->process) return;
  delete proactor;
}

void baton_stop(baton_proactor* proactor) {
  const Inside inside;
  proactor->proactor.stop();
}

std::size_t baton_explain(baton_proactor* proactor, char* text, std::size_t size) {
  const Inside inside;
  try {
    return copy_out(proactor->proactor.explain(), text, size);
  } catch (...) {
    return copy_out("", text, size);
  }
}

std::size_t baton_statistics(baton_proactor* proactor, char* text, std::size_t size) {
  const Inside inside;
  try {
    return copy_out(proactor->proactor.statistics().to_string(), text, size);
  } catch (...) {
    return copy_out("", text, size);
  }
}

std::size_t baton_pending(baton_proactor* proactor, std::int64_t age_ns, char* text,
                          std::size_t size) {
  const Inside inside;
  try {
    return copy_out(proactor->proactor.pending(Duration{age_ns}).to_string(), text, size);
  } catch (...) {
    return copy_out("", text, size);
  }
}

int baton_fork_child(baton_proactor* proactor) {
  const Inside inside;
  const pid_t now = proactor->system.getpid();
  if (now == proactor->process) return EINVAL;
  try {
    if (const auto reopened = proactor->proactor.reopen(); !reopened) {
      return code_of(reopened.error().code);
    }
  } catch (...) {
    return code_of_exception();
  }
  proactor->process = now;
  proactor->slots.reset();
  proactor->handles.reset();
  proactor->wake_asked.store(false);
  proactor->drivers.store(0);
  return 0;
}

std::int64_t baton_now(baton_proactor* proactor) { return proactor->proactor.now().ns(); }

std::size_t baton_error_text(int error, char* text, std::size_t size) {
  const Inside inside;
  try {
    const bool own = error >= BATON_ERROR_BASE;
    const std::error_code code =
        own ? std::error_code{error - BATON_ERROR_BASE, baton::error_category()}
            : std::error_code{error, std::system_category()};
    return copy_out(code.message(), text, size);
  } catch (...) {
    return copy_out("", text, size);
  }
}

// -- addresses ------------------------------------------------------------------------------------

int baton_endpoint_parse(const char* text, baton_endpoint* out) {
  const Inside inside;
  if (text == nullptr || out == nullptr) return EINVAL;
  try {
    const auto endpoint = Endpoint::parse(text);
    if (!endpoint) return EINVAL;
    *out = {};
    std::memcpy(out->address, endpoint->data(), Endpoint::capacity);
    out->length = endpoint->size();
    return 0;
  } catch (...) {
    return code_of_exception();
  }
}

std::size_t baton_endpoint_print(const baton_endpoint* endpoint, char* text, std::size_t size) {
  const Inside inside;
  try {
    Endpoint copy;
    if (endpoint != nullptr && endpoint->length <= Endpoint::capacity) {
      std::memcpy(copy.data(), endpoint->address, Endpoint::capacity);
      copy.set_size(endpoint->length);
    }
    return copy_out(copy.to_string(), text, size);
  } catch (...) {
    return copy_out("", text, size);
  }
}

// -- handles --------------------------------------------------------------------------------------

int baton_adopt(baton_proactor* proactor, int descriptor, int kind, int ownership,
                baton_handle* out) {
  const Inside inside;
  const bool known = kind >= BATON_STREAM_SOCKET && kind <= BATON_PIPE &&
                     (ownership == BATON_OWNED || ownership == BATON_BORROWED);
  if (out == nullptr) return EINVAL;
  *out = 0;
  if (!known) return EINVAL;
  const auto handle = proactor->proactor.adopt(
      descriptor, static_cast<baton::HandleKind>(kind - 1),
      ownership == BATON_OWNED ? baton::Ownership::owned : baton::Ownership::borrowed);
  if (!handle) return code_of(handle.error());
  return add_handle(*proactor, **handle, out);
}

int baton_listen(baton_proactor* proactor, const char* endpoint, int backlog, baton_handle* out) {
  const Inside inside;
  if (out == nullptr || endpoint == nullptr) return EINVAL;
  *out = 0;
  try {
    const auto where = Endpoint::parse(endpoint);
    if (!where) return EINVAL;
    auto acceptor = baton::Acceptor::listen(proactor->proactor, *where, {.backlog = backlog});
    if (!acceptor) return code_of(acceptor.error());
    return add_handle(*proactor, *acceptor->release(), out);
  } catch (...) {
    return code_of_exception();
  }
}

int baton_connect(baton_proactor* proactor, const char* endpoint, std::uint64_t tag,
                  std::int64_t deadline_ns, baton_handle* out, baton_activation* activation) {
  const Inside inside;
  if (out == nullptr) return EINVAL;
  *out = 0;
  baton_endpoint where{};
  if (const int error = baton_endpoint_parse(endpoint, &where)) return error;
  const auto& system = proactor->system;
  Endpoint copy;
  std::memcpy(copy.data(), where.address, Endpoint::capacity);
  copy.set_size(where.length);
  const auto descriptor = open_socket(system, copy);
  if (!descriptor) return code_of(descriptor.error());
  if (const int error = baton_adopt(proactor, *descriptor, BATON_STREAM_SOCKET, BATON_OWNED, out)) {
    // Where only the name was missing, the close is under way already.
    if (error != ENOMEM) system.close(*descriptor);
    return error;
  }
  baton_operation operation = BATON_OPERATION_INIT;
  operation.kind = BATON_CONNECT;
  operation.handle = *out;
  operation.tag = tag;
  operation.deadline_ns = deadline_ns;
  operation.endpoint = &where;
  const int error = start_one(*proactor, operation, activation);
  if (error != 0) {
    baton_handle_close(proactor, *out);
    *out = 0;
  }
  return error;
}

int baton_handle_descriptor(baton_proactor* proactor, baton_handle handle) {
  const PinnedHandle pinned{proactor->handles, handle};
  return pinned.get() != nullptr ? pinned.get()->native() : -1;
}

int baton_local_endpoint(baton_proactor* proactor, baton_handle handle, baton_endpoint* out) {
  if (out == nullptr) return EINVAL;
  *out = {};
  const PinnedHandle pinned{proactor->handles, handle};
  if (pinned.get() == nullptr) return BATON_HANDLE_CLOSED;
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  const auto& system = proactor->system;
  if (system.getsockname(pinned.get()->native(), reinterpret_cast<sockaddr*>(&address), &size) !=
      0) {
    return errno;
  }
  size = std::min<socklen_t>(size, Endpoint::capacity);
  std::memcpy(out->address, &address, size);
  out->length = size;
  return 0;
}

int baton_handle_close(baton_proactor* proactor, baton_handle handle) {
  const Inside inside;
  Handle* closing = proactor->handles.begin_close(handle);
  if (closing == nullptr) return BATON_HANDLE_CLOSED;
  proactor->proactor.close_detached(*closing);
  return 0;
}

// -- operations -----------------------------------------------------------------------------------

int baton_start(baton_proactor* proactor, const baton_operation* operations, int count,
                baton_activation* activations, int* why_not) {
  const Inside inside;
  int error = operations == nullptr && count > 0 ? EINVAL : 0;
  int taken = 0;
  // All of an array are as large as its first says.
  const std::size_t stride = error == 0 && count > 0 ? operations->size : 0;
  const auto* bytes = reinterpret_cast<const std::byte*>(operations);
  while (error == 0 && taken < count) {
    baton_operation operation;
    error = copy_in(bytes + static_cast<std::size_t>(taken) * stride, stride, operation);
    if (error == 0 && operation.size != stride) error = EINVAL;
    if (error == 0) {
      error =
          start_one(*proactor, operation, activations != nullptr ? activations + taken : nullptr);
    }
    if (error == 0) ++taken;
  }
  if (why_not != nullptr) *why_not = error;
  return taken;
}

int baton_wait(baton_proactor* proactor, baton_completion* out, int max, std::int64_t timeout_ns) {
  const Inside inside;
  const Deadline deadline = timeout_ns < 0 ? Deadline::never()
                            : timeout_ns == 0
                                ? Deadline::immediately()
                                : Deadline::after(Duration{timeout_ns}, proactor->proactor.now());
  proactor->drivers.fetch_add(1, std::memory_order_acquire);
  const int count = bring(*proactor, out, max, deadline);
  proactor->drivers.fetch_sub(1, std::memory_order_release);
  return count;
}

int baton_poll(baton_proactor* proactor, baton_completion* out, int max) {
  // Inside a function of ours this thread may hold the lock that driving needs.
  if (Inside::now()) return -EBUSY;
  std::uint32_t nobody = 0;
  if (!proactor->drivers.compare_exchange_strong(nobody, 1, std::memory_order_acquire,
                                                 std::memory_order_relaxed)) {
    return -EBUSY;
  }
  const int saved_errno = errno;
  const Inside inside;
  const int count = bring(*proactor, out, max, Deadline::immediately());
  proactor->drivers.fetch_sub(1, std::memory_order_release);
  errno = saved_errno;
  return count;
}

void baton_wake(baton_proactor* proactor) {
  const Inside inside;
  // acquire: whoever ran the last wake is done with the operation.
  if (proactor->wake_asked.exchange(true, std::memory_order_acq_rel)) return;
  proactor->wake.prepare(OperationKind::user, nullptr);
  if (proactor->proactor.post(proactor->wake)) proactor->wake_asked.store(false);
}

int baton_cancel(baton_proactor* proactor, baton_activation activation) {
  const Inside inside;
  Slot* slot = proactor->slots.find(activation);
  if (slot == nullptr) return ENOENT;
  return answer(
      proactor->proactor.cancel(slot->operation, baton::capi::SlotTable::number_of(activation)));
}

int baton_cancel_handle(baton_proactor* proactor, baton_handle handle) {
  const Inside inside;
  const PinnedHandle pinned{proactor->handles, handle};
  if (pinned.get() == nullptr) return ENOENT;
  return answer(proactor->proactor.cancel(*pinned.get()));
}

int baton_cancel_tag(baton_proactor* proactor, std::uint64_t tag) {
  const Inside inside;
  int result = ENOENT;
  for (std::uint32_t i = 0; i < proactor->slots.count(); ++i) {
    Slot& slot = proactor->slots[i];
    const baton_activation activation = slot.activation.load(std::memory_order_acquire);
    if (activation == 0 || slot.tag.load(std::memory_order_relaxed) != tag) continue;
    // If the slot has changed hands since, this names nothing any more.
    if (baton_cancel(proactor, activation) == 0) result = 0;
  }
  return result;
}

int baton_cancel_all(baton_proactor* proactor) {
  const Inside inside;
  proactor->proactor.cancel_all();
  return 0;
}

int baton_status(const baton_proactor* proactor, baton_activation activation, baton_state* out) {
  if (out == nullptr || out->size < sizeof(baton_state)) return EINVAL;
  Slot* slot = proactor->slots.find(activation);
  if (slot == nullptr) return ENOENT;
  const SlotReader reader{*slot, activation};
  if (!reader) return ENOENT;
  const Operation& operation = slot->operation;
  const baton::OperationState state = operation.state();
  out->result = 0;
  out->error = 0;
  out->reserved = 0;
  out->state = BATON_PENDING;
  // Named before it is started: what the slot shows then is its last use.
  if (operation.activation() != baton::capi::SlotTable::number_of(activation)) return 0;
  if (state != baton::OperationState::result_ready && state != baton::OperationState::completed) {
    return 0;
  }
  out->state = state == baton::OperationState::completed ? BATON_DELIVERED : BATON_DONE;
  const bool accepted = operation.kind() == OperationKind::accept;
  out->result = accepted && operation.failed() ? -1 : static_cast<std::int64_t>(operation.bytes());
  out->error = code_of(operation.error_value());
  return 0;
}
