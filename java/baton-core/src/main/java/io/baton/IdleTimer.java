package io.baton;

/**
 * Calls the handler when a side of a channel was idle for a while. Traffic only notes its time; the
 * timer checks it when it expires, and waits for the rest. For the lane's thread.
 */
final class IdleTimer extends Timed {
  private final ChannelCore core;
  private final Side<?> side;
  private final OpTimeout.Kind kind;
  private final long nanoseconds;

  IdleTimer(ChannelCore core, Side<?> side, OpTimeout.Kind kind, long nanoseconds) {
    this.core = core;
    this.side = side;
    this.kind = kind;
    this.nanoseconds = nanoseconds;
  }

  void begin() {
    side.lastMoved = System.nanoTime();
    arm();
  }

  void stop() {
    core.lane.timers.remove(this);
  }

  private void arm() {
    deadline = side.lastMoved + nanoseconds;
    core.lane.timers.add(this);
  }

  @Override
  void expired() {
    if (core.lane.now - side.lastMoved >= nanoseconds) {
      side.lastMoved = core.lane.now;
      core.tellTimeout(kind);
    }
    arm();
  }

  @Override
  void run() {
    throw new AssertionError("an idle timer is never queued");
  }
}
