package io.baton;

/**
 * Calls the handler when a side of a channel was idle for a while. Traffic only notes its time; the
 * timer checks it when it expires, and waits for the rest. For the lane's thread.
 *
 * <p>A lane that was held up, by a handler that blocks, has not looked at its sockets, so a channel
 * may have been busy in vain. It gets as much time as the lane is late, but no more than its idle
 * time, and what has completed by then goes first.
 */
final class IdleTimer extends Timed {
  private final ChannelCore core;
  private final Side<?> side;
  private final OpTimeout.Kind kind;
  private final long nanoseconds;

  /** It expired once since bytes moved, and got the time by which the lane was late. */
  private boolean givenTime;

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
    givenTime = false;
    deadline = side.lastMoved + nanoseconds;
    core.lane.timers.add(this);
  }

  @Override
  void expired() {
    long now = core.lane.now;
    if (now - side.lastMoved < nanoseconds) {
      arm();
    } else if (!givenTime) {
      givenTime = true;
      deadline = now + Math.min(now - deadline, nanoseconds);
      core.lane.timers.add(this);
    } else {
      core.lane.ready.add(this);
    }
  }

  @Override
  void run() {
    if (!side.isTimedBy(this)) {
      return;
    }
    long now = System.nanoTime();
    try {
      if (now - side.lastMoved >= nanoseconds) {
        side.lastMoved = now;
        core.tellTimeout(kind);
      }
    } finally {
      arm();
    }
  }
}
