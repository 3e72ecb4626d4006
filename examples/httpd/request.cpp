// Boost.Beast's incremental parser, fed from memory. It calls back for each line, and this side
// keeps the few headers that a file server looks at.
//
// Beast checks the syntax: tokens, line ends, the target's characters, contradictory lengths. The
// rest is checked here: one Host that could be one, no second range or condition. Beast unfolds
// folded lines, as RFC 7230 lets it. RFC 9112, section 5.2, has a server refuse them, and this one
// does, in a look of its own: a line that is folded right behind its colon comes out of Beast like
// any other.
#include "request.hpp"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>
#include <string>

namespace httpd {
namespace {

namespace http = boost::beast::http;
using Text = boost::beast::string_view;
using Error = boost::beast::error_code;

std::string_view view(Text text) { return {text.data(), text.size()}; }

// uri-host [ ":" port ] (RFC 9110, section 7.2): a name, an address, or in brackets one of IPv6.
// Empty where the target has no host.
bool is_host(std::string_view text) {
  constexpr std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=";
  constexpr std::string_view digits = "0123456789ABCDEFabcdef";
  std::size_t at = 0;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos || end == 1) return false;
    const std::string_view inside = text.substr(1, end - 1);
    const bool future = inside.front() == 'v' || inside.front() == 'V';  // RFC 3986, IPvFuture
    const std::string valid = future ? std::string(letters) + ':' : std::string(digits) + ":.";
    if (inside.find_first_not_of(valid) != std::string_view::npos) return false;
    at = end + 1;
  } else {
    for (; at < text.size() && text[at] != ':'; ++at) {
      if (text[at] == '%') {
        if (at + 2 >= text.size() || digits.find(text[at + 1]) == std::string_view::npos ||
            digits.find(text[at + 2]) == std::string_view::npos) {
          return false;
        }
        at += 2;
      } else if (letters.find(text[at]) == std::string_view::npos) {
        return false;
      }
    }
  }
  if (at == text.size()) return true;
  const std::string_view port = text.substr(at + 1);
  return text[at] == ':' && port.find_first_not_of("0123456789") == std::string_view::npos;
}

// Whether a line goes on in the next one.
bool is_folded(std::string_view head) {
  return head.find("\r\n ") != std::string_view::npos ||
         head.find("\r\n\t") != std::string_view::npos;
}

class Parser final : public http::basic_parser<true> {
 public:
  explicit Parser(Request& request) : request_(request) {
    // Our own buffer is the limit. Boost 1.74 takes boost::none for less than any length.
    header_limit(std::numeric_limits<std::uint32_t>::max());
    body_limit(std::numeric_limits<std::uint64_t>::max());
  }

  [[nodiscard]] Status status() const { return status_; }
  [[nodiscard]] bool header_is_good() const { return hosts_ == 1 || request_.http_1_0; }

 private:
  void on_request_impl(http::verb method, Text, Text target, int version, Error&) override {
    request_.method = method == http::verb::get    ? Method::get
                      : method == http::verb::head ? Method::head
                                                   : Method::other;
    request_.target = view(target);
    request_.http_1_0 = version == 10;
  }

  void on_field_impl(http::field name, Text, Text value, Error& error) override {
    switch (name) {
      case http::field::host:
        if (++hosts_ > 1 || !is_host(view(value))) fail(error, Status::bad_request);
        return;
      case http::field::range:
        return keep(request_.range, value, error);
      case http::field::if_match:
        return keep(request_.conditions.if_match, value, error);
      case http::field::if_none_match:
        return keep(request_.conditions.if_none_match, value, error);
      case http::field::if_modified_since:
        return keep(request_.conditions.if_modified_since, value, error);
      case http::field::if_unmodified_since:
        return keep(request_.conditions.if_unmodified_since, value, error);
      case http::field::if_range:
        return keep(request_.conditions.if_range, value, error);
      case http::field::transfer_encoding:
        request_.body = BodyKind::chunked;
        return;
      case http::field::expect:
        if (!boost::beast::iequals(value, "100-continue")) {
          return fail(error, Status::expectation_failed);
        }
        request_.expects_continue = true;
        return;
      default:
        return;
    }
  }

  // A second one would say something else.
  void keep(std::string_view& place, Text value, Error& error) {
    if (place.data() != nullptr) return fail(error, Status::bad_request);
    place = view(value);
  }

  void fail(Error& error, Status status) {
    status_ = status;
    error = http::error::bad_value;
  }

  void on_header_impl(Error&) override {
    request_.keep_alive = keep_alive();
    const auto length = content_length();
    if (request_.body == BodyKind::none && length && *length > 0) {
      request_.body = BodyKind::sized;
      request_.content_length = *length;
    }
  }

  // Only heads are parsed, of requests: none of these is ever called.
  void on_response_impl(int, Text, int, Error&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, Error&) override {}
  std::size_t on_body_impl(Text, Error&) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, Text, Error&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, Text, Error&) override { return 0; }
  void on_finish_impl(Error&) override {}

  Request& request_;
  Status status_ = Status::bad_request;
  int hosts_ = 0;
};

// The first line ends in a version, but in none of ours.
bool names_other_version(std::string_view text) {
  const std::string_view line = text.substr(0, text.find("\r\n"));
  if (line.find_first_of("\r\n") != std::string_view::npos) return false;
  const std::size_t at = line.rfind(" HTTP/");
  if (at == std::string_view::npos || line.size() != at + 9 || line[at + 7] != '.') return false;
  const std::string_view version = line.substr(at + 6);
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return digit(version[0]) && digit(version[2]) && version != "1.0" && version != "1.1";
}

}  // namespace

bool HeadWatch::is_due(std::string_view text) {
  constexpr std::size_t small = 4'096;
  constexpr std::string_view end = "\r\n\r\n";
  const std::size_t known = std::min(seen_, text.size());
  const bool line = text.find('\n', known) != std::string_view::npos;
  const bool whole =
      text.find(end, known - std::min(known, end.size() - 1)) != std::string_view::npos;
  const bool first = seen_ == 0;
  seen_ = text.size();
  if (!first && !whole && !(line && (text.size() <= small || text.size() >= 2 * parsed_))) {
    return false;
  }
  parsed_ = text.size();
  return true;
}

Parsed parse_request(std::string_view text, Request& request) {
  request = Request{};
  Parser parser(request);
  Error error;
  std::size_t bytes = 0;
  // A put ends behind the line that it could not finish, or behind the head.
  bytes += parser.put({text.data(), text.size()}, error);
  if (error == http::error::need_more) return {};
  if (error) {
    const bool version = error == http::error::bad_version && names_other_version(text);
    return {Parsed::Kind::malformed, 0, version ? Status::version_not_supported : parser.status()};
  }
  if (!parser.header_is_good() || is_folded(text.substr(0, bytes)))
    return {Parsed::Kind::malformed, 0, Status::bad_request};
  return {Parsed::Kind::complete, bytes, Status::ok};
}

}  // namespace httpd
