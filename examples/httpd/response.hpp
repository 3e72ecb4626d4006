// An answer, decided but not sent: its head, and where its body comes from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "file_cache.hpp"
#include "request.hpp"
#include "status.hpp"
#include "target.hpp"

namespace httpd {

/// Whether the connection goes on after an answer, in the words of the client's version.
enum class Connection : std::uint8_t { keep, keep_1_0, close };

struct Response {
  Status status = Status::ok;
  /// The whole head; behind it the body, if that is text.
  std::string text;
  /// The body, if it is a part of a file: bytes [offset, offset + length).
  std::shared_ptr<OpenFile> file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  void clear() {
    text.clear();
    file.reset();
    offset = 0;
    length = 0;
  }
};

/// A status with a short page that says it in words. HEAD: without the page, with its length.
/// `more`: further header lines, each with its line end.
void write_page(Response& response, Status status, Method method, Connection connection,
                std::string_view more = {});
/// A page that is ready.
void write_html(Response& response, Status status, Method method, Connection connection,
                std::string_view page, std::string_view more = {});
/// A file, a part of it, or what the request's conditions say instead.
void write_file(Response& response, const Request& request, const std::shared_ptr<OpenFile>& file,
                Connection connection);

}  // namespace httpd
