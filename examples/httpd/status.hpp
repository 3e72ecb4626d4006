// The answers that this server gives, by number and by name.
#pragma once

#include <cstdint>
#include <string_view>

namespace httpd {

enum class Status : std::uint16_t {
  ok = 200,
  partial_content = 206,
  moved_permanently = 301,
  not_modified = 304,
  bad_request = 400,
  forbidden = 403,
  not_found = 404,
  method_not_allowed = 405,
  request_timeout = 408,
  length_required = 411,
  precondition_failed = 412,
  content_too_large = 413,
  uri_too_long = 414,
  range_not_satisfiable = 416,
  expectation_failed = 417,
  header_too_large = 431,
  internal_error = 500,
  unavailable = 503,
  version_not_supported = 505,
};

/// "404 Not Found"
constexpr std::string_view text_of(Status status) {
  switch (status) {
    case Status::ok:
      return "200 OK";
    case Status::partial_content:
      return "206 Partial Content";
    case Status::moved_permanently:
      return "301 Moved Permanently";
    case Status::not_modified:
      return "304 Not Modified";
    case Status::bad_request:
      return "400 Bad Request";
    case Status::forbidden:
      return "403 Forbidden";
    case Status::not_found:
      return "404 Not Found";
    case Status::method_not_allowed:
      return "405 Method Not Allowed";
    case Status::request_timeout:
      return "408 Request Timeout";
    case Status::length_required:
      return "411 Length Required";
    case Status::precondition_failed:
      return "412 Precondition Failed";
    case Status::content_too_large:
      return "413 Content Too Large";
    case Status::uri_too_long:
      return "414 URI Too Long";
    case Status::range_not_satisfiable:
      return "416 Range Not Satisfiable";
    case Status::expectation_failed:
      return "417 Expectation Failed";
    case Status::header_too_large:
      return "431 Request Header Fields Too Large";
    case Status::internal_error:
      return "500 Internal Server Error";
    case Status::unavailable:
      return "503 Service Unavailable";
    case Status::version_not_supported:
      return "505 HTTP Version Not Supported";
  }
  return "500 Internal Server Error";
}

}  // namespace httpd
