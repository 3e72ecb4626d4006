// The steps of a program in lockstep, and the results of its operations.
#include "lockstep.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "os/system.hpp"

namespace baton::test {

using tools::simulation::AppendBook;
using tools::simulation::DatagramBook;
using tools::simulation::FileBook;
using tools::simulation::Flow;

namespace {
constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t patience_ns = 60'000 * ms;
}  // namespace

Lockstep::Lockstep(Proactor& proactor, std::uint64_t seed, const std::string& folder)
    : proactor_(proactor), random_(seed) {
  open_sockets();
  open_files(folder);
}

void Lockstep::open_sockets() {
  auto acceptor = Acceptor::listen(proactor_, Endpoint::loopback(0));
  if (!acceptor) return fail("no listener: " + acceptor.error().message());
  acceptor_ = std::move(*acceptor);
  if (auto local = acceptor_.local_endpoint()) address_ = *local;
  for (std::size_t i = 0; i < std::size(mailboxes_); ++i) {
    auto socket = DatagramSocket::bind(proactor_, Endpoint::loopback(0));
    if (!socket) return fail("no datagram socket: " + socket.error().message());
    mailboxes_[i] = std::move(*socket);
    if (auto local = mailboxes_[i].local_endpoint()) ports_[i] = local->port();
  }
}

Lockstep::~Lockstep() {
  // No other operation uses the files.
  for (const auto& disk : disks_) {
    disk->file.close_detached();
    std::remove(disk->path.c_str());
  }
}

void Lockstep::open_files(const std::string& folder) {
  for (const char* name : {"usual", "appended", "direct"}) {
    auto disk = std::make_unique<Disk>();
    disk->path = folder + "/" + name;
    disk->appends = std::strcmp(name, "appended") == 0;
    disk->direct = std::strcmp(name, "direct") == 0;
    const FileFlags flags = FileFlags::read_write | FileFlags::create | FileFlags::truncate |
                            (disk->appends ? FileFlags::append : FileFlags::none);
    auto file = File::open(proactor_, disk->path, disk->direct ? flags | FileFlags::direct : flags);
    // Some file systems have no O_DIRECT; the steps are the same without.
    if (!file && disk->direct) file = File::open(proactor_, disk->path, flags);
    if (!file) return fail("no file " + disk->path + ": " + file.error().message());
    disk->file = std::move(*file);
    disks_.push_back(std::move(disk));
  }
}

void Lockstep::run(std::uint32_t steps) {
  using Step = void (Lockstep::*)();
  constexpr Step all[] = {
      &Lockstep::transfer,     &Lockstep::transfer,           &Lockstep::transfer,
      &Lockstep::read_nothing, &Lockstep::wait_for_readiness, &Lockstep::wait_for_room,
      &Lockstep::write_file,   &Lockstep::write_file,         &Lockstep::read_file,
      &Lockstep::read_file,    &Lockstep::sync_file,          &Lockstep::send_datagrams,
      &Lockstep::connect,      &Lockstep::connect_to_nobody,  &Lockstep::end_connection,
      &Lockstep::wait_for_time};
  for (std::uint32_t i = 0; i < steps && wrong_.empty(); ++i) (this->*random_.one_of(all))();
  if (!wrong_.empty()) return;
  for (const auto& disk : disks_) judge_end_of_file(*disk);
  if (const char* const what = datagrams_.wrong()) fail(what);
}

std::int64_t Lockstep::now_ns() const noexcept { return proactor_.system().monotonic_ns(); }

// -- requests -------------------------------------------------------------------------------------

Lockstep::Request& Lockstep::request(const char* name, std::size_t size) {
  if (used_ == requests_.size()) requests_.push_back(std::make_unique<Request>());
  Request& made = *requests_[used_++];
  made.name = name;
  made.size = size;
  made.complete = false;
  made.operation.set_deadline(Deadline::never());
  Request* const address = &made;
  made.operation.set_completion(
      [](Operation& operation) { static_cast<Request*>(operation.context())->complete = true; },
      address);
  return made;
}

void Lockstep::started(Request& of, std::error_code error) {
  if (!error) return;
  of.complete = true;
  fail(std::string{of.name} + " is refused: " + error.message());
}

// Until all are complete; then each notes its result.
void Lockstep::settle() {
  const std::int64_t end = now_ns() + patience_ns;
  const auto complete = [&] {
    return std::all_of(requests_.begin(), requests_.begin() + static_cast<std::ptrdiff_t>(used_),
                       [](const auto& each) { return each->complete; });
  };
  while (!complete() && now_ns() < end) {
    proactor_.handle_events(Deadline::at_ns(now_ns() + 10 * ms), 1);
  }
  if (!complete()) fail("an operation never completes\n" + proactor_.explain());
  for (std::size_t i = 0; i < used_; ++i) {
    const Operation& operation = requests_[i]->operation;
    const bool has_bytes = operation.kind() != OperationKind::accept;
    outcomes_.push_back(std::string{requests_[i]->name} + " of " +
                        std::to_string(requests_[i]->size) + ": " +
                        (operation.failed() ? operation.error().message() : std::string{"done"}) +
                        (has_bytes ? ", " + std::to_string(operation.bytes()) : std::string{}));
  }
  used_ = 0;
}

void Lockstep::fail(const std::string& what) {
  if (wrong_.empty()) wrong_ = what + " (after " + std::to_string(outcomes_.size()) + " outcomes)";
}

// -- streams --------------------------------------------------------------------------------------

Lockstep::Connection* Lockstep::any_connection() {
  if (!connections_.empty() && random_.below(8) != 0) {
    return connections_[random_.below(static_cast<std::uint32_t>(connections_.size()))].get();
  }
  if (connections_.size() >= 6) return connections_.back().get();
  int fds[2];
  if (proactor_.system().socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) !=
      0) {
    fail("no socket pair");
    return nullptr;
  }
  auto made = std::make_unique<Connection>();
  for (std::size_t i = 0; i < 2; ++i) {
    auto end = StreamSocket::adopt(proactor_, fds[i], Ownership::owned);
    if (!end) {
      fail("a socket cannot be adopted: " + end.error().message());
      return nullptr;
    }
    made->ends[i] = std::move(*end);
  }
  connections_.push_back(std::move(made));
  return connections_.back().get();
}

/// One to three sizes, together this one.
std::vector<std::size_t> Lockstep::parts_of(std::size_t size) {
  std::vector<std::size_t> parts;
  while (size > 1 && parts.size() < 2 && random_.coin()) {
    parts.push_back(1 + random_.below(static_cast<std::uint32_t>(size - 1)));
    size -= parts.back();
  }
  parts.push_back(size);
  return parts;
}

void Lockstep::write_parts(Connection& connection, std::size_t from, std::size_t size) {
  for (const std::size_t part : parts_of(size)) {
    Request& write = request("write_all", part);
    std::memcpy(write.buffer, connection.flows[from].take(part), part);
    started(write,
            connection.ends[from].write_all(write.operation, ConstBuffer{write.buffer, part}));
  }
}

void Lockstep::read_parts(Connection& connection, std::size_t from, std::size_t size) {
  for (const std::size_t part : parts_of(size)) {
    Request& read = request("read_exactly", part);
    read.entry = connection.flows[from].begin_read();
    started(read, connection.ends[1 - from].read_exactly(read.operation,
                                                         MutableBuffer{read.buffer, part}));
  }
}

void Lockstep::transfer() {
  Connection* const connection = any_connection();
  if (connection == nullptr) return;
  const std::size_t from = random_.below(2);
  const std::size_t size = 1 + random_.below(4'000);
  const bool reads_first = random_.coin();
  if (reads_first) read_parts(*connection, from, size);
  write_parts(*connection, from, size);
  if (!reads_first) read_parts(*connection, from, size);
  const std::size_t count = used_;
  settle();
  Flow& flow = connection->flows[from];
  for (std::size_t i = 0; i < count; ++i) {
    const Request& each = *requests_[i];
    const std::size_t bytes = each.operation.bytes();
    if (each.operation.kind() == OperationKind::write_stream) {
      flow.wrote(each.size, bytes);
    } else if (!flow.read(each.entry, each.buffer, bytes)) {
      fail("the bytes of a stream do not come as they were sent: " + flow.complaint());
    }
  }
}

// Cancelled, or too late: there is nothing to read.
void Lockstep::read_nothing() {
  Connection* const connection = any_connection();
  if (connection == nullptr) return;
  Request& read = request("read", 100);
  const bool cancel = random_.coin();
  if (!cancel) {
    read.operation.set_deadline(Deadline::at_ns(now_ns() + random_.between(0, ms)));
  }
  started(read,
          connection->ends[random_.below(2)].read(read.operation, MutableBuffer{read.buffer, 100}));
  if (cancel) proactor_.cancel(read.operation);
  settle();
}

short Lockstep::readiness(const StreamSocket& socket) {
  pollfd look{.fd = socket.native(), .events = POLLIN | POLLOUT, .revents = 0};
  const timespec at_once{};
  return proactor_.system().ppoll(&look, 1, &at_once, nullptr) >= 0 ? look.revents : short{0};
}

// Not ready while there is no data, and ready as soon as there is some.
void Lockstep::wait_for_readiness() {
  Connection* const connection = any_connection();
  if (connection == nullptr) return;
  const std::size_t from = random_.below(2);
  StreamSocket& reader = connection->ends[1 - from];
  Request& wait = request("wait_ready in");
  started(wait, reader.wait_ready(wait.operation, Interest::in));
  bool rung = false;
  Operation timer;
  timer.set_handler([&rung](Operation&) { rung = true; });
  if (proactor_.start_timer(timer, Deadline::at_ns(now_ns() + ms / 5))) {
    return fail("a timer is refused");
  }
  while (!rung) {
    proactor_.handle_events(Deadline::at_ns(now_ns() + 10 * ms), 1);
  }
  if (wait.complete) fail("ready to be read, and there is nothing");
  const std::size_t size = 1 + random_.below(200);
  if (random_.coin()) {
    proactor_.cancel(wait.operation);
    return settle();
  }
  Request& write = request("write_all", size);
  std::memcpy(write.buffer, connection->flows[from].take(size), size);
  started(write,
          connection->ends[from].write_all(write.operation, ConstBuffer{write.buffer, size}));
  settle();
  connection->flows[from].wrote(size, size);
  if ((readiness(reader) & POLLIN) == 0) fail("ready to be read, and poll knows nothing of it");
  read_parts(*connection, from, size);
  const std::size_t count = used_;
  settle();
  for (std::size_t i = 0; i < count; ++i) {
    const Request& read = *requests_[i];
    if (!connection->flows[from].read(read.entry, read.buffer, read.operation.bytes())) {
      fail("what was there after wait_ready is not what was sent");
    }
  }
}

void Lockstep::wait_for_room() {
  Connection* const connection = any_connection();
  if (connection == nullptr) return;
  StreamSocket& end = connection->ends[random_.below(2)];
  Request& wait = request("wait_ready out");
  started(wait, end.wait_ready(wait.operation, Interest::out));
  settle();
  if ((readiness(end) & POLLOUT) == 0) fail("ready to be written, and poll knows nothing of it");
}

// -- connections ----------------------------------------------------------------------------------

void Lockstep::connect() {
  if (connections_.size() >= 6) return end_connection();
  Request& accept = request("accept");
  Request& connect = request("connect");
  const bool accepts_first = random_.coin();
  if (accepts_first) started(accept, acceptor_.accept(accept.operation, accept.endpoint));
  connect.endpoint = address_;
  started(connect, Connector{proactor_}.connect(connect.operation, connect.endpoint));
  if (!accepts_first) started(accept, acceptor_.accept(accept.operation, accept.endpoint));
  settle();
  auto server = acceptor_.take(accept.operation);
  auto client = Connector{proactor_}.take(connect.operation);
  if (!server || !client) return fail("a connection cannot be taken");
  const auto local = client->local_endpoint();
  if (!local || local->port() != accept.endpoint.port()) {
    return fail("the connection that was accepted is another one");
  }
  auto made = std::make_unique<Connection>();
  made->ends[0] = std::move(*client);
  made->ends[1] = std::move(*server);
  made->of_network = true;
  connections_.push_back(std::move(made));
}

void Lockstep::connect_to_nobody() {
  Endpoint nobody;
  {
    auto acceptor = Acceptor::listen(proactor_, Endpoint::loopback(0));
    if (!acceptor) return fail("no second listener: " + acceptor.error().message());
    if (auto local = acceptor->local_endpoint()) nobody = *local;
    Request& close = request("close");
    started(close, acceptor->close(close.operation));
    settle();
  }
  Request& connect = request("connect without a listener");
  connect.endpoint = nobody;
  started(connect, Connector{proactor_}.connect(connect.operation, connect.endpoint));
  settle();
  if (Connector{proactor_}.take(connect.operation)) fail("connected without a listener");
}

// One side ends its writes and the other sees it; or it closes, and writing to it fails.
void Lockstep::end_connection() {
  if (connections_.empty()) return;
  const std::size_t which = random_.below(static_cast<std::uint32_t>(connections_.size()));
  const std::unique_ptr<Connection> connection = std::move(connections_[which]);
  connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(which));
  const std::size_t from = random_.below(2);
  if (random_.coin()) {
    Request& half = request("shutdown");
    started(half, connection->ends[from].shutdown(half.operation));
    settle();
  } else {
    Request& close = request("close");
    started(close, connection->ends[from].close(close.operation));
    settle();
    // A network reports it later.
    if (!connection->of_network) {
      Request& write = request("write to a closed peer", 10);
      std::memset(write.buffer, 0, 10);
      started(write,
              connection->ends[1 - from].write(write.operation, ConstBuffer{write.buffer, 10}));
      settle();
    }
  }
  Request& read = request("read at the end", 10);
  started(read, connection->ends[1 - from].read(read.operation, MutableBuffer{read.buffer, 10}));
  settle();
  if (read.operation.failed() || read.operation.bytes() != 0) fail("a stream has no end");
  for (StreamSocket& end : connection->ends) {
    if (end.native() == invalid_handle) continue;
    Request& close = request("close");
    started(close, end.close(close.operation));
    settle();
  }
}

// -- files ----------------------------------------------------------------------------------------

Lockstep::Disk& Lockstep::any_disk() {
  return *disks_[random_.below(static_cast<std::uint32_t>(disks_.size()))];
}

// Several at a time, and they may overlap.
void Lockstep::write_file() {
  Disk& disk = any_disk();
  const std::uint32_t count = 1 + random_.below(4);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t size = disk.direct ? page * (1 + random_.below(2)) : random_.below(3'000);
    Request& write = request(disk.appends ? "append_all" : "write_all_at", size);
    if (disk.appends) {
      write.entry = disk.appended.begin_append();
      std::memcpy(write.buffer, AppendBook::bytes_of(static_cast<std::uint32_t>(write.entry)),
                  size);
      started(write, disk.file.append_all(write.operation, ConstBuffer{write.buffer, size}));
      continue;
    }
    write.offset = disk.direct ? page * random_.below(6) : random_.below(6'000);
    const std::uint32_t entry = disk.book.begin_write(write.offset, size);
    write.entry = entry;
    std::memcpy(write.buffer, disk.book.bytes_of(entry), size);
    started(write,
            disk.file.write_all_at(write.operation, write.offset, ConstBuffer{write.buffer, size}));
  }
  settle();
  for (std::uint32_t i = 0; i < count; ++i) {
    const Request& each = *requests_[i];
    const auto entry = static_cast<std::uint32_t>(each.entry);
    if (disk.appends) {
      disk.appended.end_append(entry, each.operation.bytes());
    } else {
      disk.book.end_write(entry, each.operation.bytes());
    }
  }
}

// Several at a time, of any files: this detects an engine that confuses two.
void Lockstep::read_file() {
  const std::uint32_t count = 1 + random_.below(4);
  std::vector<Disk*> disks;
  for (std::uint32_t i = 0; i < count; ++i) {
    Disk& disk = *disks.emplace_back(&any_disk());
    const bool exactly = random_.below(3) == 0;
    const std::size_t size = disk.direct ? page * (1 + random_.below(2)) : random_.below(3'000);
    Request& read = request(exactly ? "read_exactly_at" : "read_at", size);
    read.offset = disk.direct ? page * random_.below(8) : random_.below(9'000);
    read.entry = disk.book.begin_read();
    const MutableBuffer buffer{read.buffer, size};
    started(read, exactly ? disk.file.read_exactly_at(read.operation, read.offset, buffer)
                          : disk.file.read_at(read.operation, read.offset, buffer));
  }
  settle();
  for (std::uint32_t i = 0; i < count; ++i) judge_read(*disks[i], *requests_[i]);
}

void Lockstep::judge_read(Disk& disk, const Request& read) {
  const std::size_t bytes = read.operation.bytes();
  const auto begin = static_cast<FileBook::Moment>(read.entry);
  if (!disk.appends) {
    const char* const what = disk.book.wrong(begin, read.offset, {read.buffer, bytes});
    if (what != nullptr) fail(what);
    if (bytes < read.size && !disk.book.may_end_at(begin, read.offset + bytes)) {
      fail("the end of a file before bytes that were written");
    }
  }
  disk.book.end_read(begin);
}

void Lockstep::sync_file() {
  Disk& disk = any_disk();
  Request& sync = request("sync");
  started(sync,
          random_.coin() ? disk.file.sync(sync.operation) : disk.file.data_sync(sync.operation));
  settle();
}

// The content of the file, read without the library.
void Lockstep::judge_end_of_file(const Disk& disk) {
  const os::System& system = proactor_.system();
  const int fd = system.open(disk.path.c_str(), O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return fail("a file is not there: " + disk.path);
  std::vector<std::byte> file;
  std::byte part[buffer_size];
  for (ssize_t moved = 1; moved > 0;) {
    moved = system.read(fd, part, sizeof(part));
    if (moved > 0) file.insert(file.end(), part, part + moved);
  }
  system.close(fd);
  const char* what = nullptr;
  if (disk.appends) {
    what = disk.appended.wrong(file);
  } else {
    FileBook book = disk.book;
    const FileBook::Moment now = book.begin_read();
    what = book.wrong(now, 0, file);
    if (what == nullptr && !book.may_end_at(now, file.size())) what = "a write is not in a file";
  }
  if (what != nullptr) fail(what + (": " + disk.path));
}

// -- datagrams, time ------------------------------------------------------------------------------

// As many as were sent arrive: a local network loses none, and may reorder them.
void Lockstep::send_datagrams() {
  const std::size_t from = random_.below(2);
  const std::size_t to = random_.below(2);
  const std::uint32_t count = 1 + random_.below(4);
  const bool receives_first = random_.coin();
  std::vector<Request*> receives;
  const auto receive = [&] {
    for (std::uint32_t i = 0; i < count; ++i) {
      Request& each = request("receive_from");
      each.entry = 600;
      started(each, mailboxes_[to].receive_from(each.operation, MutableBuffer{each.buffer, 600},
                                                each.endpoint));
      receives.push_back(&each);
    }
  };
  if (receives_first) receive();
  const std::size_t size = DatagramBook::size_least + random_.below(500);
  std::vector<Request*> sends;
  for (std::uint32_t i = 0; i < count; ++i) {
    Request& send = request("send_to", size);
    send.entry = datagrams_.begin({send.buffer, size}, ports_[from], ports_[to]);
    send.endpoint = Endpoint::loopback(ports_[to]);
    started(send, mailboxes_[from].send_to(send.operation, ConstBuffer{send.buffer, size},
                                           send.endpoint));
    sends.push_back(&send);
  }
  if (!receives_first) receive();
  settle();
  for (const Request* each : sends) {
    datagrams_.end(static_cast<std::uint32_t>(each->entry), each->operation.failed());
  }
  for (const Request* each : receives) {
    const char* const what = datagrams_.received({each->buffer, each->operation.bytes()}, 600,
                                                 each->endpoint.port(), ports_[to]);
    if (what != nullptr) fail(what);
  }
}

void Lockstep::wait_for_time() {
  Request& timer = request("timer");
  const std::int64_t due = now_ns() + random_.between(0, ms / 2);
  started(timer, proactor_.start_timer(timer.operation, Deadline::at_ns(due)));
  Request& post = request("post");
  started(post, proactor_.post(post.operation));
  settle();
  if (now_ns() < due) fail("a timer is early");
}

}  // namespace baton::test
