package io.baton.nativeengine;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;

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
    private Block following;

    private Block(int sizeClass) {
      this.sizeClass = sizeClass;
      memory = arena.allocate((long) SMALLEST << sizeClass, Long.BYTES);
      address = memory.address();
      bytes = memory.asByteBuffer();
    }
  }

  private static final int CLASSES = sizeClass(LARGEST) + 1;

  // Lists without memory of their own: blocks are given back when there may be none.
  private final Block[] free = new Block[CLASSES];
  private int kept;
  private int out;

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
    Block block = free[sizeClass];
    if (block == null) {
      block = new Block(sizeClass);
    } else {
      free[sizeClass] = block.following;
      block.following = null;
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
      block.following = free[block.sizeClass];
      free[block.sizeClass] = block;
    }
  }

  /** Blocks that are taken now. */
  int out() {
    return out;
  }

  /** Frees the blocks that are not taken. */
  void close() {
    for (int i = 0; i < CLASSES; i++) {
      for (Block block = free[i]; block != null; block = block.following) {
        block.arena.close();
      }
      free[i] = null;
    }
  }
}
