// The calls of a program, from handlers and from the driver.
#include <algorithm>
#include <cstring>

#include "simulation/program.hpp"

namespace baton::tools::simulation {

namespace {
constexpr std::int64_t ms = 1'000'000;
constexpr std::size_t ends_max = 24;
}  // namespace

std::uint32_t Program::draw_size() noexcept {
  sim::Random& random = world_->random;
  // Most are small, some fill the buffer, a few are empty.
  switch (random.below(16)) {
    case 0:
      return 0;
    case 1:
    case 2:
      return 1 + random.below(2048);
    default:
      return 1 + random.below(100);
  }
}

// -- slots ----------------------------------------------------------------------------------------

Program::Slot* Program::take_slot(What what, Object* object) {
  if (free_.empty()) return nullptr;
  // Any free one: the last one is as likely as one that was free for a long time.
  const std::size_t at = world_->random.below(static_cast<std::uint32_t>(free_.size()));
  Slot* slot = free_[at];
  free_[at] = free_.back();
  free_.pop_back();
  if (slot->operation.state() == OperationState::completed &&
      slot->operation.bytes() != slot->bytes_before) {
    wrong(*slot, "an idle operation was written to");
  }
  slot->what = what;
  slot->object = object;
  slot->pending = true;
  // A cancel that has returned has no effect on later starts.
  slot->may_cancel =
      cancelled_all_ || cancelling_all_ > 0 || (object != nullptr && object->cancelling > 0);
  slot->exactly = slot->counted_post = slot->is_cancelled = false;
  slot->deadline = slot->not_before = 0;
  slot->size = 0;
  // Each of two stacks of the operation may have prepared another deadline.
  slot->operation.set_deadline(Deadline::never());
  slot->activation = slot->operation.activation() + 1;
  ++pending_;
  if (object != nullptr) {
    ++object->pending;
    ++object->users;
  }
  return slot;
}

void Program::note_start(const Slot& slot) {
  const std::int64_t object = slot.object != nullptr ? slot.object->number : 0;
  world_->note(sim::Event::start, slot.number, object * 100 + static_cast<std::int64_t>(slot.what));
}

// After the call: it was started, or refused for an allowed reason.
bool Program::settle_start(Slot& slot, std::error_code error) {
  if (!error) {
    ++started_;
    return true;
  }
  world_->note(sim::Event::refused, slot.number, error.value());
  if (!slot.pending || slot.operation.is_pending()) {
    wrong(slot, "a start was refused, and completes all the same");
  }
  judge_refusal(slot, error);
  slot.pending = false;
  slot.bytes_before = slot.operation.bytes();
  --pending_;
  if (slot.object != nullptr) --slot.object->pending;
  free_.push_back(&slot);
  return false;
}

void Program::draw_deadline(Slot& slot) {
  sim::Random& random = world_->random;
  if (random.below(8) != 0) return;
  slot.deadline = now() + random.between(-1, 5 * ms);
  slot.operation.set_deadline(Deadline::at_ns(slot.deadline));
}

// Half of the rounds have a bias of their own, so that acts that are rare in an even mixture are
// frequent in some round.
void Program::draw_mixture() {
  // act_stream, act_post, act_timer, act_datagram, act_file, act_connect, act_accept, act_cancel,
  // act_close, open_something
  mixture_ = {34, 4, 4, 5, 6, 3, 3, 3, 1, 1};
  sim::Random& random = world_->random;
  constexpr std::uint32_t factors[] = {0, 1, 1, 6, 24};
  if (random.coin()) {
    for (std::uint32_t& each : mixture_) each *= random.one_of(factors);
    mixture_.back() = 1;
  }
  mixture_sum_ = 0;
  for (const std::uint32_t each : mixture_) mixture_sum_ += each;
}

// During a drain a handler starts only operations that end.
void Program::act_in_drain() {
  if (drain_acts_ == 0) return;
  --drain_acts_;
  switch (world_->random.below(8)) {
    case 0:
      act_timer();
      break;
    case 1:
      act_file();
      break;
    case 2:
      act_post();
      [[fallthrough]];
    default:
      act_post();
  }
}

// Every act starts at most one operation. False: the act was not possible.
bool Program::act() {
  if (quiet_ || proactor_ == nullptr) return false;
  std::uint32_t choice = world_->random.below(mixture_sum_);
  std::size_t which = 0;
  while (choice >= mixture_[which]) choice -= mixture_[which++];
  switch (which) {
    case 0:
      return act_stream();
    case 1:
      return act_post();
    case 2:
      return act_timer();
    case 3:
      return act_datagram();
    case 4:
      return act_file();
    case 5:
      return act_connect();
    case 6:
      return act_accept();
    case 7:
      return act_cancel();
    case 8:
      return act_close();
    default:
      open_something();
      return false;
  }
}

// -- objects --------------------------------------------------------------------------------------

Program::End& Program::new_end(int fd, bool is_socket, Connection& connection, Flow* in,
                               Flow* out) {
  if (ends_used_ == ends_.size()) ends_.push_back(std::make_unique<End>());
  End& end = *ends_[ends_used_++];
  end.number = ++objects_;
  end.open = true;
  end.users = end.pending = end.cancelling = 0;
  end.is_socket = is_socket;
  end.starting_read = end.starting_write = false;
  end.connection = &connection;
  end.in = in;
  end.out = out;
  if (const sim::Node* node = world_->kernel().find(fd)) {
    if (in != nullptr && node->in != nullptr) in->channel = node->in->number;
    if (out != nullptr && node->out != nullptr) out->channel = node->out->number;
  }
  if (out != nullptr) out->has_writer = true;
  // ENOBUFS in the middle would leave a gap.
  end.queued_writes = world_->faults().no_buffers == 0 && world_->random.coin();
  // With profile=pinned operations are cancelled when their thread leaves.
  if (out != nullptr &&
      (cancelled_all_ || cancelling_all_ > 0 || finishing_ || world_->traits.bound)) {
    out->may_gap();
  }
  open_ends_.push_back(&end);
  return end;
}

Program::Connection& Program::new_connection(std::uint16_t port) {
  if (connections_used_ == connections_.size()) {
    connections_.push_back(std::make_unique<Connection>());
  }
  Connection& connection = *connections_[connections_used_++];
  connection.port = port;
  connection.connected = connection.accepted = false;
  connection.listener = nullptr;
  connection.forth.begin();
  connection.back.begin();
  return connection;
}

Program::Connection& Program::connection_of(std::uint16_t port) {
  for (std::size_t i = connections_used_; i-- > 0;) {
    if (connections_[i]->port == port) return *connections_[i];
  }
  return new_connection(port);
}

bool Program::open_pair() {
  if (open_ends_.size() + 2 > ends_max) return false;
  const Inside opens{opening_};
  const os::System& system = proactor_->system();
  const bool is_socket = world_->random.below(3) != 0;
  int fds[2];
  const int error = is_socket ? system.socketpair(0, 0, 0, fds) : system.pipe2(fds, 0);
  if (error != 0) return false;
  Connection& connection = new_connection(0);
  const auto adopt = [&](int fd, Flow* in, Flow* out) {
    const Home home{.lane = world_->random.coin() ? Home::here_or_next : Home::by_policy};
    if (is_socket) {
      auto socket = StreamSocket::adopt(*proactor_, fd, Ownership::owned, home);
      if (!socket) return false;
      new_end(fd, true, connection, in, out).socket = std::move(*socket);
    } else {
      auto pipe = Pipe::adopt(*proactor_, fd, Ownership::owned, home);
      if (!pipe) return false;
      new_end(fd, false, connection, in, out).pipe = std::move(*pipe);
    }
    return true;
  };
  // A pipe's first descriptor reads the bytes of the second.
  const bool first = adopt(fds[0], &connection.back, is_socket ? &connection.forth : nullptr);
  if (!first) {
    connection.back.reader_closed = connection.forth.writer_closed = true;
    system.close(fds[0]);
  }
  if (!adopt(fds[1], is_socket ? &connection.forth : nullptr, &connection.back)) {
    connection.back.writer_closed = connection.forth.reader_closed = true;
    system.close(fds[1]);
  }
  return true;
}

void Program::open_something() {
  if (quiet_) return;
  const Inside opens{opening_};
  sim::Random& random = world_->random;
  switch (random.below(5)) {
    case 0: {
      if (listeners_.size() >= 3) break;
      auto acceptor = Acceptor::listen(*proactor_, Endpoint::loopback(0));
      if (!acceptor) break;
      auto made = std::make_unique<Listener>();
      made->number = ++objects_;
      made->open = true;
      if (auto endpoint = acceptor->local_endpoint()) made->endpoint = *endpoint;
      made->acceptor = std::move(*acceptor);
      listeners_.push_back(std::move(made));
      return;
    }
    case 1: {
      if (mailboxes_.size() >= 4) break;
      auto socket = DatagramSocket::bind(*proactor_, Endpoint::loopback(0));
      if (!socket) break;
      auto made = std::make_unique<Mailbox>();
      made->number = ++objects_;
      made->open = true;
      if (auto endpoint = socket->local_endpoint()) made->endpoint = *endpoint;
      made->socket = std::move(*socket);
      mailboxes_.push_back(std::move(made));
      return;
    }
    case 2: {
      if (disks_.size() >= 4) break;
      const bool appends = random.below(3) == 0;
      const std::uint32_t number = ++objects_;
      const std::string path = "/file" + std::to_string(number);
      auto file = File::open(*proactor_, path,
                             FileFlags::read_write | FileFlags::create | FileFlags::truncate |
                                 (appends ? FileFlags::append : FileFlags::none));
      if (!file) break;
      auto made = std::make_unique<Disk>();
      made->number = number;
      made->open = true;
      made->path = path;
      made->appends = appends;
      made->file = std::move(*file);
      disks_.push_back(std::move(made));
      return;
    }
    default:
      break;
  }
  static_cast<void>(open_pair());
}

// -- streams --------------------------------------------------------------------------------------

Program::End* Program::any_end() {
  if (open_ends_.empty()) return nullptr;
  return open_ends_[world_->random.below(static_cast<std::uint32_t>(open_ends_.size()))];
}

bool Program::act_stream() {
  End* end = any_end();
  if (end == nullptr) return open_pair() && false;
  const std::uint32_t choice = world_->random.below(32);
  if (choice == 0) return start_ready(*end);
  if (choice == 1 && world_->random.below(4) == 0) return start_half_close(*end);
  return start_transfer(*end);
}

bool Program::start_transfer(End& end) {
  const bool write = end.in == nullptr || (end.out != nullptr && world_->random.coin());
  return write ? start_write(end) : start_read(end);
}

bool Program::start_read(End& end) {
  if (end.in == nullptr || end.starting_read || end.in->reads() >= 3 || end.in->at_end) {
    return false;
  }
  sim::Random& random = world_->random;
  if (end.in->reads() > 0 && random.coin()) return false;
  Slot* slot = take_slot(What::read, &end);
  if (slot == nullptr) return false;
  end.starting_read = true;
  slot->size = draw_size();
  slot->exactly = slot->size > 0 && !quiet_ && random.below(4) == 0;
  slot->read_number = end.in->begin_read();
  if (!quiet_) draw_deadline(*slot);
  if (slot->size < sizeof(slot->buffer)) slot->buffer[slot->size] = std::byte{0x5a};
  note_start(*slot);
  const MutableBuffer buffer{slot->buffer, slot->size};
  const std::error_code error = slot->exactly ? end.stream().read_exactly(slot->operation, buffer)
                                              : end.stream().read(slot->operation, buffer);
  if (error) end.in->unbegin_read();
  end.starting_read = false;
  --end.users;
  return settle_start(*slot, error);
}

bool Program::start_write(End& end) {
  if (end.out == nullptr || end.starting_write || end.out->fin) return false;
  if (end.out->writes() >= (end.queued_writes ? 4U : 1U)) return false;
  sim::Random& random = world_->random;
  Slot* slot = take_slot(What::write, &end);
  if (slot == nullptr) return false;
  end.starting_write = true;
  slot->size = draw_size();
  slot->exactly = end.queued_writes || random.below(3) == 0;
  if (!end.queued_writes) draw_deadline(*slot);
  std::memcpy(slot->buffer, end.out->take(slot->size), slot->size);
  note_start(*slot);
  const ConstBuffer buffer{slot->buffer, slot->size};
  const std::error_code error = slot->exactly ? end.stream().write_all(slot->operation, buffer)
                                              : end.stream().write(slot->operation, buffer);
  if (error) end.out->give_back(slot->size);
  end.starting_write = false;
  --end.users;
  return settle_start(*slot, error);
}

bool Program::start_half_close(End& end) {
  if (!end.is_socket || end.out == nullptr || end.out->fin || end.starting_write) return false;
  Slot* slot = take_slot(What::half_close, &end);
  if (slot == nullptr) return false;
  end.starting_write = true;
  end.out->fin = true;
  note_start(*slot);
  const std::error_code error = end.socket.shutdown(slot->operation);
  if (error) end.out->fin = false;
  end.starting_write = false;
  --end.users;
  return settle_start(*slot, error);
}

bool Program::start_ready(End& end) {
  Slot* slot = take_slot(What::ready, &end);
  if (slot == nullptr) return false;
  constexpr Interest interests[] = {Interest::in, Interest::out, Interest::in | Interest::out};
  draw_deadline(*slot);
  slot->interest = world_->random.one_of(interests);
  slot->started_at = now();
  slot->node = world_->kernel().find(end.stream().native());
  slot->generation = slot->node != nullptr ? slot->node->generation : 0;
  note_start(*slot);
  const std::error_code error = end.stream().wait_ready(slot->operation, slot->interest);
  --end.users;
  return settle_start(*slot, error);
}

bool Program::act_connect() {
  if (listeners_.empty() || open_ends_.size() + 2 > ends_max) return false;
  Listener& listener =
      *listeners_[world_->random.below(static_cast<std::uint32_t>(listeners_.size()))];
  Slot* slot = take_slot(What::connect, nullptr);
  if (slot == nullptr) return false;
  slot->endpoint = listener.endpoint;
  slot->listener = &listener;
  draw_deadline(*slot);
  note_start(*slot);
  const std::error_code error = Connector{*proactor_}.connect(slot->operation, slot->endpoint);
  return settle_start(*slot, error);
}

bool Program::act_accept() {
  if (listeners_.empty()) return false;
  Listener& listener =
      *listeners_[world_->random.below(static_cast<std::uint32_t>(listeners_.size()))];
  if (!listener.open || listener.pending >= 3) return false;
  Slot* slot = take_slot(What::accept, &listener);
  if (slot == nullptr) return false;
  draw_deadline(*slot);
  note_start(*slot);
  const std::error_code error = listener.acceptor.accept(slot->operation, slot->endpoint);
  --listener.users;
  return settle_start(*slot, error);
}

// -- datagrams, timers, posts --------------------------------------------------------------

bool Program::act_datagram() {
  if (mailboxes_.empty()) return false;
  sim::Random& random = world_->random;
  const auto any = [&]() -> Mailbox& {
    return *mailboxes_[random.below(static_cast<std::uint32_t>(mailboxes_.size()))];
  };
  Mailbox& box = any();
  const bool send = random.coin();
  if (!box.open || (!send && box.pending >= 4)) return false;
  Mailbox& other = any();
  Slot* slot = take_slot(send ? What::send_to : What::receive_from, &box);
  if (slot == nullptr) return false;
  draw_deadline(*slot);
  note_start(*slot);
  std::error_code error;
  if (send) {
    slot->size = DatagramBook::size_least + random.below(400);
    slot->entry = reasons_.datagrams.begin({slot->buffer, slot->size}, box.endpoint.port(),
                                           other.endpoint.port());
    slot->endpoint = other.endpoint;
    error =
        box.socket.send_to(slot->operation, ConstBuffer{slot->buffer, slot->size}, slot->endpoint);
  } else {
    slot->size = DatagramBook::size_least + random.below(400);
    error = box.socket.receive_from(slot->operation, MutableBuffer{slot->buffer, slot->size},
                                    slot->endpoint);
  }
  if (error && send) reasons_.datagrams.end(slot->entry, true);
  --box.users;
  return settle_start(*slot, error);
}

bool Program::act_timer() {
  Slot* slot = take_slot(What::timer, nullptr);
  if (slot == nullptr) return false;
  slot->not_before = now() + world_->random.between(-1000, timer_most_ns_);
  timer_due_ = std::min(timer_due_, slot->not_before);
  note_start(*slot);
  return settle_start(*slot,
                      proactor_->start_timer(slot->operation, Deadline::at_ns(slot->not_before)));
}

bool Program::act_post() {
  sim::Random& random = world_->random;
  Slot* slot = take_slot(What::post, nullptr);
  if (slot == nullptr) return false;
  constexpr Notify levels[] = {Notify::strong, Notify::strong, Notify::strong, Notify::follower,
                               Notify::none};
  // Posted work without a wake-up waits for the next thread; at the end there is none.
  const Notify level = random.one_of(levels);
  slot->counted_post = level == Notify::strong;
  if (slot->counted_post) ++posts_;
  note_start(*slot);
  Home home;
  if (mode_ == Mode::per_thread) home.lane = random.below(lanes_ + 1);
  if (home.lane == lanes_) home.lane = Home::here_or_next;
  const std::error_code error = proactor_->post(slot->operation, level, home);
  if (error && slot->counted_post) --posts_;
  return settle_start(*slot, error);
}

// -- cancelling, closing --------------------------------------------------------------------------

void Program::expect_cancel(const Object& object) {
  for (const auto& slot : slots_) {
    if (slot->pending && slot->object == &object) slot->may_cancel = true;
  }
}

void Program::expect_cancel_of_all() {
  for (const auto& slot : slots_) slot->may_cancel = true;
  expect_gaps();
}

// Any write may be cancelled while one behind it is not.
void Program::expect_gaps() {
  for (End* end : open_ends_) {
    if (end->out != nullptr) end->out->may_gap();
  }
}

bool Program::act_cancel() {
  sim::Random& random = world_->random;
  const std::uint32_t choice = random.below(32);
  // Operations that start meanwhile may meet it, too.
  if (choice == 0 && !quiet_ && cancels_all_) {
    expect_cancel_of_all();
    ++cancelling_all_;
    proactor_->cancel_all();
    --cancelling_all_;
    if (!quiet_ && random.coin()) static_cast<void>(random.coin() ? act_timer() : act_stream());
    return true;
  }
  if (choice < 4) {
    End* end = any_end();
    if (end == nullptr) return false;
    expect_cancel(*end);
    if (end->out != nullptr) end->out->may_gap();
    ++end->users;
    ++end->cancelling;
    end->stream().cancel();
    --end->cancelling;
    // A program often starts again at once after a cancel.
    if (!quiet_ && random.coin()) static_cast<void>(start_transfer(*end));
    --end->users;
    return true;
  }
  if (choice < 12) return cancel_what_is_over();
  const std::uint32_t begin = random.below(static_cast<std::uint32_t>(slots_.size()));
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = *slots_[(begin + i) % slots_.size()];
    // The next start uses the number of a start that is refused.
    if (!slot.pending || !slot.operation.is_pending() || slot.what == What::close) continue;
    if (slot.what == What::write && static_cast<End*>(slot.object)->queued_writes) continue;
    if (slot.what == What::half_close) continue;
    cancel_one(slot);
    return true;
  }
  return false;
}

// A timer whose cancel is granted does not fire. It may complete, and be used again, before the
// call returns. In per_thread mode another thread's request may come too late.
void Program::cancel_one(Slot& slot) {
  slot.may_cancel = true;
  const std::uint32_t activation = slot.activation;
  const bool is_timer = slot.what == What::timer && mode_ != Mode::per_thread;
  const CancelResult answer = proactor_->cancel(slot.operation, activation);
  if (!is_timer || answer != CancelResult::requested || slot.activation != activation) return;
  slot.is_cancelled = true;
  if (!slot.pending && slot.has_fired) wrong(slot, "a timer has fired, but it was cancelled");
}

// Cancels by the number of an earlier start of the same operation: the pending start goes on.
bool Program::cancel_what_is_over() {
  sim::Random& random = world_->random;
  const std::uint32_t begin = random.below(static_cast<std::uint32_t>(slots_.size()));
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = *slots_[(begin + i) % slots_.size()];
    if (!slot.pending || !slot.operation.is_pending()) continue;
    proactor_->cancel(slot.operation, slot.activation - 1 - random.below(3));
    return true;
  }
  return false;
}

void Program::forget_end(End& end) {
  end.open = false;
  std::erase(open_ends_, &end);
  if (end.in != nullptr) end.in->reader_closed = true;
  if (end.out != nullptr) {
    end.out->may_gap();
    end.out->fin = end.out->writer_closed = true;
  }
}

template <class Io>
bool Program::close_object(Object& object, Io& io) {
  // Closing is a change: no other thread may be in a call on it.
  if (!object.open || object.users != 0) return false;
  expect_cancel(object);
  object.open = false;
  Slot* slot = world_->random.below(4) != 0 ? take_slot(What::close, &object) : nullptr;
  if (slot == nullptr) {
    io.close_detached();
    return true;
  }
  note_start(*slot);
  const std::error_code error = io.close(slot->operation);
  --object.users;
  if (!settle_start(*slot, error)) io.close_detached();
  return true;
}

bool Program::act_close() {
  sim::Random& random = world_->random;
  const std::uint32_t choice = random.below(8);
  if (choice == 0 && listeners_.size() > 1) {
    Listener& listener = *listeners_[random.below(static_cast<std::uint32_t>(listeners_.size()))];
    return close_object(listener, listener.acceptor);
  }
  if (choice == 1 && !mailboxes_.empty()) {
    Mailbox& box = *mailboxes_[random.below(static_cast<std::uint32_t>(mailboxes_.size()))];
    return close_object(box, box.socket);
  }
  if (choice == 2 && !disks_.empty()) {
    Disk& disk = *disks_[random.below(static_cast<std::uint32_t>(disks_.size()))];
    return close_object(disk, disk.file);
  }
  End* end = any_end();
  if (end == nullptr || !end->open || end->users != 0) return false;
  forget_end(*end);
  end->open = true;  // for the check of close_object
  return end->is_socket ? close_object(*end, end->socket) : close_object(*end, end->pipe);
}

template bool Program::close_object(Object&, StreamSocket&);
template bool Program::close_object(Object&, Pipe&);
template bool Program::close_object(Object&, Acceptor&);

}  // namespace baton::tools::simulation
