// The answer to a request: the decision, without any waiting.
#pragma once

#include "request.hpp"
#include "response.hpp"
#include "server.hpp"
#include "target.hpp"

namespace httpd {

/// Decides on a well-formed request. `path` is the session's scratch: it holds the key by which the
/// file was found.
void answer(Server& server, const Request& request, Connection connection, Path& path,
            Response& response);

}  // namespace httpd
