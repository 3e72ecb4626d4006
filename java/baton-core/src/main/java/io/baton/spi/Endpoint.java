package io.baton.spi;

import java.io.IOException;
import java.net.SocketAddress;
import java.net.SocketOption;
import java.nio.ByteBuffer;
import java.nio.channels.SelectableChannel;
import java.util.Set;

/**
 * A socket as an engine sees it.
 *
 * <p><b>Threads:</b> every method may be called by any thread, except {@link #close}, which is for
 * an endpoint that no engine has started.
 */
public interface Endpoint {

  /** The abilities of an endpoint. */
  enum Kind {
    /** A connection, or a socket that will be one. */
    STREAM,
    /** Accepts connections. */
    LISTENER,
    /** Sends and receives datagrams. */
    DATAGRAM
  }

  /**
   * The kind of this endpoint.
   *
   * @return never changes
   */
  Kind kind();

  /**
   * The channel of {@code java.nio} under it.
   *
   * @return null if the engine has none
   */
  SelectableChannel channel();

  /**
   * Binds to a local address; a listener begins to listen.
   *
   * @param local null: any address and a free port
   * @param backlog of a listener; 0: as long as the system allows
   * @throws IOException if the system refuses
   */
  void bind(SocketAddress local, int backlog) throws IOException;

  /**
   * Fixes the peer of a datagram socket.
   *
   * @param remote the only address to send to and receive from
   * @throws IOException if the system refuses
   */
  void connectDatagram(SocketAddress remote) throws IOException;

  /**
   * Whether a datagram socket has a fixed peer, or a stream is connected.
   *
   * @return as of now
   */
  boolean isConnected();

  /**
   * The local address.
   *
   * @return null if not bound
   * @throws IOException if closed
   */
  SocketAddress localAddress() throws IOException;

  /**
   * The peer's address. That of a connect has the name of the host that the program gave it.
   *
   * @return null if not connected
   * @throws IOException if closed
   */
  SocketAddress remoteAddress() throws IOException;

  /**
   * Sets an option of the socket.
   *
   * @param <T> type of the value
   * @param option one of {@link #supportedOptions}
   * @param value as the option defines it
   * @throws IOException if the system refuses
   */
  <T> void setOption(SocketOption<T> option, T value) throws IOException;

  /**
   * Reads an option of the socket.
   *
   * @param <T> type of the value
   * @param option one of {@link #supportedOptions}
   * @return its value
   * @throws IOException if the system refuses
   */
  <T> T getOption(SocketOption<T> option) throws IOException;

  /**
   * The options of this socket.
   *
   * @return not modifiable
   */
  Set<SocketOption<?>> supportedOptions();

  /**
   * Ends the sending half of a stream.
   *
   * @throws IOException if the system refuses
   */
  void shutdownOutput() throws IOException;

  /**
   * Refuses later bytes of the peer; reads return the end of the stream.
   *
   * @throws IOException if the system refuses
   */
  void shutdownInput() throws IOException;

  /**
   * Takes a connection that waits at a listener, and waits for none. An accept may be in flight.
   *
   * @return null if no connection waits, or if the engine leaves accepts to its lanes
   * @throws IOException if the system refuses
   */
  default Endpoint tryAccept() throws IOException {
    return null;
  }

  /**
   * Whether input wakes the engine although no transfer may wait for it. Then a read that another
   * thread hands to the lane needs no wake-up of its own: it finds nothing before there is input.
   *
   * @return true only if the engine, after this has changed to false, returns to its lane once
   *     before it waits again
   */
  default boolean wakesOnInput() {
    return false;
  }

  /**
   * Reads what has arrived at a stream, and waits for nothing. No transfer reads from it meanwhile.
   *
   * @param buffer to read into
   * @return number of bytes, -1 at the end of the stream, or 0 if nothing has arrived or the engine
   *     leaves reads to its lanes
   * @throws IOException if the system refuses; the next transfer need not get this error again
   */
  default int tryRead(ByteBuffer buffer) throws IOException {
    return 0;
  }

  /**
   * Writes what a stream takes now, and waits for nothing. No transfer writes to it meanwhile.
   *
   * @param buffer to write
   * @return number of bytes, or 0 if the stream takes none or the engine leaves writes to its lanes
   * @throws IOException if the system refuses; the next transfer need not get this error again
   */
  default int tryWrite(ByteBuffer buffer) throws IOException {
    return 0;
  }

  /**
   * Closes the socket. For endpoints that no engine has started; the others are closed by a
   * transfer of kind {@code CLOSE}.
   *
   * @throws IOException if the system refuses; the socket is gone nevertheless
   */
  void close() throws IOException;
}
