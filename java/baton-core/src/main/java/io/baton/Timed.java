package io.baton;

/** A task with a place in a {@link TimerHeap}. */
abstract class Timed extends Task {
  static final int NOT_IN_HEAP = -1;

  /** In nanoseconds of {@link System#nanoTime}. */
  long deadline;

  int heapIndex = NOT_IN_HEAP;

  /** The deadline has passed. The lane's thread. */
  abstract void expired();
}
