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
    workers.execute(transfer::work);
  }

  /** A worker. */
  void perform(ChannelTransfer transfer) throws IOException {
    switch (transfer.fileWork) {
      case READ -> transfer.moved = read((OpRead) transfer.operation);
      case WRITE -> transfer.moved = write((OpWrite) transfer.operation);
      case SYNC -> channel.force(true);
      case CLOSE -> channel.close();
    }
  }

  private int read(OpRead read) throws IOException {
    return read.position < 0
        ? channel.read(read.buffer)
        : channel.read(read.buffer, read.position + read.bytes);
  }

  private int write(OpWrite write) throws IOException {
    return write.position < 0
        ? channel.write(write.buffer)
        : channel.write(write.buffer, write.position + write.bytes);
  }
}
