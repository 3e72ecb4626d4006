// The category "baton": what each errc says to a person, and which of the system's conditions it
// equals.
#include "baton/error.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "baton/driving_refused.hpp"
#include "baton/misuse.hpp"

namespace baton {
namespace {

const char* text_of(errc code) noexcept {
  switch (code) {
    case errc::operation_in_use:
      return "the operation is already started, posted or queued";
    case errc::handle_closed:
      return "the handle is closing or closed";
    case errc::limit_reached:
      return "a configured limit is reached";
    case errc::stopped:
      return "the proactor is stopped, draining or being destroyed";
    case errc::not_supported:
      return "no processor of the team supports this kind of operation";
    case errc::timed_out:
      return "the operation's deadline passed";
    case errc::end_of_stream:
      return "the stream or the file ended before the operation was done";
    case errc::delimiter_not_found:
      return "the buffer is full and holds no delimiter";
    case errc::wrong_thread:
      return "the calling thread does not own this processor";
    case errc::too_many_threads:
      return "every processor has its thread already";
    case errc::descriptor_out_of_range:
      return "the descriptor is beyond what the wait strategy can watch (select: FD_SETSIZE)";
    case errc::no_free_handles:
      return "the table of handles is full";
    case errc::pool_exhausted:
      return "the buffer pool has no free buffer";
    case errc::engine_unavailable:
      return "the system lacks what the engine needs, or denies it";
    case errc::engine_forbidden:
      return "the configuration forbids the engine";
    case errc::unknown_name:
      return "the configuration names something that is not known";
    case errc::bad_configuration:
      return "a configuration value is malformed or does not fit the others";
    case errc::after_fork:
      return "the proactor was inherited by fork; it can only be reopened or destroyed";
    case errc::wrong_handle_kind:
      return "a handle of this kind knows no such operation";
    case errc::already_adopted:
      return "another handle has this descriptor: use that one, or adopt a duplicate (dup)";
    case errc::not_prepared:
      return "the operation has completed before: prepare it again, then start it";
    case errc::engine_lost:
      return "the system or the program has taken away what the engine works with";
  }
  return "unknown error of Baton";
}

class Category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "baton"; }
  [[nodiscard]] std::string message(int value) const override {
    return text_of(static_cast<errc>(value));
  }

  /// An errc equals a condition of the system only if a program that does not know Baton then
  /// reacts correctly. `stopped`, for example, is not operation_canceled, because nothing was
  /// started.
  [[nodiscard]] std::error_condition default_error_condition(int value) const noexcept override {
    switch (static_cast<errc>(value)) {
      case errc::operation_in_use:
        return std::errc::device_or_resource_busy;
      case errc::handle_closed:
        return std::errc::bad_file_descriptor;
      case errc::limit_reached:
      case errc::too_many_threads:
        return std::errc::resource_unavailable_try_again;
      case errc::not_supported:
        return std::errc::operation_not_supported;
      case errc::timed_out:
        return std::errc::timed_out;
      case errc::wrong_thread:
      case errc::engine_forbidden:
      case errc::after_fork:
      case errc::engine_lost:
        return std::errc::operation_not_permitted;
      case errc::descriptor_out_of_range:
        return std::errc::value_too_large;
      case errc::no_free_handles:
        return std::errc::too_many_files_open;
      case errc::pool_exhausted:
        return std::errc::no_buffer_space;
      case errc::engine_unavailable:
        return std::errc::function_not_supported;
      case errc::unknown_name:
      case errc::bad_configuration:
      case errc::wrong_handle_kind:
      case errc::not_prepared:
        return std::errc::invalid_argument;
      case errc::already_adopted:
        return std::errc::file_exists;
      case errc::stopped:
      case errc::end_of_stream:
      case errc::delimiter_not_found:
        break;
    }
    return {value, *this};
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  // Never destroyed: codes may be printed while the program's static objects are destroyed. In
  // static memory: the first error may be a lack of memory.
  alignas(Category) static std::byte memory[sizeof(Category)];
  static const Category& category = *::new (memory) Category;
  return category;
}

DrivingRefused::DrivingRefused(const Ledger& ledger, errc code)
    : std::system_error(code), ledger_(&ledger) {}
DrivingRefused::DrivingRefused(const Ledger& ledger, errc code, const std::string& why)
    : std::system_error(code, why), ledger_(&ledger) {}
DrivingRefused::~DrivingRefused() = default;

namespace detail {

void misused(const char* sentence) noexcept {
  std::fprintf(stderr, "baton: %s\n", sentence);
  std::abort();
}

void misused(const char* sentence, const std::error_code& error) noexcept {
  std::fprintf(stderr, "baton: %s (%s:%d, %s)\n", sentence, error.category().name(), error.value(),
               error.message().c_str());
  std::abort();
}

}  // namespace detail
}  // namespace baton
