// Whether the moved bytes are right: files, datagrams, connections, readiness.
#include <algorithm>

#include "simulation/program.hpp"

namespace baton::tools::simulation {

// -- files ----------------------------------------------------------------------------------------

void Program::judge_file(Slot& slot) {
  const Operation& operation = slot.operation;
  const std::size_t bytes = operation.bytes();
  if (bytes > slot.size) wrong(slot, "more bytes than the buffer has");
  if (slot.exactly && !operation.failed() && bytes != slot.size) {
    wrong(slot, "only a part of a read that is all or nothing");
  }
  const bool reads = slot.what == What::read_at;
  // A part is enough if the read need not be complete and something has failed behind the part.
  const bool in_part = !operation.failed() && bytes < slot.size;
  const bool excused =
      bytes > 0 && (world_->faults().disk_error != 0 || (!reads && lacks_room(slot)));
  if (in_part && !reads && !excused) wrong(slot, "only a part was written, but nothing has failed");
  if (reads) {
    const bool ended = operation.error() == errc::end_of_stream || (in_part && !excused);
    judge_contents(slot, ended);
  }
  file_over(slot, bytes);
}

/// Whether a write can have reached the end of the disk.
bool Program::lacks_room(const Slot& slot) const {
  const Disk& disk = *static_cast<const Disk*>(slot.object);
  const std::size_t offset =
      slot.what == What::append ? body_of(disk).bytes.size() : std::size_t{slot.offset};
  return offset + slot.size > world_->faults().disk_size;
}

// `ended`: the read has reached the end of the file.
void Program::judge_contents(Slot& slot, bool ended) {
  const Disk& disk = *static_cast<Disk*>(slot.object);
  const std::span<const std::byte> found{slot.buffer, slot.operation.bytes()};
  if (!disk.appends) {
    if (const char* const what = disk.book.wrong(slot.moment, slot.offset, found)) {
      wrong(slot, what);
    }
    if (ended && !disk.book.may_end_at(slot.moment, slot.offset + found.size())) {
      wrong(slot, "the end of a file before bytes that were written");
    }
    return;
  }
  // Its content never changes, and is judged as a whole in the end.
  const std::vector<std::byte>& file = body_of(disk).bytes;
  if (slot.offset + found.size() > file.size() && !found.empty()) {
    wrong(slot, "a read beyond the end of a file");
  }
  if (!std::equal(found.begin(), found.end(),
                  file.begin() + static_cast<std::ptrdiff_t>(found.empty() ? 0 : slot.offset))) {
    wrong(slot, "a byte of a file that was not appended there");
  }
  if (ended && slot.offset + found.size() < slot.size_before) {
    wrong(slot, "the end of a file before bytes that were appended");
  }
}

// The machine loses its power at this moment; checks the content of the disk.
void Program::judge_sync(Slot& slot) {
  const Disk& disk = *static_cast<Disk*>(slot.object);
  if (!slot.operation.failed() && world_->random.below(4) == 0) {
    const sim::FileBody& body = body_of(disk);
    const std::vector<std::byte> left = world_->kernel().after_crash(body);
    if (disk.appends) {
      const std::size_t size = slot.size_before;
      if (left.size() < size ||
          !std::equal(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(size),
                      body.bytes.begin())) {
        wrong(slot, "a crash after a sync has lost an append");
      }
    } else if (disk.book.wrong(slot.moment, 0, left) != nullptr ||
               !disk.book.may_end_at(slot.moment, left.size())) {
      wrong(slot, "a crash after a sync has lost a write");
    }
  }
  file_over(slot, 0);
}

// Checks the files when everything is complete.
void Program::check_files() {
  for (const auto& disk : disks_) {
    const std::vector<std::byte>& file = body_of(*disk).bytes;
    const char* wrong = nullptr;
    if (disk->appends) {
      wrong = disk->appended.wrong(file);
    } else {
      const FileBook::Moment moment = disk->book.begin_read();
      wrong = disk->book.wrong(moment, 0, file);
      if (wrong == nullptr && !disk->book.may_end_at(moment, file.size())) {
        wrong = "a write that was complete is not in the file";
      }
      disk->book.end_read(moment);
    }
    if (wrong != nullptr) world_->violated(std::string{wrong} + ": " + disk->path + " in the end");
  }
}

// -- datagrams ------------------------------------------------------------------------------------

void Program::judge_datagram(Slot& slot) {
  const Operation& operation = slot.operation;
  if (slot.what == What::send_to) {
    if (!operation.failed() && operation.bytes() != slot.size) {
      wrong(slot, "a part of a datagram was sent");
    }
    return reasons_.datagrams.end(slot.entry, operation.failed());
  }
  if (operation.failed()) return;
  if (operation.bytes() > slot.size) wrong(slot, "more bytes than the buffer has");
  const Mailbox& box = *static_cast<Mailbox*>(slot.object);
  const char* const what = reasons_.datagrams.received({slot.buffer, operation.bytes()}, slot.size,
                                                       slot.endpoint.port(), box.endpoint.port());
  if (what != nullptr) wrong(slot, what);
}

// -- readiness ------------------------------------------------------------------------------------

// Another operation may have used up the readiness, so any time since the start counts.
void Program::judge_ready(Slot& slot) {
  if (slot.operation.failed() || finishing_) return;
  const End& end = *static_cast<End*>(slot.object);
  const sim::Node* const node = slot.node;
  const bool same = end.open && node != nullptr && node->generation == slot.generation &&
                    node->kind != sim::NodeKind::none;
  if (!same) return;
  const std::uint32_t ready = sim::Kernel::ready(*node);
  const auto was = [&](std::uint32_t bit, std::int64_t until) {
    return (ready & (bit | sim::Kernel::broken | sim::Kernel::hung_up)) != 0 ||
           until >= slot.started_at;
  };
  const bool in =
      any(slot.interest & Interest::in) &&
      (was(sim::Kernel::readable, node->readable_until) || node->lied_at >= slot.started_at);
  const bool out =
      any(slot.interest & Interest::out) && was(sim::Kernel::writable, node->writable_until);
  if (!in && !out) wrong(slot, "reported as ready, but it was not ready since the start");
}

// -- connections ----------------------------------------------------------------------------------

void Program::judge_accept(Slot& slot) {
  if (slot.operation.failed()) return;
  if (!reasons_.take_accepted(slot.endpoint.port())) {
    wrong(slot, "an accepted connection that the machine has not accepted, or reported twice");
  }
  Connection& connection = connection_of(slot.endpoint.port());
  if (connection.accepted) wrong(slot, "a connection was accepted twice");
  connection.accepted = true;
  // One that is not taken is closed within the call, slowly perhaps. Its client sees that before.
  connection.forth.reader_closed = connection.back.writer_closed = true;
  auto socket = Acceptor::take(*proactor_, slot.operation);
  if (!socket || finishing_) {
    // Closed: by its destructor, or without a free handle.
    if (!socket && socket.error() != errc::stopped && socket.error() != errc::no_free_handles) {
      wrong(slot, "an accepted connection cannot be taken");
    }
    return;
  }
  const int fd = socket->native();
  const sim::Node* node = world_->kernel().find(fd);
  if (node == nullptr || node->kind != sim::NodeKind::stream ||
      node->peer_port != connection.port) {
    wrong(slot, "an accepted connection is closed, or another one");
  }
  connection.forth.reader_closed = connection.back.writer_closed = false;
  new_end(fd, true, connection, &connection.forth, &connection.back).socket = std::move(*socket);
}

void Program::judge_connect(Slot& slot) {
  auto socket = Connector{*proactor_}.take(slot.operation);
  if (!socket || finishing_) {
    ++connects_lost_;
    return;
  }
  const sim::Node* node = world_->kernel().find(socket->native());
  if (node == nullptr) wrong(slot, "a connect has succeeded, but its descriptor is closed");
  if (node->kind != sim::NodeKind::stream) {
    wrong(slot, "a connect has succeeded, but its descriptor is another file");
  }
  if (node->link != sim::Link::up) {
    wrong(slot, "a connect has succeeded, and nothing is connected");
  }
  const Result<Endpoint> local = socket->local_endpoint();
  if (!local) wrong(slot, "a connected socket has no address");
  Connection& connection = connection_of(local->port());
  if (connection.connected) wrong(slot, "a connection is connected twice");
  connection.connected = true;
  connection.listener = slot.listener;
  const int fd = socket->native();
  new_end(fd, true, connection, &connection.back, &connection.forth).socket = std::move(*socket);
}

// Checks that each accepted connection was reported and belongs to a client's connect.
void Program::check_connections() {
  world_->check(reasons_.all_accepted_are_told(), "a connection was accepted and never reported");
  world_->check(!reasons_.strange(), "the machine has dropped a datagram that was never sent");
  std::uint32_t unasked = 0;
  for (std::size_t i = 0; i < connections_used_; ++i) {
    const Connection& connection = *connections_[i];
    if (connection.accepted && !connection.connected) ++unasked;
  }
  world_->check(unasked <= connects_lost_, "a connection was accepted that was never started");
}

}  // namespace baton::tools::simulation
