// Opening and closing: configurations, the end, a child after fork, the clock.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "baton/version.hpp"
#include "capi/proactor.hpp"
#include "capi/structs.hpp"
#include "os/system.hpp"

using baton::Config;
using baton::Failure;
using baton::ProcessorConfig;
using baton::Result;
using baton::unexpected;
using baton::capi::code_of;
using baton::capi::code_of_exception;
using baton::capi::copy_out;
using baton::capi::find;
using baton::capi::Inside;
using baton::capi::Instance;

namespace {

constexpr std::uint32_t slots_default = 1'024;
// The size of the first version.
constexpr std::size_t completion_size_min = offsetof(baton_completion, data);
static_assert(completion_size_min == 32);

bool is_per_thread(const ProcessorConfig& processor) {
  return processor.mode == baton::Mode::per_thread;
}
bool is_dedicated(const ProcessorConfig& processor) {
  return processor.mode == baton::Mode::dedicated;
}
/// Whether driving allocates: the driving thread makes room for starts of others, or the engine
/// keeps copies, or it starts requests of the C library, which starts threads for them.
bool drives_with_memory(const ProcessorConfig& processor) {
  return is_per_thread(processor) ||
         (!is_dedicated(processor) && processor.start == baton::StartRule::leader_only) ||
         processor.debug || processor.engine == "chaos" || processor.engine == "posix_aio";
}
bool any_of(const Config& config, bool (*has)(const ProcessorConfig&)) {
  return std::any_of(config.processors.begin(), config.processors.end(), has);
}

Result<Config, Failure> read_config(const baton_config& from) {
  const std::string_view text = from.text != nullptr ? from.text : "";
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool xml = first != std::string_view::npos && text[first] == '<';
  auto config = xml ? Config::parse_xml(text, Config{}) : Config::parse(text, Config{});
  if (!config || (from.flags & BATON_ENVIRONMENT) == 0) return config;
  return Config::parse_environment(std::move(*config));
}

Result<Config, Failure> make_config(const baton_config& from) {
  auto config = read_config(from);
  if (config) config->let_threads_change("the C interface");
  return config;
}

Failure malformed_config(const char* why) {
  return {std::make_error_code(std::errc::invalid_argument), why};
}

Result<baton_proactor*, Failure> open(const baton_config* given) {
  baton_config from{};
  if (const int error = baton::capi::copy_in(given, given != nullptr ? given->size : 0, from)) {
    return unexpected{
        Failure{{error, std::generic_category()},
                "the struct baton_config is not of a version that this library knows"}};
  }
  if (from.completion_size < completion_size_min ||
      from.completion_size > baton::capi::struct_size_max) {
    return unexpected{malformed_config("completion_size is not that of a baton_completion")};
  }
  if (from.slots > baton::capi::SlotTable::count_max) {
    return unexpected{malformed_config("slots: valid are 0 (1024) to 1048576")};
  }
  if ((from.flags & ~static_cast<std::uint32_t>(BATON_ENVIRONMENT)) != 0) {
    return unexpected{malformed_config("flags: only BATON_ENVIRONMENT is known")};
  }
  auto config = make_config(from);
  if (!config) return unexpected{config.error()};
  auto proactor = std::make_unique<baton_proactor>();
  proactor->instance = new Instance(
      std::move(*config), from.slots != 0 ? from.slots : slots_default, from.completion_size);
  return proactor.release();
}

/// Closed proactors whose memory is not used again yet, in a ring. Without a lock, which a thread
/// might hold in the moment of a fork.
constexpr std::size_t closed_kept = 64;
constinit std::array<std::atomic<baton_proactor*>, closed_kept> closed{};
constinit std::atomic<std::size_t> closed_count{0};

/// Keeps this one until as many others were closed.
void keep_closed(baton_proactor* proactor) noexcept {
  const std::size_t place = closed_count.fetch_add(1, std::memory_order_relaxed) % closed_kept;
  delete closed[place].exchange(proactor, std::memory_order_acq_rel);
}

}  // namespace

Instance::Instance(Config config, std::uint32_t slot_count, std::size_t stride)
    : completion_size(stride),
      per_thread(any_of(config, is_per_thread)),
      system(baton::os::or_real(config.system)),
      slots(slot_count),
      process(system.getpid()),
      proactor(std::move(config)),
      driving_allocates(any_of(proactor.config(), drives_with_memory)),
      handles(system) {
  wake.set_completion(baton::capi::woken, this);
  for (std::uint32_t i = 0; i < slot_count; ++i) {
    slots[i].operation.set_completion(baton::capi::deliver, this);
  }
}

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
  Instance* const self = find(proactor);
  if (self == nullptr) return;
  const Inside inside;
  // In a child that did not call baton_fork_child the slots may hold operations of threads that do
  // not exist here; the end of the process frees the memory.
  if (self->is_inherited()) return;
  baton::capi::detach(*self);
  proactor->instance = nullptr;
  delete self;
  keep_closed(proactor);
}

void baton_stop(baton_proactor* proactor) {
  Instance* const self = find(proactor);
  if (self == nullptr) return;
  const Inside inside;
  self->proactor.stop();
}

int baton_drain(baton_proactor* proactor, std::int64_t deadline_ns) {
  Instance* const self = find(proactor);
  if (self == nullptr) return EINVAL;
  const Inside inside;
  if (deadline_ns < 0) return EINVAL;
  self->proactor.drain(baton::capi::deadline_of(deadline_ns));
  return 0;
}

void baton_restart(baton_proactor* proactor) {
  Instance* const self = find(proactor);
  if (self == nullptr) return;
  const Inside inside;
  self->proactor.restart();
}

int baton_fork_child(baton_proactor* proactor) {
  Instance* const self = find(proactor);
  if (self == nullptr) return EINVAL;
  const Inside inside;
  if (!self->is_inherited()) return EINVAL;
  try {
    if (const auto reopened = self->proactor.reopen(); !reopened) {
      return code_of(reopened.error().code);
    }
  } catch (...) {
    return code_of_exception();
  }
  self->process = self->system.getpid();
  baton::capi::detach(*self);  // the parent's
  self->slots.reset();         // reads of pools among them
  self->handles.reset();
  self->wake_asked.store(false);
  self->drivers.store(0);
  return 0;
}

std::int64_t baton_now(baton_proactor* proactor) {
  Instance* const self = find(proactor);
  if (self == nullptr) return 0;
  return self->proactor.now().ns();
}

int baton_descriptor(const baton_proactor* proactor) {
  Instance* const self = find(proactor);
  if (self == nullptr) return -1;
  return self->proactor.descriptor();
}

int baton_glance(const baton_proactor* proactor) {
  Instance* const self = find(proactor);
  if (self == nullptr) return BATON_CANNOT_TELL;
  switch (self->proactor.glance()) {
    case baton::Glance::nothing:
      return BATON_NOTHING;
    case baton::Glance::something:
      return BATON_SOMETHING;
    case baton::Glance::cannot_tell:
      break;
  }
  return BATON_CANNOT_TELL;
}
