package io.baton;

/**
 * One direction of a channel: operations in the order of their starts, the first of them with the
 * engine. For the lane's thread, except the cache.
 */
final class Side<T extends Operation> {
  final OpCache<T> cache = new OpCache<>();
  final TaskQueue<Operation> queue = new TaskQueue<>();
  final ChannelTransfer transfer;

  /** With the engine, or null. */
  Operation current;

  /** It is being given to the engine. Stays true if the stack ends inside. */
  boolean starting;

  /** When bytes moved last, or the handler was told that none did; while there is a timer. */
  long lastMoved;

  private IdleTimer idle;

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

  void moved() {
    if (idle != null) {
      lastMoved = System.nanoTime();
    }
  }
}
