package io.baton.nativeengine;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;

/**
 * Native memory that a transfer needs while it is in flight: for the bytes of a heap buffer, or for
 * an address. Blocks come in powers of two and are used again; those beyond a bound are freed at
 * once. For the lane's thread.
 */
final class Blocks {
  static final int SMALLEST = 128;
  static final int LARGEST = 64 << 10;

  /** So much is kept for the next transfers. */
  static final int KEPT_MAX = 4 << 20;

  /** A piece of memory, one owner at a time. */
  static final class Block {
    final MemorySegment memory;
    final long address;
    final ByteBuffer bytes;
    private final Arena arena = Arena.ofConfined();
    private final int sizeClass;

    private Block(int sizeClass) {
      this.sizeClass = sizeClass;
      memory = arena.allocate((long) SMALLEST << sizeClass, Long.BYTES);
      address = memory.address();
      bytes = memory.asByteBuffer();
    }
  }

  private static final int CLASSES = sizeClass(LARGEST) + 1;

  private final ArrayDeque<Block>[] free = newQueues();
  private int kept;
  private int out;

  @SuppressWarnings("unchecked")
  private static ArrayDeque<Block>[] newQueues() {
    ArrayDeque<Block>[] queues = (ArrayDeque<Block>[]) new ArrayDeque<?>[CLASSES];
    for (int i = 0; i < CLASSES; i++) {
      queues[i] = new ArrayDeque<>();
    }
    return queues;
  }

  private static int sizeClass(int size) {
    int highest = Integer.SIZE - Integer.numberOfLeadingZeros(Math.max(size, SMALLEST) - 1);
    return highest - Integer.numberOfTrailingZeros(SMALLEST);
  }

  /**
   * A block of at least this size, with anything in it.
   *
   * @throws OutOfMemoryError if there is no native memory
   */
  Block take(int size) {
    int sizeClass = sizeClass(size);
    Block block = free[sizeClass].poll();
    if (block == null) {
      block = new Block(sizeClass);
    } else {
      kept -= SMALLEST << sizeClass;
    }
    out++;
    return block;
  }

  void give(Block block) {
    out--;
    int size = SMALLEST << block.sizeClass;
    if (kept + size > KEPT_MAX) {
      block.arena.close();
    } else {
      kept += size;
      free[block.sizeClass].push(block);
    }
  }

  /** Blocks that are taken now. */
  int out() {
    return out;
  }

  /** Frees the blocks that are not taken. */
  void close() {
    for (ArrayDeque<Block> queue : free) {
      queue.forEach(block -> block.arena.close());
      queue.clear();
    }
  }
}
