// DrivingRefused: a thread may not drive a proactor.
#pragma once

#include <string>
#include <system_error>

#include "baton/error.hpp"
#include "baton/export.hpp"
#include "baton/fwd.hpp"

namespace baton {

class Ledger;  // src/core/ledger.hpp

/// Baton's own exception in the calls that drive a proactor, and in Attachment: errc::wrong_thread
/// or errc::after_fork. Exceptions of handlers leave by the same calls. They may have the same
/// code, but not this type.
class BATON_EXPORT DrivingRefused : public std::system_error {
 public:
  DrivingRefused(const Ledger& ledger, errc code);
  DrivingRefused(const Ledger& ledger, errc code, const std::string& why);
  DrivingRefused(const DrivingRefused&) = default;
  DrivingRefused& operator=(const DrivingRefused&) = default;
  ~DrivingRefused() override;

  /// False: a handler has driven another proactor, and that one has refused.
  [[nodiscard]] bool is_of(const Proactor& proactor) const noexcept;

 private:
  const Ledger* ledger_;
};

}  // namespace baton
