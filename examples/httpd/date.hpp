// Dates as HTTP writes them ("Sun, 06 Nov 1994 08:49:37 GMT").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace httpd {

/// Seconds since 1970.
using Seconds = std::int64_t;

std::string to_http_date(Seconds when);

/// Reads the preferred form only. The two obsolete ones have not been sent for decades, and a
/// condition whose date is not understood is ignored, which costs a transfer and nothing else.
std::optional<Seconds> from_http_date(std::string_view text);

/// The wall clock, as fine as the kernel's tick: it costs a memory access.
Seconds wall_clock();

/// "Date: ...\r\n" of now. Written anew once a second, by each thread for itself.
std::string_view date_line();

}  // namespace httpd
