package io.baton.spi;

import java.net.SocketAddress;
import java.nio.ByteBuffer;

/**
 * One request to an engine. Objects are the library's and are used again after completion.
 *
 * <p><b>Threads:</b> the lane's thread only.
 */
public interface Transfer {

  /** The kinds of transfers. */
  enum Kind {
    /** Moves at least one byte from the stream or the connected datagram into the buffer. */
    READ,
    /** Moves at least one byte, or one whole datagram, from the buffer to the peer. */
    WRITE,
    /** Takes one datagram and the address of its sender. */
    RECEIVE,
    /** Sends one datagram to {@link Transfer#address}. */
    SEND,
    /** Takes one connection. */
    ACCEPT,
    /** Connects to {@link Transfer#address}. */
    CONNECT,
    /** Lets go of the endpoint; complete when its descriptor is free again. */
    CLOSE
  }

  /**
   * The kind of transfer.
   *
   * @return constant while the transfer is in flight
   */
  Kind kind();

  /**
   * The other side of the transfer.
   *
   * @return constant while the transfer is in flight
   */
  Endpoint endpoint();

  /**
   * The buffer between its position and its limit; moving bytes moves the position. A pooled read
   * takes its buffer here, so ask only when data is there.
   *
   * @return null if a pooled read found its pool empty. The engine then forgets the transfer: it is
   *     not in flight any more, and is started again when a buffer is free.
   */
  ByteBuffer buffer();

  /** Gives back what {@link #buffer} took, because there was no data after all. */
  void returnBuffer();

  /**
   * Whether {@link #buffer} takes from a pool.
   *
   * @return constant while the transfer is in flight
   */
  boolean pooled();

  /**
   * Where to send or connect to.
   *
   * @return null for other kinds
   */
  SocketAddress address();

  /**
   * Completes a transfer.
   *
   * @param bytes number of bytes moved; -1 for the end of the stream; 0 for kinds without bytes
   */
  void completed(int bytes);

  /**
   * Completes {@code RECEIVE}.
   *
   * @param bytes length of the datagram, as far as it fitted
   * @param sender its address
   */
  void received(int bytes, SocketAddress sender);

  /**
   * Completes {@code ACCEPT}.
   *
   * @param connection not yet tied to an engine
   */
  void accepted(Endpoint connection);

  /**
   * Completes a transfer by an error.
   *
   * @param error from the system
   */
  void failed(Throwable error);

  /** Completes a transfer that {@link Engine#cancel} has ended early. */
  void cancelled();

  /**
   * The object that the engine has attached.
   *
   * @return null at first
   */
  Object attachment();

  /**
   * Keeps something of the engine with the transfer, also from one use to the next.
   *
   * @param attachment the engine's
   */
  void attach(Object attachment);
}
