// Flags of preadv2(2) and pwritev2(2) that the headers of older C libraries lack.
#pragma once

#include <sys/uio.h>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif
#ifndef RWF_NOSIGNAL  // since Linux 6.18
#define RWF_NOSIGNAL 0x00000100
#endif
