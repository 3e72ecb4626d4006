package io.baton.examples;

import static java.nio.file.StandardOpenOption.CREATE;
import static java.nio.file.StandardOpenOption.READ;
import static java.nio.file.StandardOpenOption.TRUNCATE_EXISTING;
import static java.nio.file.StandardOpenOption.WRITE;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.Demultiplexor;
import io.baton.OpRead;
import io.baton.OpWrite;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;

/**
 * Copies a file: a read, its write, the next read, and at the end one sync.
 *
 * <p>Usage: {@code CopyFile FROM TO}
 */
public final class CopyFile implements AsynchHandler {
  private final ByteBuffer buffer = ByteBuffer.allocateDirect(256 << 10);
  private final CompletableFuture<Long> copied = new CompletableFuture<>();
  private final AsynchChannel from;
  private final AsynchChannel to;
  private long bytes;
  private boolean syncing;

  private CopyFile(Demultiplexor demultiplexor, Path source, Path target) throws IOException {
    from = demultiplexor.file(source, this, READ);
    try {
      to = demultiplexor.file(target, this, CREATE, TRUNCATE_EXISTING, WRITE);
    } catch (IOException | RuntimeException e) {
      from.close();
      throw e;
    }
    from.read(buffer);
  }

  @Override
  public void onReadCompleted(OpRead opRead) {
    if (opRead.getError() != null) {
      end(opRead.getError());
    } else if (opRead.getBytesCompleted() == 0) {
      syncing = true;
      to.sync();
    } else {
      bytes += opRead.getBytesCompleted();
      to.write(opRead.getBuffer());
    }
  }

  @Override
  public void onWriteCompleted(OpWrite opWrite) {
    if (opWrite.getError() != null || syncing) {
      end(opWrite.getError());
    } else {
      from.read(buffer.clear());
    }
  }

  private void end(Throwable error) {
    from.close();
    to.close();
    if (error == null) {
      copied.complete(bytes);
    } else {
      copied.completeExceptionally(error);
    }
  }

  /**
   * Copies.
   *
   * @param demultiplexor whose threads do it
   * @param source to read
   * @param target to write; created, or emptied first
   * @return number of bytes, once they are on the device
   * @throws IOException if a file cannot be opened
   */
  public static CompletableFuture<Long> start(Demultiplexor demultiplexor, Path source, Path target)
      throws IOException {
    return new CopyFile(demultiplexor, source, target).copied;
  }

  /**
   * Copies one file.
   *
   * @param arguments from, to
   * @throws Exception if it cannot be copied
   */
  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 2) {
      System.err.println("usage: CopyFile FROM TO");
      System.exit(2);
    }
    try (Demultiplexor demultiplexor = Demultiplexor.open()) {
      long bytes = start(demultiplexor, Path.of(arguments[0]), Path.of(arguments[1])).get();
      System.out.println(bytes + " bytes copied");
    }
  }
}
