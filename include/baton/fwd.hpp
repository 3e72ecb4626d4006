// Forward declarations of the public types, for headers that only name them.
#pragma once

namespace baton {

class Operation;
class OperationList;
class OperationQueue;
class Handle;
class Engine;
class WaitStrategy;
class InterruptStrategy;
class BufferPool;
class Strand;
class Proactor;
class Attachment;
class Log;
struct Config;
struct Lane;       // src/core/lane.hpp
struct TimerSlot;  // src/core/timer_wheel.hpp
struct ProcessorConfig;
struct SignalMask;  // the system's signal set: signal_mask.hpp

namespace capi {
class SlotTable;  // src/capi/slots.hpp
}

namespace os {
struct System;  // the table of system calls, clock, locks and threads; see src/os/system.hpp
}

}  // namespace baton
