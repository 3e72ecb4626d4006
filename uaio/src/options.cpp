#include "options.hpp"

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace uaio {
namespace {

template <class Number>
bool read_number(std::string_view text, Number& out, Number least, Number most) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  if (value < least || value > most) return false;
  out = value;
  return true;
}

bool read_switch(std::string_view text, bool& out) {
  if (text != "0" && text != "1") return false;
  out = text == "1";
  return true;
}

/// One that a program can handle.
bool read_signal(std::string_view text, int& out) {
  int number = 0;
  sigset_t all;
  sigfillset(&all);  // without those of the C library
  if (!read_number(text, number, 1, SIGRTMAX) || sigismember(&all, number) != 1) return false;
  if (number == SIGKILL || number == SIGSTOP) return false;
  out = number;
  return true;
}

bool read_mode(std::string_view text, Mode& out) {
  if (text == "auto") {
    out = Mode::automatic;
  } else if (text == "helper") {
    out = Mode::helper;
  } else if (text == "single") {
    out = Mode::single;
  } else {
    return false;
  }
  return true;
}

bool read_engine(std::string_view text, std::string& out) {
  if (text != "auto" && text != "io_uring" && text != "emulated") return false;
  out = text;
  return true;
}

bool read_wait(std::string_view text, std::string& out) {
  constexpr std::string_view known[] = {"auto", "select", "poll", "epoll", "rt_signals"};
  if (std::find(std::begin(known), std::end(known), text) == std::end(known)) return false;
  out = text;
  return true;
}

bool apply(Options& options, std::string_view key, std::string_view value) {
  constexpr std::size_t inline_max = std::size_t{1} << 30;
  if (key == "engine") return read_engine(value, options.engine);
  if (key == "wait") return read_wait(value, options.wait);
  if (key == "mode") return read_mode(value, options.mode);
  if (key == "threads") return read_number(value, options.threads, 1U, 64U);
  if (key == "depth") {
    const bool understood = read_number(value, options.depth, 1U, 65'536U);
    options.depth_is_given |= understood;
    return understood;
  }
  if (key == "inline_read") {
    return read_number(value, options.inline_read, std::size_t{0}, inline_max);
  }
  if (key == "inline_write") {
    return read_number(value, options.inline_write, std::size_t{0}, inline_max);
  }
  if (key == "interval_us") return read_number(value, options.interval_us, 100U, 1'000'000U);
  if (key == "signal") return read_signal(value, options.signal);
  if (key == "trace") return read_switch(value, options.trace);
  if (key == "direct") return read_switch(value, options.direct);
  if (key == "explain") return read_switch(value, options.explain);
  if (key == "stats") return read_switch(value, options.statistics);
  return false;
}

}  // namespace

Options parse_options(std::string_view text) {
  Options options;
  while (!text.empty()) {
    const std::size_t end = text.find(',');
    const std::string_view part = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    const bool understood = equals != std::string_view::npos &&
                            apply(options, part.substr(0, equals), part.substr(equals + 1));
    constexpr std::size_t shown_max = 60;
    if (!understood && options.mistake.empty()) {
      options.mistake = part.substr(0, shown_max);
      if (part.size() > shown_max) options.mistake += "...";
    }
  }
  return options;
}

Options options_of_environment() {
  const char* const text = ::secure_getenv("UAIO");
  return parse_options(text != nullptr ? text : "");
}

}  // namespace uaio
