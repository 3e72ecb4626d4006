package io.baton;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A block of a lane's pool that a program keeps for a while.
 *
 * <p><b>Threads:</b> may be handed to any thread, and closed by any. <b>Ownership:</b> its holder
 * gives it back, once, by {@link #close} or {@link AsynchChannel#write(PooledBuffer)}.
 */
public final class PooledBuffer extends Task implements AutoCloseable {
  private static final int FREE = 0;
  private static final int HELD = 1;
  private static final int WITH_WRITE = 2;

  private final Lane lane;
  private final ByteBuffer buffer;
  private final AtomicInteger state = new AtomicInteger(FREE);

  PooledBuffer(Lane lane, int size) {
    this.lane = lane;
    buffer = ByteBuffer.allocateDirect(size);
  }

  /**
   * The memory.
   *
   * @return direct; not to be used after {@link #close}
   * @throws IllegalStateException if it was given back before
   */
  public ByteBuffer getBuffer() {
    if (state.get() == FREE) {
      throw givenBack();
    }
    return buffer;
  }

  /**
   * Gives the block back to its pool.
   *
   * @throws IllegalStateException if it was given back or to a write before
   */
  @Override
  public void close() {
    leave(FREE);
    give();
  }

  /** To a write. Throws as {@link #close}. */
  void lend() {
    leave(WITH_WRITE);
  }

  /** The write was not started. */
  void takeBack() {
    state.set(HELD);
  }

  /** The write is complete. */
  void written() {
    state.set(FREE);
    give();
  }

  private void leave(int next) {
    if (!state.compareAndSet(HELD, next)) {
      throw givenBack();
    }
  }

  private void give() {
    if (lane.isCurrent()) {
      lane.pool.put(this);
    } else {
      // A lane that has ended needs it no more.
      lane.submit(this);
    }
  }

  ByteBuffer take() {
    state.set(HELD);
    // The last holder may have changed its byte order.
    return buffer.clear().order(ByteOrder.BIG_ENDIAN);
  }

  @Override
  void run() {
    lane.pool.put(this);
  }

  private static IllegalStateException givenBack() {
    return new IllegalStateException(
        "this PooledBuffer was given back to its pool, or to a write, before; use it no more");
  }
}
