package io.baton.nio2;

import io.baton.ChannelClosedException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/** One kind of operation of a channel, of which one may be pending at a time. Any thread. */
final class Direction<P extends Pending<?, ?>> {
  private static final VarHandle PENDING;

  static {
    try {
      PENDING = MethodHandles.lookup().findVarHandle(Direction.class, "pending", Pending.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final String name;
  private final Supplier<? extends IllegalStateException> isPending;
  private volatile Pending<?, ?> pending;
  private volatile boolean killed;
  private volatile boolean shutdown;

  /**
   * For example reads.
   *
   * @param name of the direction in messages
   * @param isPending makes the exception for a second operation
   */
  Direction(String name, Supplier<? extends IllegalStateException> isPending) {
    this.name = name;
    this.isPending = isPending;
  }

  /** Takes the place, or throws. */
  void begin(P operation) {
    if (killed) {
      throw new IllegalStateException(
          name
              + ": an earlier operation ended by its time-out or was cancelled, and may have moved"
              + " bytes; close this channel and open another one");
    }
    if (!PENDING.compareAndSet(this, null, operation)) {
      throw isPending.get();
    }
  }

  /**
   * Starts the operation that has the place.
   *
   * @param starter gives the number of the operation on its channel
   */
  void start(P operation, LongSupplier starter) {
    try {
      operation.started(starter.getAsLong());
    } catch (ChannelClosedException e) {
      end();
      operation.fail(e);
    } catch (RuntimeException | Error e) {
      // Lack of memory, too: the next operation may find some.
      end();
      throw e;
    }
  }

  boolean isPending() {
    return pending != null;
  }

  /** Whether this one has the place. */
  boolean isPending(P operation) {
    return pending == operation;
  }

  /** Whether the program waits no longer for the operation that has the place. */
  boolean isCancelled() {
    return pending.isCancelled();
  }

  /**
   * Frees the place, so that the handler may start the next operation. For the thread that has the
   * operation in its hands: before its start, or at its end.
   */
  @SuppressWarnings("unchecked") // only P begin
  P end() {
    P ended = (P) pending;
    // No other thread changes it before.
    PENDING.setRelease(this, null);
    return ended;
  }

  /** Refuses further operations: the progress of the last one is unknown. */
  void kill() {
    killed = true;
  }

  void shutdown() {
    shutdown = true;
  }

  boolean isShutdown() {
    return shutdown;
  }
}
