package io.baton;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * One direction of a channel: operations in the order of their starts, the first of them with the
 * engine. For the lane's thread, except the cache and where another one is named.
 */
final class Side<T extends Operation> {
  private static final VarHandle STARTED;
  private static final VarHandle SETTLED;

  static {
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      STARTED = lookup.findVarHandle(Side.class, "started", long.class);
      SETTLED = lookup.findVarHandle(Side.class, "settled", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
    // The JVM needs memory for the first calls, and an operation may end when there is none.
    Side<Operation> first = new Side<>(null);
    first.started(1);
    first.settled();
    first.isIdle();
  }

  final OpCache<T> cache = new OpCache<>();
  final TaskQueue<Operation> queue = new TaskQueue<>();
  final ChannelTransfer transfer;

  /** With the engine, or null. */
  Operation current;

  /** It is being given to the engine. Stays true if the stack ends inside. */
  boolean starting;

  /** When bytes moved last, or the handler was told that none did; while there is a timer. */
  volatile long lastMoved;

  private volatile IdleTimer idle;

  // How many operations threads have started, and how many of them the lane has ended.
  private volatile long started;
  private volatile long settled;

  Side(ChannelCore core) {
    transfer = new ChannelTransfer(core);
  }

  /** Replaces the idle timer; null for none. */
  void setIdle(IdleTimer timer) {
    if (idle != null) {
      idle.stop();
    }
    idle = timer;
    if (idle != null) {
      idle.begin();
    }
  }

  boolean isTimedBy(IdleTimer timer) {
    return idle == timer;
  }

  /** Any thread. */
  void moved() {
    if (idle != null) {
      lastMoved = System.nanoTime();
    }
  }

  /** Any thread: an operation is about to be started, or was not started after all. */
  void started(int operations) {
    STARTED.getAndAdd(this, (long) operations);
  }

  void settled() {
    // One writer; a reader of an older value only counts one operation too many.
    SETTLED.setRelease(this, settled + 1);
  }

  /** Any thread: no operation that this thread knows of is pending. */
  boolean isIdle() {
    // Read first, so that no operation is missed.
    long ended = settled;
    return ended == started;
  }
}
