package io.baton.test;

import io.baton.AsynchChannel;
import io.baton.CloseReason;
import io.baton.OpTimeout;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * The result of an operation, kept beyond the handler.
 *
 * @param what which method
 * @param activation of the operation; 0 if there is none
 * @param error or null
 * @param bytes moved
 * @param data the bytes of a read
 * @param buffer of a read or write, or null
 * @param accepted the new channel of an accept
 * @param sender of a datagram
 * @param timeout which one
 * @param reason of a close
 * @param delimiterEnd of a read-until
 * @param thread that called
 */
public record Completion(
    What what,
    long activation,
    Throwable error,
    long bytes,
    byte[] data,
    ByteBuffer buffer,
    AsynchChannel accepted,
    SocketAddress sender,
    OpTimeout.Kind timeout,
    CloseReason reason,
    int delimiterEnd,
    Thread thread) {

  /** The methods of a handler. */
  public enum What {
    /** onReadCompleted. */
    READ,
    /** onWriteCompleted. */
    WRITE,
    /** onAcceptCompleted. */
    ACCEPT,
    /** onConnectCompleted. */
    CONNECT,
    /** onTimeout. */
    TIMEOUT,
    /** onStopping. */
    STOPPING,
    /** onClosed. */
    CLOSED
  }

  /**
   * The bytes of a read.
   *
   * @return as text
   */
  public String text() {
    return new String(data, StandardCharsets.UTF_8);
  }
}
