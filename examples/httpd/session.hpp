// One connection: request after request, each with its limits and its deadlines.
#pragma once

#include <baton/baton.hpp>
#include <cstdint>

#include "input.hpp"
#include "request.hpp"
#include "response.hpp"
#include "server.hpp"
#include "target.hpp"

namespace httpd {

/// The whole life of a connection.
baton::Task<void> serve_connection(Server& server, baton::StreamSocket socket, Place place);

class Session {
 public:
  Session(Server& server, baton::StreamSocket socket, Admission admission);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  baton::Task<void> run();

 private:
  Parsed parse();
  baton::Result<std::size_t> take_what_came();
  bool note_received(const baton::Result<std::size_t>& received, Parsed& parsed);
  void decide(const Parsed& parsed);
  void refuse(Status status);
  [[nodiscard]] Connection connection_for(const Request& request) const;
  [[nodiscard]] Status refusal(const Request& request) const;
  baton::Task<bool> discard_body();
  bool note_sent(const baton::Result<std::size_t>& sent);
  baton::Task<bool> send();
  baton::Task<void> close_gently();
  [[nodiscard]] baton::Deadline after(baton::Duration span) const;

  Server& server_;
  baton::StreamSocket socket_;
  const Admission admission_;
  Input input_;
  Request request_;
  Response response_;
  Path path_;
  HeadWatch watch_;
  std::uint64_t body_left_ = 0;  // of the request that is being answered
  std::uint64_t requests_ = 0;
  Counts counts_;
  baton::Deadline deadline_;  // of the request that is awaited or being received
  bool begun_ = false;        // its first byte is there
  bool goes_on_ = true;
};

}  // namespace httpd
