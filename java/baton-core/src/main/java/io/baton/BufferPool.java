package io.baton;

/**
 * The blocks that the pooled reads of a lane take when data is there, so that idle connections hold
 * none. Blocks are allocated when first needed. When all are in use, reads wait here, first come,
 * first served. For the lane's thread.
 */
final class BufferPool {
  private static final System.Logger LOG = System.getLogger("io.baton");

  private final Lane lane;
  private final int blockSize;
  private final PooledBuffer[] free;
  private final TaskQueue<ChannelTransfer> waiting = new TaskQueue<>();
  private int freeCount;
  private boolean warned;
  private boolean serving;

  // Written by the lane, read by any thread.
  private volatile int allocated;

  BufferPool(Lane lane, int blockSize, int blocks) {
    this.lane = lane;
    this.blockSize = blockSize;
    free = new PooledBuffer[blocks];
  }

  /** A block, or null if all are in use. */
  PooledBuffer take() {
    if (freeCount > 0 && (serving || waiting.isEmpty())) {
      return free[--freeCount];
    }
    if (allocated == free.length) {
      return null;
    }
    PooledBuffer block = new PooledBuffer(lane, blockSize);
    allocated = allocated + 1;
    return block;
  }

  void put(PooledBuffer block) {
    free[freeCount++] = block;
  }

  /**
   * Starts those that wait and can have a block: at the end of each turn, for the stack of a
   * handler that gives one back may end inside the engine. A read that finds nothing gives its
   * block back inside start().
   */
  void serve() {
    serving = true;
    try {
      while (freeCount > 0 && !waiting.isEmpty()) {
        ChannelTransfer next = waiting.poll();
        next.parked = false;
        lane.start(next);
      }
    } finally {
      serving = false;
    }
  }

  /** Starts the transfer again when a block is free. */
  void park(ChannelTransfer transfer) {
    if (!warned) {
      // Blocks that a program forgets would make its reads wait for ever, without a word.
      warned = true;
      LOG.log(
          System.Logger.Level.WARNING,
          "all blocks of a lane are in use, so pooled reads wait until one is given back; close"
              + " every block of takePooled, or raise pooled_buffers_max");
    }
    transfer.parked = true;
    waiting.add(transfer);
  }

  void unpark(ChannelTransfer transfer) {
    transfer.parked = false;
    waiting.remove(transfer);
  }

  int allocated() {
    return allocated;
  }
}
