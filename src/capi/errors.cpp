// Errors: from the library's forms to the numbers of the header, and to text.
#include <algorithm>
#include <new>

#include "baton/error.hpp"
#include "capi/proactor.hpp"
#include "capi/structs.hpp"

namespace baton::capi {

static_assert(BATON_AFTER_FORK == BATON_ERROR_BASE + static_cast<int>(errc::after_fork));
static_assert(BATON_WRONG_HANDLE_KIND ==
              BATON_ERROR_BASE + static_cast<int>(errc::wrong_handle_kind));
static_assert(BATON_ALREADY_ADOPTED == BATON_ERROR_BASE + static_cast<int>(errc::already_adopted));
static_assert(BATON_NOT_PREPARED == BATON_ERROR_BASE + static_cast<int>(errc::not_prepared));
static_assert(BATON_ENGINE_LOST == BATON_ERROR_BASE + static_cast<int>(errc::engine_lost));
static_assert(BATON_TIMED_OUT == BATON_ERROR_BASE + static_cast<int>(errc::timed_out));

int code_of(const std::error_code& error) noexcept {
  if (error.category() == error_category()) return BATON_ERROR_BASE + error.value();
  return error.value();
}

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

std::size_t copy_out(std::string_view from, char* to, std::size_t size) noexcept {
  if (to != nullptr && size > 0) {
    const std::size_t count = std::min(from.size(), size - 1);
    std::memcpy(to, from.data(), count);
    to[count] = '\0';
  }
  return from.size();
}

}  // namespace baton::capi

std::size_t baton_error_text(int error, char* text, std::size_t size) {
  const baton::capi::Inside inside;
  const bool own = error >= BATON_ERROR_BASE;
  const std::error_code code =
      own ? std::error_code{error - BATON_ERROR_BASE, baton::error_category()}
          : std::error_code{error, std::system_category()};
  return baton::capi::copy_out_of([&code] { return code.message(); }, text, size);
}
