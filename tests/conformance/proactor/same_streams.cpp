// The part of a script that uses streams: UNIX sockets, TCP, and pipes in either direction.
#include <sys/socket.h>

#include <algorithm>

#include "same.hpp"

namespace baton::conformance {

Same::Stream Same::open_stream(unsigned kind) {
  Pair pair = kind == 0   ? unix_pair()
              : kind == 1 ? tcp_pair()
              : kind == 2 ? pipe_to_read()
                          : pipe_to_write();
  Stream stream;
  stream.tcp = kind == 1;
  stream.kind = kind < 2 ? HandleKind::stream_socket : HandleKind::pipe;
  stream.reads = kind != 3;
  stream.writes = kind != 2;
  stream.ours = pair.ours.get();
  stream.handle = adopt(pair.ours, stream.kind);
  stream.peer = std::move(pair.peer);
  return stream;
}

void Same::renew(Stream& stream) {
  Probe& close = plain(OperationKind::close, stream.handle);
  begin_and_tell(close);
  reopen(stream);
}

void Same::reopen(Stream& stream) {
  stream = open_stream(static_cast<unsigned>(&stream - streams_));
}

// Less than a page, so that it comes at once or not at all.
void Same::send(Stream& stream, std::size_t count) {
  send_all(stream.peer.get(), pattern(count, ++text_));
  stream.unread += count;
}

Probe& Same::read(Stream& stream, std::size_t room, std::uint16_t flags) {
  return reading(stream.handle, memory(room), flags);
}

Probe& Same::write(Stream& stream, std::size_t count, std::uint16_t flags) {
  return writing(stream.handle, memory(pattern(count, ++text_)), flags);
}

void Same::use_a_stream() {
  Stream& stream = streams_[below(4)];
  if (stream.unread > 20'000) return renew(stream);
  if (below(8) == 0) return ask_the_wrong(stream);
  if (below(12) == 0) {
    if (perhaps()) return close_with_pending(stream);
    return stream.tcp && perhaps() ? be_reset(stream) : come_to_the_end(stream);
  }
  if (!stream.reads || (stream.writes && below(3) == 0)) {
    return perhaps() ? write_some(stream) : write_in_turn(stream);
  }
  switch (below(6)) {
    case 0:
      return read_exactly(stream);
    case 1:
      return read_until(stream);
    case 2:
      return read_in_turn(stream);
    case 3:
      return give_up(stream);
    case 4:
      return wait_ready(stream);
    default:
      return read_what_comes(stream);
  }
}

// The data is there already, or arrives while the read waits.
void Same::read_what_comes(Stream& stream) {
  if (perhaps()) send(stream, 1 + below(1'500));
  Probe& one = read(stream, 1 + below(2'000), 0);
  begin(one);
  if (stream.unread == 0) send(stream, 1 + below(1'500));
  tell(one);
  stream.unread -= one.bytes();
}

void Same::read_exactly(Stream& stream) {
  const std::size_t count = 1 + below(4'000);
  Probe& one = read(stream, count, Operation::exactly);
  begin(one);
  while (stream.unread < count) send(stream, 1 + below(1'500));
  tell(one);
  stream.unread -= count;
}

// The stream holds nothing else: how many of the following bytes are read as well is not specified.
void Same::read_until(Stream& stream) {
  if (stream.unread > 0) return read_what_comes(stream);
  static const std::string_view delimiter = "\r\n";
  std::string text(below(300), 'x');
  if (perhaps()) text += std::string{delimiter} + std::string(below(9), 'y');
  text += 'z';
  send_all(stream.peer.get(), text);
  Probe& one = read(stream, 1 + below(400), 0);
  one.set_until(&delimiter, 0);
  begin(one);
  const std::size_t room = one.buffer().size;
  if (text.size() < room && text.find(delimiter) == text.npos) {
    run_until_taken(stream.ours);
    send_all(stream.peer.get(), delimiter.substr(0, room - text.size()));
  }
  tell(one, "until");
  stream.unread = 0;
  renew(stream);
}

void Same::read_in_turn(Stream& stream) {
  std::vector<Probe*> reads;
  std::size_t wanted = 0;
  for (unsigned left = 2 + below(4); left > 0; --left) {
    const std::size_t count = 1 + below(700);
    reads.push_back(&read(stream, count, Operation::exactly));
    begin(*reads.back());
    wanted += count;
  }
  while (stream.unread < wanted) send(stream, 1 + below(1'500));
  for (Probe* one : reads) tell(*one, "in turn");
  stream.unread -= wanted;
}

// Cancelled by itself, with its stream, or by time; with a part of its bytes or none.
void Same::give_up(Stream& stream) {
  const bool in_part = perhaps();
  if (!in_part && stream.unread > 0) return read_exactly(stream);
  Probe& one = read(stream, stream.unread + 2'000, in_part ? Operation::exactly : 0);
  Probe& behind = read(stream, 8, 0);
  const unsigned by = in_part ? below(2) : below(3);
  if (by == 2) {
    for (Probe* each : {&one, &behind}) {
      each->set_deadline(Deadline::after(1ms, proactor().now()));
    }
  }
  begin(one);
  begin(behind);
  if (in_part) {
    send(stream, 1 + below(1'500));
    run_until_taken(stream.ours);
  }
  if (by == 0) {
    for (Probe* each : {&behind, &one}) {
      note(proactor().cancel(*each) == CancelResult::requested ? "requested" : "nothing pending");
    }
  } else if (by == 1) {
    proactor().cancel(*stream.handle);
  }
  tell(one, "given up");
  tell(behind, "given up");
  stream.unread = 0;
}

void Same::write_some(Stream& stream) {
  Probe& one = write(stream, below(3'000), perhaps() ? Operation::exactly : 0);
  if (perhaps()) {
    static const std::string_view pieces[] = {"one", "", "three and more"};
    static const ConstBuffer list[] = {pieces[0], pieces[1], pieces[2]};
    one.set_buffers(ConstBuffers{list});
  }
  begin_and_tell(one);
  note("there " + digest(receive(stream.peer.get(), one.bytes())));
}

void Same::write_in_turn(Stream& stream) {
  std::vector<Probe*> writes;
  for (unsigned left = 2 + below(4); left > 0; --left) {
    writes.push_back(&write(stream, 1 + below(700), 0));
    begin(*writes.back());
  }
  std::size_t written = 0;
  for (Probe* one : writes) {
    tell(*one, "in turn");
    written += one->bytes();
  }
  note("there " + digest(receive(stream.peer.get(), written)));
}

void Same::wait_ready(Stream& stream) {
  Probe& one = plain(OperationKind::wait_ready, stream.handle, Operation::readable);
  begin(one);
  if (stream.unread == 0) {
    if (perhaps()) {
      send(stream, 100);
    } else {
      proactor().cancel(one);
    }
  }
  tell(one);
}

void Same::ask_the_wrong(Stream& stream) {
  switch (below(6)) {
    case 0:
      return begin_and_tell(plain(OperationKind::sync_file, stream.handle));
    case 1:
      return begin_and_tell(plain(OperationKind::accept, stream.handle));
    case 2:
      return begin_and_tell(file_reading(stream.handle, memory(10), 0));
    case 3:
      if (stream.writes) return begin_and_tell(file_writing(stream.handle, memory(10), 5));
      return begin_and_tell(write(stream, 10, 0));
    case 4:
      if (!stream.reads) return begin_and_tell(read(stream, 10, 0));
      return begin_and_tell(write(stream, 0, 0), "empty");
    default:
      if (stream.writes && stream.reads) return;
      return begin_and_tell(plain(OperationKind::shutdown, stream.handle));
  }
}

// The peer ends its direction, then we end ours.
void Same::come_to_the_end(Stream& stream) {
  if (!stream.reads) {
    stream.peer.reset();
    begin_and_tell(write(stream, 10, 0), "without a reader");
    begin_and_tell(write(stream, 10, Operation::exactly), "without a reader");
    return renew(stream);
  }
  Probe& early = read(stream, stream.unread + 10, Operation::exactly);
  if (perhaps()) begin(early);
  if (stream.writes) {
    ::shutdown(stream.peer.get(), SHUT_WR);
  } else {
    stream.peer.reset();
  }
  if (early.starts == 0) begin(early);
  tell(early, "at the end");
  begin_and_tell(read(stream, 10, 0), "at the end");
  if (stream.writes) {
    Probe& last = write(stream, 1 + below(900), 0);
    Probe& half_close = plain(OperationKind::shutdown, stream.handle);
    begin(last);
    begin(half_close);
    tell(last, "last");
    tell(half_close);
    note("there " + digest(receive_rest(stream.peer.get())));
    begin_and_tell(write(stream, 10, 0), "after the last");
    begin_and_tell(plain(OperationKind::shutdown, stream.handle), "again");
  }
  renew(stream);
}

void Same::close_with_pending(Stream& stream) {
  std::vector<Probe*> pending;
  if (stream.reads && stream.unread == 0) {
    for (unsigned left = below(4); left > 0; --left) {
      pending.push_back(&read(stream, 10, perhaps() ? Operation::exactly : 0));
      begin(*pending.back());
    }
  }
  Probe& close = plain(OperationKind::close, stream.handle);
  begin(close);
  for (Probe* one : pending) tell(*one, "closed");
  tell(close);
  reopen(stream);
}

void Same::be_reset(Stream& stream) {
  const linger now{1, 0};
  ::setsockopt(stream.peer.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  Probe& one = read(stream, stream.unread + 10, Operation::exactly);
  if (stream.unread > 0) {
    begin(one);
    run_until_taken(stream.ours);
  } else if (perhaps()) {
    begin(one);
  }
  stream.peer.reset();
  if (one.starts == 0) begin(one);
  tell(one, "reset");
  renew(stream);
}

}  // namespace baton::conformance
