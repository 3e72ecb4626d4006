// Probes: places in the running library that a tracer can watch (USDT; X-10).
//
//   bpftrace -e 'usdt:/usr/lib/libbaton.so:baton:leader_change { @[arg0] = count(); }'
//
// If <sys/sdt.h> (package systemtap-sdt-dev) was installed at build time, a probe is one nop and a
// note in the file that says where its arguments are. Otherwise it is nothing. Arguments are values
// that the code has anyway, so that nothing is computed for an absent tracer.
// docs/guide/operations.md lists them; the test `probes` compares that list with the library.
#pragma once

#ifdef BATON_HAVE_SDT
#include <sys/sdt.h>

#define BATON_PROBE1(name, a) DTRACE_PROBE1(baton, name, a)
#define BATON_PROBE2(name, a, b) DTRACE_PROBE2(baton, name, a, b)
#define BATON_PROBE3(name, a, b, c) DTRACE_PROBE3(baton, name, a, b, c)
#else
// The arguments are named, never evaluated.
#define BATON_PROBE1(name, a) static_cast<void>(sizeof(a))
#define BATON_PROBE2(name, a, b) static_cast<void>(sizeof(a) + sizeof(b))
#define BATON_PROBE3(name, a, b, c) static_cast<void>(sizeof(a) + sizeof(b) + sizeof(c))
#endif
