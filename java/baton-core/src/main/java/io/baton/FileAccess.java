package io.baton;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.util.concurrent.Executor;

/**
 * A file, and the workers that may block in it (rule 10 of the contract: files never block a lane).
 */
final class FileAccess {
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
      case READ -> {
        long at = ((OpRead) transfer.operation).position;
        transfer.moved =
            at < 0
                ? channel.read(transfer.buffer())
                : channel.read(transfer.buffer(), at + transfer.operation.bytes);
      }
      case WRITE -> {
        long at = ((OpWrite) transfer.operation).position;
        transfer.moved =
            at < 0
                ? channel.write(transfer.buffer())
                : channel.write(transfer.buffer(), at + transfer.operation.bytes);
      }
      case SYNC -> channel.force(true);
      case CLOSE -> channel.close();
    }
  }
}
