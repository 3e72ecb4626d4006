// Compares engines with each other: one script of random operations, from a seed, runs on two
// proactors, and the results of all operations must be identical. The other suites test chosen
// cases.
//
// A step starts some operations and waits for all of them. It leaves nothing to chance: bytes
// arrive in one piece, or are requested exactly. Values that differ between systems - descriptors,
// addresses, times - are left out.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "operations.hpp"

namespace baton::conformance {

class Same : public Operations {
 protected:
  using Story = std::vector<std::string>;

  /// Plays the script of this seed on the open proactor, and answers the results.
  Story play(unsigned seed, int steps);

 private:
  /// Our end of a stream, and the raw one. A pipe goes one way.
  struct Stream {
    Handle* handle = nullptr;
    int ours = -1;
    Fd peer;
    HandleKind kind = HandleKind::stream_socket;
    bool reads = true;
    bool writes = true;
    bool tcp = false;
    std::size_t unread = 0;  // unread bytes at our end
  };

  // The steps of a script.
  void read_what_comes(Stream& stream);
  void read_exactly(Stream& stream);
  void read_until(Stream& stream);
  void read_in_turn(Stream& stream);
  void give_up(Stream& stream);
  void write_some(Stream& stream);
  void write_in_turn(Stream& stream);
  void wait_ready(Stream& stream);
  void ask_the_wrong(Stream& stream);
  void come_to_the_end(Stream& stream);
  void close_with_pending(Stream& stream);
  void be_reset(Stream& stream);
  void use_a_stream();
  void use_the_file();
  void use_odd_files();
  void use_datagrams();
  void be_connected();
  void connect();
  void use_timers();

  [[nodiscard]] unsigned below(unsigned count) { return static_cast<unsigned>(random_() % count); }
  [[nodiscard]] bool perhaps() { return below(2) == 0; }
  Stream open_stream(unsigned kind);
  /// Closes it, and opens another one in its place.
  void renew(Stream& stream);
  void reopen(Stream& stream);
  void send(Stream& stream, std::size_t count);
  Probe& read(Stream& stream, std::size_t room, std::uint16_t flags);
  Probe& write(Stream& stream, std::size_t count, std::uint16_t flags);
  /// Starts; a refusal is a line of the story.
  bool begin(Probe& probe);
  /// Waits for it and notes its result; of a read with the bytes.
  void tell(Probe& probe, const char* what = "");
  void begin_and_tell(Probe& probe, const char* what = "");
  void note(const std::string& line);

  std::minstd_rand random_;
  Story story_;
  int step_ = 0;
  unsigned text_ = 0;  // seeds of the sent bytes: all different
  Stream streams_[4];
  Handle* file_ = nullptr;
};

/// Bytes as one number, for a story.
std::string digest(std::string_view bytes);

}  // namespace baton::conformance
