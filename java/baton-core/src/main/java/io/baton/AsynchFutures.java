package io.baton;

import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * The operations of a channel with a future in place of the handler's method. Idle time-outs and
 * the end of the channel still go to its handler.
 *
 * <p><b>Starts</b> are refused as by the same methods of {@link AsynchChannel}: they throw, and
 * there is no future. Every other error is the future's, and is the same object that the handler
 * would have found in {@link Operation#getError}. A buffer is left as for the handler, also by an
 * operation that failed behind some bytes.
 *
 * <p><b>Threads:</b> start from any thread. Futures are completed by the channel's lane, so a stage
 * that depends on one without an executor runs there, unless the future was complete before the
 * stage was added. It must not block there. <b>Ownership:</b> a buffer is the library's until the
 * future is complete.
 *
 * <p><b>Cancellation:</b> {@code cancel} of a future asks for the end of its operation, as {@link
 * AsynchChannel#cancel} does, and returns whether it was requested. The future stays incomplete
 * until the operation has ended. Then it fails by {@link OperationCancelledException}, unless the
 * operation was faster. So {@code isCancelled} is never true. A stage that depends on the future is
 * a future of its own, whose cancellation does not reach the operation.
 *
 * <p>A future that the program completes, for example by {@code orTimeout}, asks for the end of its
 * operation first: what the program starts next is behind that request. The buffer stays the
 * library's until the operation has ended, and the program is not told: a start with a {@code
 * Duration} is better for reads, writes and connects. A connection that is accepted too late is
 * closed, and a pooled block that is read too late goes back to its pool.
 */
public final class AsynchFutures {
  private final AsynchChannel channel;

  AsynchFutures(AsynchChannel channel) {
    this.channel = channel;
  }

  // -- reading -----------------------------------------------------------------------------------

  /**
   * {@link AsynchChannel#read(ByteBuffer)}.
   *
   * @param buffer to read into
   * @return number of bytes; 0 for the end of a stream or file, and for an empty datagram
   */
  public CompletableFuture<Integer> read(ByteBuffer buffer) {
    Check.writable(buffer, "buffer");
    return startRead(buffer, OpRead.Until.SOMETHING, null, -1, 0);
  }

  /**
   * {@link AsynchChannel#read(ByteBuffer, Duration)}.
   *
   * @param buffer to read into
   * @param timeout positive
   * @return number of bytes; 0 for the end of a stream or file, and for an empty datagram
   */
  public CompletableFuture<Integer> read(ByteBuffer buffer, Duration timeout) {
    Check.writable(buffer, "buffer");
    long time = Check.positive(timeout, "timeout");
    return startRead(buffer, OpRead.Until.SOMETHING, null, -1, time);
  }

  /**
   * {@link AsynchChannel#read(ByteBuffer, long)}.
   *
   * @param buffer to read into
   * @param position in the file, 0 or more
   * @return number of bytes; 0 at the end of the file
   */
  public CompletableFuture<Integer> read(ByteBuffer buffer, long position) {
    channel.checkReadAt(buffer, position);
    return startRead(buffer, OpRead.Until.SOMETHING, null, position, 0);
  }

  /**
   * {@link AsynchChannel#readExactly(ByteBuffer)}.
   *
   * @param buffer to fill
   * @return number of bytes
   */
  public CompletableFuture<Integer> readExactly(ByteBuffer buffer) {
    Check.writable(buffer, "buffer");
    return startRead(buffer, OpRead.Until.FULL, null, -1, 0);
  }

  /**
   * {@link AsynchChannel#readExactly(ByteBuffer, Duration)}.
   *
   * @param buffer to fill
   * @param timeout positive
   * @return number of bytes
   */
  public CompletableFuture<Integer> readExactly(ByteBuffer buffer, Duration timeout) {
    Check.writable(buffer, "buffer");
    long time = Check.positive(timeout, "timeout");
    return startRead(buffer, OpRead.Until.FULL, null, -1, time);
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
    return startRead(buffer, OpRead.Until.DELIMITER, delimiter.clone(), -1, 0);
  }

  /**
   * {@link AsynchChannel#readUntil(ByteBuffer, byte[], Duration)}.
   *
   * @param buffer to read into; bytes before its position are data already
   * @param delimiter to look for
   * @param timeout positive
   * @return where the delimiter ends in the buffer
   */
  public CompletableFuture<Integer> readUntil(
      ByteBuffer buffer, byte[] delimiter, Duration timeout) {
    channel.checkUntil(buffer, delimiter);
    long time = Check.positive(timeout, "timeout");
    return startRead(buffer, OpRead.Until.DELIMITER, delimiter.clone(), -1, time);
  }

  /**
   * {@link AsynchChannel#readPooled()}.
   *
   * @return the block, to be given back by {@link PooledBuffer#close} or {@link
   *     #write(PooledBuffer)}, with the bytes between the position and the limit of its buffer;
   *     null at the end of a stream, and for an empty datagram
   */
  public CompletableFuture<PooledBuffer> readPooled() {
    return startPooled(0);
  }

  /**
   * {@link AsynchChannel#readPooled(Duration)}.
   *
   * @param timeout positive
   * @return as {@link #readPooled()}
   */
  public CompletableFuture<PooledBuffer> readPooled(Duration timeout) {
    return startPooled(Check.positive(timeout, "timeout"));
  }

  /**
   * {@link AsynchChannel#read(ByteBuffer)} of a datagram, with its sender.
   *
   * @param buffer to read into; the datagram is between its position and its limit then
   * @return {@link OpRead#getSender}, which is null if the channel has a fixed peer
   */
  public CompletableFuture<SocketAddress> receive(ByteBuffer buffer) {
    channel.checkReceive(buffer);
    return startReceive(buffer, 0);
  }

  /**
   * {@link AsynchChannel#read(ByteBuffer, Duration)} of a datagram, with its sender.
   *
   * @param buffer to read into; the datagram is between its position and its limit then
   * @param timeout positive
   * @return {@link OpRead#getSender}, which is null if the channel has a fixed peer
   */
  public CompletableFuture<SocketAddress> receive(ByteBuffer buffer, Duration timeout) {
    channel.checkReceive(buffer);
    return startReceive(buffer, Check.positive(timeout, "timeout"));
  }

  // -- writing -----------------------------------------------------------------------------------

  /**
   * {@link AsynchChannel#write(ByteBuffer)}.
   *
   * @param buffer to write whole
   * @return number of bytes
   */
  public CompletableFuture<Integer> write(ByteBuffer buffer) {
    channel.checkWrite(buffer);
    return startWrite(buffer, null, -1, 0);
  }

  /**
   * {@link AsynchChannel#write(ByteBuffer, Duration)}.
   *
   * @param buffer to write whole
   * @param timeout positive
   * @return number of bytes
   */
  public CompletableFuture<Integer> write(ByteBuffer buffer, Duration timeout) {
    channel.checkWrite(buffer);
    return startWrite(buffer, null, -1, Check.positive(timeout, "timeout"));
  }

  /**
   * {@link AsynchChannel#write(ByteBuffer, long)}.
   *
   * @param buffer to write whole
   * @param position in the file, 0 or more
   * @return number of bytes
   */
  public CompletableFuture<Integer> write(ByteBuffer buffer, long position) {
    channel.checkWriteAt(buffer, position);
    return startWrite(buffer, null, position, 0);
  }

  /**
   * {@link AsynchChannel#write(ByteBuffer, SocketAddress)}.
   *
   * @param buffer may be empty, for an empty datagram
   * @param remote where to
   * @return number of bytes
   */
  public CompletableFuture<Integer> write(ByteBuffer buffer, SocketAddress remote) {
    channel.checkWriteTo(buffer, remote);
    return startWrite(buffer, remote, -1, 0);
  }

  /**
   * {@link AsynchChannel#write(PooledBuffer)}.
   *
   * @param block the library's from now on; the caller's if this throws
   * @return number of bytes
   */
  public CompletableFuture<Integer> write(PooledBuffer block) {
    OperationFuture<Integer> future = withBytes();
    channel.startWrite(block, future);
    return future;
  }

  /**
   * {@link AsynchChannel#shutdownOutput}.
   *
   * @return complete when the sending half has ended
   */
  public CompletableFuture<Void> shutdownOutput() {
    OperationFuture<Void> future = withoutResult();
    channel.startShutdownOutput(future);
    return future;
  }

  /**
   * {@link AsynchChannel#sync}.
   *
   * @return complete when the file's data is on the device
   */
  public CompletableFuture<Void> sync() {
    OperationFuture<Void> future = withoutResult();
    channel.startSync(future);
    return future;
  }

  // -- connections -------------------------------------------------------------------------------

  /**
   * {@link AsynchChannel#connect(SocketAddress)}.
   *
   * @param remote the peer's address
   * @return complete when connected
   */
  public CompletableFuture<Void> connect(SocketAddress remote) {
    OperationFuture<Void> future = withoutResult();
    channel.startConnect(remote, 0, future);
    return future;
  }

  /**
   * {@link AsynchChannel#connect(SocketAddress, Duration)}.
   *
   * @param remote the peer's address
   * @param timeout positive
   * @return complete when connected
   */
  public CompletableFuture<Void> connect(SocketAddress remote, Duration timeout) {
    OperationFuture<Void> future = withoutResult();
    channel.startConnect(remote, Check.positive(timeout, "timeout"), future);
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
        new OperationFuture<>(
            channel,
            operation -> ((OpAccept) operation).openUnchecked(handler),
            AsynchChannel::close);
    channel.startAccept(future);
    return future;
  }

  // -- time, end ---------------------------------------------------------------------------------

  /**
   * {@link AsynchChannel#startTimer}.
   *
   * @param delay 0 or more
   * @return complete when the time is over
   */
  public CompletableFuture<Void> startTimer(Duration delay) {
    OperationFuture<Void> future = withoutResult();
    channel.startTimer(delay, future);
    return future;
  }

  /**
   * {@link AsynchChannel#close()}.
   *
   * @return complete when the channel is closed. To cancel it has no effect on the channel.
   */
  public CompletableFuture<Void> close() {
    channel.close();
    return channel.closedFuture().copy();
  }

  // -- inside ------------------------------------------------------------------------------------

  private CompletableFuture<Integer> startRead(
      ByteBuffer buffer, OpRead.Until until, byte[] delimiter, long position, long timeout) {
    OperationFuture<Integer> future =
        until == OpRead.Until.DELIMITER
            ? new OperationFuture<>(channel, operation -> ((OpRead) operation).delimiterEnd)
            : withBytes();
    channel.startRead(buffer, until, delimiter, position, timeout, future);
    return future;
  }

  private CompletableFuture<SocketAddress> startReceive(ByteBuffer buffer, long timeout) {
    OperationFuture<SocketAddress> future =
        new OperationFuture<>(channel, operation -> ((OpRead) operation).sender);
    channel.startRead(buffer, OpRead.Until.SOMETHING, null, -1, timeout, future);
    return future;
  }

  private CompletableFuture<PooledBuffer> startPooled(long timeout) {
    channel.checkPooled();
    OperationFuture<PooledBuffer> future =
        new OperationFuture<>(
            channel, operation -> ((OpRead) operation).takeIfAny(), PooledBuffer::close);
    channel.startRead(null, OpRead.Until.SOMETHING, null, -1, timeout, future);
    return future;
  }

  private CompletableFuture<Integer> startWrite(
      ByteBuffer buffer, SocketAddress remote, long position, long timeout) {
    OperationFuture<Integer> future = withBytes();
    channel.startWrite(buffer, null, remote, position, timeout, future);
    return future;
  }

  private OperationFuture<Integer> withBytes() {
    return new OperationFuture<>(channel, operation -> (int) operation.bytes);
  }

  private OperationFuture<Void> withoutResult() {
    return new OperationFuture<>(channel, operation -> null);
  }
}
