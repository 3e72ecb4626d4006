package io.baton;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * A file, and the workers that may block in it (rule 10 of the contract: files never block a lane).
 */
final class FileAccess {
  private static final long PAUSE_MIN = TimeUnit.MICROSECONDS.toNanos(100);
  private static final long PAUSE_MAX = TimeUnit.MILLISECONDS.toNanos(10);

  private final FileChannel channel;
  private final Executor workers;

  FileAccess(FileChannel channel, Executor workers) {
    this.channel = channel;
    this.workers = workers;
  }

  /** The lane's thread. */
  void start(ChannelTransfer transfer) {
    try {
      workers.execute(transfer::work);
    } catch (OutOfMemoryError e) {
      // There is no memory for a thread.
      transfer.failed(e);
    }
  }

  /** A worker. False: nothing has moved yet, and the workers have it again. */
  boolean perform(ChannelTransfer transfer) throws IOException {
    switch (transfer.fileWork) {
      case READ, WRITE -> {
        return hasMoved(transfer);
      }
      case SYNC -> channel.force(true);
      case CLOSE -> channel.close();
    }
    return true;
  }

  /**
   * A file that moves nothing is in non-blocking mode, as an inherited standard input may be. It is
   * asked again behind the work of other files, which could not even close if all workers waited.
   */
  private boolean hasMoved(ChannelTransfer transfer) throws IOException {
    ByteBuffer buffer = transfer.buffer();
    transfer.moved = move(transfer, buffer);
    if (transfer.moved != 0 || !buffer.hasRemaining()) {
      return true;
    }
    transfer.pause = Math.min(Math.max(PAUSE_MIN, 2 * transfer.pause), PAUSE_MAX);
    LockSupport.parkNanos(transfer.pause);
    workers.execute(transfer::work);
    return false;
  }

  private int move(ChannelTransfer transfer, ByteBuffer buffer) throws IOException {
    long begun = transfer.operation.bytes;
    if (transfer.operation instanceof OpRead read) {
      return read.position < 0 ? channel.read(buffer) : channel.read(buffer, read.position + begun);
    }
    long at = ((OpWrite) transfer.operation).position;
    return at < 0 ? channel.write(buffer) : channel.write(buffer, at + begun);
  }
}
