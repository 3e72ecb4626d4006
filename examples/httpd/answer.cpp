// GET and HEAD of files, index pages and folders.
#include "answer.hpp"

#include <memory>
#include <string>
#include <string_view>

#include "listing.hpp"

namespace httpd {
namespace {

// To the same name with a slash, so that relative links of the folder's page lead where they
// should. The query goes along.
std::string location_of(Path path, std::string_view target) {
  path.folder = true;
  std::string line = "Location: " + to_target(path);
  const std::size_t query = target.find('?');
  if (query != std::string_view::npos) line += target.substr(query);
  return line + "\r\n";
}

void answer_folder(Server& server, const Request& request, Connection connection, Path path,
                   Response& response) {
  if (!path.text.empty()) path.text.pop_back();  // the slash of the key
  std::string page;
  const Status status = make_listing(server.root(), path, server.options().hidden, page);
  if (status == Status::ok) {
    write_html(response, Status::ok, request.method, connection, page);
  } else {
    write_page(response, status, request.method, connection);
  }
}

}  // namespace

void answer(Server& server, const Request& request, Connection connection, Path& path,
            Response& response) {
  if (request.method == Method::other) {
    return write_page(response, Status::method_not_allowed, request.method, connection,
                      "Allow: GET, HEAD\r\n");
  }
  Status status = resolve_target(request.target, server.options().hidden, path);
  if (status != Status::ok) return write_page(response, status, request.method, connection);
  if (path.folder && !path.text.empty()) path.text += '/';

  std::shared_ptr<OpenFile> file;
  status = server.files().open(path.text, file);
  if (status == Status::ok) return write_file(response, request, file, connection);
  if (status == Status::moved_permanently) {
    return write_page(response, status, request.method, connection,
                      location_of(path, request.target));
  }
  const bool folder = path.text.empty() || path.folder;
  if (status == Status::not_found && folder && server.options().listing) {
    return answer_folder(server, request, connection, path, response);
  }
  write_page(response, status, request.method, connection);
}

}  // namespace httpd
