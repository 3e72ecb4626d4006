package io.baton;

/**
 * Operation objects of one channel that are free to be used again, so that a message allocates
 * nothing. Starts of other threads use a list of their own under a lock; the lane needs none.
 */
final class OpCache<T extends Operation> {
  private static final int KEPT = 64;

  private final TaskQueue<T> inside = new TaskQueue<>();
  private final TaskQueue<T> outside = new TaskQueue<>();
  private int insideCount;
  private int outsideCount;

  /** Null if there is none; lane: whether the lane's thread asks. */
  T take(boolean lane) {
    if (lane) {
      insideCount -= inside.isEmpty() ? 0 : 1;
      return inside.poll();
    }
    synchronized (outside) {
      outsideCount -= outside.isEmpty() ? 0 : 1;
      return outside.poll();
    }
  }

  /** The lane's thread. */
  void put(T operation) {
    if (!operation.startedOutside) {
      if (insideCount < KEPT) {
        insideCount++;
        inside.add(operation);
      }
      return;
    }
    synchronized (outside) {
      if (outsideCount < KEPT) {
        outsideCount++;
        outside.add(operation);
      }
    }
  }
}
