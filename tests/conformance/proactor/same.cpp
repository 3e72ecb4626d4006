// The rest of the script, and the test itself.
#include "same.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>

#include "support/slowness.hpp"

namespace baton::conformance {

std::string digest(std::string_view bytes) {
  return std::to_string(bytes.size()) + " bytes " +
         std::to_string(std::hash<std::string_view>{}(bytes));
}

void Same::note(const std::string& line) { story_.push_back(std::to_string(step_) + " " + line); }

bool Same::begin(Probe& probe) {
  const std::error_code error = try_start(probe);
  if (error) note(std::string{to_string(probe.kind())} + " refused: " + error.message());
  return !error;
}

void Same::tell(Probe& probe, const char* what) {
  if (probe.starts == 0) return;  // refused, and noted
  run([&] { return probe.done(); });
  if (HasFatalFailure()) return note(std::string{"lost: "} + to_string(probe.kind()) + " " + what);
  std::string line = std::string{to_string(probe.kind())} + " " + what;
  const bool reads = probe.kind() == OperationKind::read_stream ||
                     probe.kind() == OperationKind::read_file ||
                     probe.kind() == OperationKind::read_datagram;
  if (reads && !probe.has(Operation::vectored)) {
    line += " " + digest({static_cast<const char*>(probe.buffer().data), probe.bytes()});
  } else if (probe.kind() != OperationKind::accept) {
    line += " " + std::to_string(probe.bytes());
  }
  note(line + (probe.failed() ? " " + probe.error().message() : ""));
}

void Same::begin_and_tell(Probe& probe, const char* what) {
  if (begin(probe)) tell(probe, what);
}

void Same::use_the_file() {
  const std::uint64_t where = below(50'000);
  switch (below(5)) {
    case 0:
      return begin_and_tell(plain(OperationKind::sync_file, file_));
    case 1: {
      std::vector<Probe*> writes;
      for (unsigned i = 0; i < 4; ++i) {
        writes.push_back(&file_writing(file_, memory(pattern(1 + below(2'000), ++text_)),
                                       where + std::uint64_t{i} * 2'000, Operation::exactly));
        begin(*writes.back());
      }
      for (Probe* one : writes) tell(*one, "beside each other");
      return;
    }
    case 2:
      return begin_and_tell(file_reading(file_, memory(below(4'000)), where));
    case 3:
      return begin_and_tell(file_reading(file_, memory(below(9'000)), where, Operation::exactly));
    default: {
      Probe& one = file_writing(file_, memory(pattern(below(9'000), ++text_)), where);
      if (perhaps()) {
        static const ConstBuffer list[] = {std::string_view{"a"}, std::string_view{"bcd"}};
        one.set_buffers(ConstBuffers{list});
      }
      return begin_and_tell(one);
    }
  }
}

// Files that refuse something, and invalid offsets.
void Same::use_odd_files() {
  static const std::uint64_t places[] = {std::uint64_t{1} << 40, (std::uint64_t{1} << 63) - 1,
                                         std::uint64_t{1} << 63, ~std::uint64_t{0}};
  const std::uint64_t place = places[below(4)];
  const unsigned which = below(6);
  Fd fd = which == 0   ? temporary(O_RDONLY)
          : which == 1 ? temporary(O_WRONLY)
          : which == 2 ? Fd{::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)}
          : which == 3 ? temporary(O_RDWR | O_APPEND)
                       : temporary(O_RDWR);
  Handle* const file = adopt(fd, HandleKind::file);
  const std::uint16_t flags = which == 3 ? std::uint16_t{Operation::append} : std::uint16_t{0};
  switch (which) {
    case 3:
      for (int i = 0; i < 3; ++i) {
        begin_and_tell(file_writing(file, memory(pattern(1 + below(100), ++text_)), 0, flags));
      }
      begin_and_tell(file_reading(file, memory(400), 0));
      break;
    case 4:
      begin_and_tell(file_reading(file, memory(10), place), "far");
      break;
    case 5:
      // Never up to the largest size: that depends on the file system.
      if (place > (std::uint64_t{1} << 40)) {
        begin_and_tell(file_writing(file, memory(std::string(10, 'a')), place), "far");
      }
      break;
    default:
      begin_and_tell(file_writing(file, memory(std::string(10, 'a')), 0), "odd");
      begin_and_tell(file_reading(file, memory(10), 0), "odd");
  }
  begin_and_tell(plain(OperationKind::sync_file, file));
  begin_and_tell(plain(OperationKind::close, file));
}

void Same::use_datagrams() {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
  Fd fd = pair[0];
  Fd peer = pair[1];
  Handle* const handle = adopt(fd, HandleKind::datagram_socket);
  const auto transfer = [&](OperationKind kind, std::string& buffer) -> Probe& {
    Probe& probe = plain(kind, handle);
    probe.set_buffer(MutableBuffer{buffer});
    return probe;
  };
  for (unsigned left = below(4); left > 0; --left) {
    const std::string text = pattern(below(2'000), ++text_);
    Probe& one = transfer(OperationKind::read_datagram, memory(1 + below(2'000)));
    const bool waits = perhaps();
    if (waits) begin(one);
    ASSERT_EQ(::send(peer.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    if (!waits) begin(one);
    tell(one);
  }
  for (unsigned left = below(3); left > 0; --left) {
    Probe& one = transfer(OperationKind::write_datagram, memory(pattern(below(3'000), ++text_)));
    begin_and_tell(one);
    std::string there(4'000, '\0');
    there.resize(static_cast<std::size_t>(::recv(peer.get(), there.data(), there.size(), 0)));
    note("there " + digest(there));
  }
  begin_and_tell(transfer(OperationKind::write_datagram, memory(std::size_t{1} << 23)), "too long");
  Probe& waits = transfer(OperationKind::read_datagram, memory(10));
  begin(waits);
  if (perhaps()) peer.reset();
  proactor().cancel(waits);
  tell(waits, "given up");
  peer.reset();
  begin_and_tell(transfer(OperationKind::write_datagram, memory(10)), "without a receiver");
  begin_and_tell(plain(OperationKind::close, handle));
}

void Same::be_connected() {
  Endpoint endpoint = perhaps() ? Endpoint::loopback(0) : Endpoint::loopback_v6(0);
  Fd listening = listener(endpoint);
  Handle* const handle = adopt(listening, HandleKind::listener);
  const auto* address = static_cast<const sockaddr*>(endpoint.data());
  for (unsigned left = 1 + below(3); left > 0; --left) {
    Endpoint from;
    Probe& one = plain(OperationKind::accept, handle);
    one.set_endpoint(&from);
    const bool waits = perhaps();
    if (waits) begin(one);
    const Fd client = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(client.get(), address, endpoint.size()), 0);
    if (!waits) begin(one);
    tell(one);
    note(from.family() == endpoint.family() ? "of its family" : "of another family");
    if (one.starts > 0 && !one.failed()) ::close(one.accepted());
  }
  begin_and_tell(reading(handle, memory(10)), "from a listener");
  Probe& given_up = plain(OperationKind::accept, handle);
  begin(given_up);
  if (perhaps()) proactor().cancel(given_up);
  Probe& close = plain(OperationKind::close, handle);
  begin(close);
  tell(given_up, "given up");
  tell(close);
}

void Same::connect() {
  Endpoint endpoint = Endpoint::loopback(0);
  const Fd listening = listener(endpoint);
  Endpoint deaf = Endpoint::loopback(0);
  const Fd bound = unheard(deaf);
  const auto* address = static_cast<const sockaddr*>(endpoint.data());
  const auto connecting = [&](Handle* handle, Endpoint& to) -> Probe& {
    Probe& probe = plain(OperationKind::connect, handle);
    probe.set_endpoint(&to);
    return probe;
  };
  const auto made = [&](int family) {
    Fd fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return adopt(fd);
  };
  Handle* const handle = made(address->sa_family);
  begin_and_tell(connecting(handle, endpoint));
  // Never connected twice: after a connect that did not block, Linux answers 0 to the next and
  // EISCONN to the one after it, and the ring asks twice by itself.
  begin_and_tell(plain(OperationKind::close, handle));
  Handle* const refused = made(address->sa_family);
  begin_and_tell(connecting(refused, deaf), "without a listener");
  // The result of a read differs between kernels: its end, or ENOTCONN.
  begin_and_tell(plain(OperationKind::close, refused));
  Endpoint nowhere = Endpoint::unix_path("/nowhere/at/all").value();
  Handle* const lost = made(AF_UNIX);
  begin_and_tell(connecting(lost, nowhere), "no such name");
  begin_and_tell(plain(OperationKind::close, lost));
}

void Same::use_timers() {
  Probe& rings = operation();
  Probe& given_up = operation();
  start_timer(given_up, Deadline::after(1h, proactor().now()));
  start_timer(rings, Deadline::after(perhaps() ? 0us : 200us, proactor().now()));
  tell(rings);
  proactor().cancel(given_up);
  tell(given_up, "given up");
}

namespace {

// The last lines before this one.
std::string last_of(const std::vector<std::string>& story,
                    std::vector<std::string>::const_iterator end) {
  std::string text;
  for (auto line = end - std::min<std::ptrdiff_t>(6, end - story.begin()); line != end; ++line) {
    text += *line + "\n";
  }
  return text;
}

}  // namespace

Same::Story Same::play(unsigned seed, int steps) {
  random_.seed(seed);
  story_.clear();
  text_ = seed;
  for (unsigned i = 0; i < 4; ++i) streams_[i] = open_stream(i);
  Fd fd = temporary(O_RDWR);
  file_ = adopt(fd, HandleKind::file);
  for (step_ = 0; step_ < steps && !HasFatalFailure(); ++step_) {
    switch (below(14)) {
      case 0:
        use_odd_files();
        break;
      case 1:
        use_datagrams();
        break;
      case 2:
        be_connected();
        break;
      case 3:
        connect();
        break;
      case 4:
        use_timers();
        break;
      case 5:
      case 6:
      case 7:
        use_the_file();
        break;
      default:
        use_a_stream();
    }
  }
  if (HasFatalFailure()) {
    ADD_FAILURE() << "seed " << seed << ", the story's end:\n" << last_of(story_, story_.end());
    return {};
  }
  for (Stream& stream : streams_) {
    finish_close(stream.handle);
    stream.peer.reset();
  }
  finish_close(file_);
  return std::move(story_);
}

namespace {

BATON_CONFORMANCE_SUITE(Same);

// The number of scripts; BATON_TEST_SCRIPTS sets it for a longer run. One thread plays them: one is
// enough for the sanitizers.
unsigned scripts() {
  const char* wanted = std::getenv("BATON_TEST_SCRIPTS");
  return wanted != nullptr    ? static_cast<unsigned>(std::strtoul(wanted, nullptr, 10))
         : test::slowness > 1 ? 1
                              : 3;
}

// The simplest there is.
Config reference() {
  return Combination{"emulated", "poll", "pipe", Mode::shared, "auto"}.config();
}

TEST_P(Same, gives_the_results_of_the_simplest_engine) {
  constexpr int steps = 250;
  static std::map<unsigned, Story> expected;  // of all combinations in this process
  for (unsigned seed = 1; seed <= scripts(); ++seed) {
    const auto [known, is_new] = expected.try_emplace(seed);
    if (is_new) {
      use([](Config& config) { config = reference(); });
      known->second = play(seed, steps);
      if (HasFatalFailure()) return;
    }
    use({});
    const Story told = play(seed, steps);
    if (HasFatalFailure()) return;
    const auto [here, there] =
        std::mismatch(told.begin(), told.end(), known->second.begin(), known->second.end());
    if (here == told.end() && there == known->second.end()) continue;
    FAIL() << "seed " << seed << ", both:\n"
           << last_of(told, here) << "here:\n"
           << (here == told.end() ? "the end" : *here) << "\nthe simplest engine:\n"
           << (there == known->second.end() ? "the end" : *there);
  }
}

}  // namespace
}  // namespace baton::conformance
