// Response heads. Most of what a file's head says was written when the file was opened.
#include "response.hpp"

#include "range.hpp"

namespace httpd {
namespace {

void begin(Response& response, Status status, Connection connection) {
  response.clear();
  response.status = status;
  std::string& out = response.text;
  out += "HTTP/1.1 ";
  out += text_of(status);
  out += "\r\nServer: Baton\r\n";
  out += date_line();
  if (connection == Connection::close) out += "Connection: close\r\n";
  if (connection == Connection::keep_1_0) out += "Connection: keep-alive\r\n";
}

void add_length(std::string& out, std::uint64_t length) {
  out += "Content-Length: ";
  out += std::to_string(length);
  out += "\r\n";
}

void write_part(Response& response, const Range& range, const OpenFile& file,
                Connection connection) {
  begin(response, Status::partial_content, connection);
  std::string& out = response.text;
  out += file.lines;
  out += "Content-Range: bytes " + std::to_string(range.offset) + '-' +
         std::to_string(range.offset + range.length - 1) + '/' + std::to_string(file.size) + "\r\n";
  add_length(out, range.length);
  out += "\r\n";
  response.offset = range.offset;
  response.length = range.length;
}

void write_whole(Response& response, const OpenFile& file, Connection connection) {
  begin(response, Status::ok, connection);
  response.text += file.lines;
  response.text += file.length_line;
  response.text += "\r\n";
  response.length = file.size;
}

// Whether the Range header of a request counts at all, and what it asks for.
Range range_of(const Request& request, const OpenFile& file) {
  if (request.range.empty() || request.method != Method::get) return {};
  if (!range_applies(request.conditions.if_range, file.validators(), wall_clock())) return {};
  return parse_range(request.range, file.size);
}

}  // namespace

void write_html(Response& response, Status status, Method method, Connection connection,
                std::string_view page, std::string_view more) {
  begin(response, status, connection);
  std::string& out = response.text;
  out += more;
  out += "Content-Type: text/html; charset=utf-8\r\n";
  add_length(out, page.size());
  out += "\r\n";
  if (method != Method::head) out += page;
}

void write_page(Response& response, Status status, Method method, Connection connection,
                std::string_view more) {
  const std::string title(text_of(status));
  const std::string page = "<!doctype html>\n<html><head><title>" + title +
                           "</title></head>\n<body><h1>" + title + "</h1></body></html>\n";
  write_html(response, status, method, connection, page, more);
}

void write_file(Response& response, const Request& request, const std::shared_ptr<OpenFile>& file,
                Connection connection) {
  switch (evaluate(request.conditions, file->validators())) {
    case Verdict::precondition_failed:
      return write_page(response, Status::precondition_failed, request.method, connection);
    case Verdict::not_modified:
      begin(response, Status::not_modified, connection);
      response.text += file->lines;
      response.text += "\r\n";
      return;
    case Verdict::go_on:
      break;
  }
  const Range range = range_of(request, *file);
  if (range.kind == Range::Kind::unsatisfiable) {
    return write_page(response, Status::range_not_satisfiable, request.method, connection,
                      "Content-Range: bytes */" + std::to_string(file->size) + "\r\n");
  }
  if (range.kind == Range::Kind::part) {
    write_part(response, range, *file, connection);
  } else {
    write_whole(response, *file, connection);
  }
  if (request.method == Method::get && response.length > 0) response.file = file;
}

}  // namespace httpd
