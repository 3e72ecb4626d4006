// A request head, as Boost.Beast's parser reads it. All text points into the buffer that was
// parsed: nothing is copied, and nothing outlives the buffer's next change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "conditional.hpp"
#include "status.hpp"

namespace httpd {

enum class Method : std::uint8_t { get, head, other };

/// The bytes behind the head.
enum class BodyKind : std::uint8_t {
  none,
  sized,   ///< content_length bytes
  chunked  ///< or any other transfer coding
};

struct Request {
  Method method = Method::other;
  std::string_view target;
  std::string_view range;
  Conditions conditions;
  std::uint64_t content_length = 0;
  BodyKind body = BodyKind::none;
  bool http_1_0 = false;
  bool keep_alive = false;
  /// "Expect: 100-continue": the client waits for our word before it sends the body.
  bool expects_continue = false;
};

struct Parsed {
  enum class Kind : std::uint8_t { incomplete, complete, malformed };
  Kind kind = Kind::incomplete;
  std::size_t bytes = 0;                ///< complete: of the head, the empty line included
  Status status = Status::bad_request;  ///< malformed: what to answer
};

/// When a head that comes in pieces is worth a parse, which begins at its first byte each time:
/// with the first bytes, which tell whether this is HTTP at all; while it is small, at each end of
/// a line, so that a fault is answered at once; and then only when it has doubled or is complete.
/// All parses together then look at a few times its bytes.
class HeadWatch {
 public:
  /// `text` is what was there at the last call, and more. REQUIRES: it is not empty.
  bool is_due(std::string_view text);
  /// The next head begins.
  void reset() { *this = {}; }

 private:
  std::size_t seen_ = 0;    // bytes at the last call
  std::size_t parsed_ = 0;  // bytes when a parse was due
};

/// Parses from the first byte of a request on; the same text again, when more of it has come.
Parsed parse_request(std::string_view text, Request& request);

}  // namespace httpd
