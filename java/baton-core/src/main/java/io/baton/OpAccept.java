package io.baton;

import io.baton.spi.Endpoint;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.SelectableChannel;

/**
 * A completed accept.
 *
 * <p><b>Threads and ownership:</b> as {@link Operation}. The connection is the handler's once it
 * has called {@link #getChannel} or {@link #open}; otherwise it is closed when the handler returns.
 */
public final class OpAccept extends Operation {
  Endpoint connection;

  OpAccept(AsynchChannel channel) {
    super(channel);
  }

  /**
   * Takes the connection as a channel of {@code java.nio}, for the constructor of {@link
   * AsynchChannel}.
   *
   * @return null if the accept failed
   * @throws UnsupportedOperationException if the engine has no such channel; call {@link #open}
   */
  public SelectableChannel getChannel() {
    if (connection == null) {
      return null;
    }
    SelectableChannel taken = connection.channel();
    if (taken == null) {
      throw new UnsupportedOperationException(
          "getChannel: connections of the engine "
              + channel.getDemultiplexor().getEngine()
              + " have no channel of java.nio; call open(handler) instead");
    }
    connection = null;
    return taken;
  }

  /**
   * Takes the connection as a channel of the same Demultiplexor.
   *
   * @param handler of the new channel
   * @return a new channel, whose lane may be another one
   * @throws IOException if the system refuses; the connection is closed then
   * @throws IllegalStateException if there is no connection: failed, or taken before
   */
  public AsynchChannel open(AsynchHandler handler) throws IOException {
    Check.notNull(handler, "handler");
    if (connection == null) {
      throw new IllegalStateException(
          "open: there is no connection: the accept failed, or the connection was taken before");
    }
    Endpoint taken = connection;
    connection = null;
    try {
      return new AsynchChannel(channel.getDemultiplexor(), handler, taken);
    } catch (RuntimeException | OutOfMemoryError e) {
      taken.close();
      throw e;
    }
  }

  /** For a future. */
  AsynchChannel openUnchecked(AsynchHandler handler) {
    try {
      return open(handler);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  void call(AsynchHandler handler) throws Exception {
    handler.onAcceptCompleted(this);
  }

  @Override
  void recycle() {
    super.recycle();
    if (connection != null) {
      Endpoint left = connection;
      connection = null;
      try {
        left.close();
      } catch (IOException e) {
        channel.core.lane.report(e);
      }
    }
  }
}
