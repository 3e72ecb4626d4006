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

  /** A worker. */
  void perform(ChannelTransfer transfer) throws IOException {
    switch (transfer.fileWork) {
      case READ, WRITE -> moveSome(transfer);
      case SYNC -> channel.force(true);
      case CLOSE -> channel.close();
    }
  }

  /**
   * Waits for the file if it moves nothing: it is in non-blocking mode then, as an inherited
   * standard input may be.
   */
  private void moveSome(ChannelTransfer transfer) throws IOException {
    ByteBuffer buffer = transfer.buffer();
    transfer.moved = move(transfer, buffer);
    long pause = PAUSE_MIN;
    while (transfer.moved == 0 && buffer.hasRemaining()) {
      if (transfer.isSkipped()) {
        transfer.wasCancelled = true;
        return;
      }
      LockSupport.parkNanos(pause);
      pause = Math.min(2 * pause, PAUSE_MAX);
      transfer.moved = move(transfer, buffer);
    }
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
