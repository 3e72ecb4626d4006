package io.baton;

import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;

/**
 * The operations of a channel with a future in place of the handler's method.
 *
 * <p><b>Threads:</b> start from any thread. Futures are completed by the channel's lane, so what
 * depends on one without an executor runs there, and must not block. <b>Ownership:</b> a buffer is
 * the library's until the future is complete. Cancelling a future asks for the end of its
 * operation; the future then completes by {@link OperationCancelledException}, unless the operation
 * was faster.
 *
 * <p>A future that the program completes, for example by {@code orTimeout}, asks for the end of its
 * operation, too. The buffer stays the library's until the operation has ended, and the program is
 * not told: a start of {@link AsynchChannel} with a {@code Duration} is better for reads and
 * writes. A connection that is accepted too late is closed.
 *
 * <p>Starts are refused as by the same methods of {@link AsynchChannel}.
 */
public final class AsynchFutures {
  private final AsynchChannel channel;

  AsynchFutures(AsynchChannel channel) {
    this.channel = channel;
  }

  /**
   * {@link AsynchChannel#read(ByteBuffer)}.
   *
   * @param buffer to read into
   * @return number of bytes; 0 for the end of a stream
   */
  public CompletableFuture<Integer> read(ByteBuffer buffer) {
    Check.writable(buffer, "buffer");
    return startRead(buffer, OpRead.Until.SOMETHING, null);
  }

  /**
   * {@link AsynchChannel#readExactly(ByteBuffer)}.
   *
   * @param buffer to fill
   * @return number of bytes
   */
  public CompletableFuture<Integer> readExactly(ByteBuffer buffer) {
    Check.writable(buffer, "buffer");
    return startRead(buffer, OpRead.Until.FULL, null);
  }

  /**
   * {@link AsynchChannel#readUntil(ByteBuffer, byte[])}.
   *
   * @param buffer to read into; bytes before its position are data already
   * @param delimiter to look for
   * @return where the delimiter ends in the buffer
   */
  public CompletableFuture<Integer> readUntil(ByteBuffer buffer, byte[] delimiter) {
    channel.checkUntil(buffer, delimiter);
    return startRead(buffer, OpRead.Until.DELIMITER, delimiter.clone());
  }

  /**
   * {@link AsynchChannel#write(ByteBuffer)}.
   *
   * @param buffer to write whole
   * @return number of bytes
   */
  public CompletableFuture<Integer> write(ByteBuffer buffer) {
    Check.readable(buffer, "buffer");
    OperationFuture<Integer> future = new OperationFuture<>(channel, AsynchFutures::bytes);
    channel.startWrite(buffer, null, null, -1, 0, future);
    return future;
  }

  /**
   * {@link AsynchChannel#connect(SocketAddress)}.
   *
   * @param remote the peer's address
   * @return complete when connected
   */
  public CompletableFuture<Void> connect(SocketAddress remote) {
    OperationFuture<Void> future = new OperationFuture<>(channel, operation -> null);
    channel.startConnect(remote, 0, future);
    return future;
  }

  /**
   * {@link AsynchChannel#accept()}.
   *
   * @param handler of the new channel
   * @return the new channel
   */
  public CompletableFuture<AsynchChannel> accept(AsynchHandler handler) {
    Check.notNull(handler, "handler");
    OperationFuture<AsynchChannel> future =
        new OperationFuture<>(channel, operation -> ((OpAccept) operation).openUnchecked(handler));
    channel.startAccept(future);
    return future;
  }

  /**
   * {@link AsynchChannel#close()}.
   *
   * @return complete when the channel is closed
   */
  public CompletableFuture<Void> close() {
    channel.close();
    return channel.closedFuture().copy();
  }

  private CompletableFuture<Integer> startRead(
      ByteBuffer buffer, OpRead.Until until, byte[] delimiter) {
    OperationFuture<Integer> future =
        new OperationFuture<>(
            channel,
            until == OpRead.Until.DELIMITER
                ? operation -> ((OpRead) operation).delimiterEnd
                : AsynchFutures::bytes);
    channel.startRead(buffer, until, delimiter, -1, 0, future);
    return future;
  }

  private static Integer bytes(Operation operation) {
    return (int) operation.bytes;
  }
}
