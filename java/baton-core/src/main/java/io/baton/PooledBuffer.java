package io.baton;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A block of a lane's pool that a program keeps for a while.
 *
 * <p><b>Threads:</b> may be handed to any thread, and closed by any. <b>Ownership:</b> its holder
 * gives it back, once, by {@link #close} or {@link AsynchChannel#write(PooledBuffer)}.
 */
public final class PooledBuffer extends Task implements AutoCloseable {
  private final Lane lane;
  private final ByteBuffer buffer;
  private final AtomicBoolean taken = new AtomicBoolean();

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
    if (!taken.get()) {
      throw givenBack();
    }
    return buffer;
  }

  /**
   * Gives the block back to its pool.
   *
   * @throws IllegalStateException if it was given back before
   */
  @Override
  public void close() {
    if (!taken.getAndSet(false)) {
      throw givenBack();
    }
    if (lane.isCurrent()) {
      lane.pool.put(this);
    } else {
      // A lane that has ended needs it no more.
      lane.submit(this);
    }
  }

  ByteBuffer take() {
    taken.set(true);
    // The last holder may have changed its byte order.
    return buffer.clear().order(ByteOrder.BIG_ENDIAN);
  }

  @Override
  void run() {
    lane.pool.put(this);
  }

  private static IllegalStateException givenBack() {
    return new IllegalStateException(
        "this PooledBuffer was given back to its pool before; use it no more");
  }
}
