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

  /** When bytes moved last, in nanoseconds of the lane. */
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
}
