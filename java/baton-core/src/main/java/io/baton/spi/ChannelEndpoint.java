package io.baton.spi;

import java.io.IOException;
import java.net.SocketAddress;
import java.net.SocketException;
import java.net.SocketOption;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.DatagramChannel;
import java.nio.channels.NetworkChannel;
import java.nio.channels.SelectableChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.Set;

/**
 * An endpoint that is a channel of {@code java.nio}, for engines that use those.
 *
 * <p><b>Threads:</b> as {@link Endpoint}.
 */
public class ChannelEndpoint implements Endpoint {
  // Linux shortens it to net.core.somaxconn. Java's own default is 50, and a burst of more
  // connections waits for seconds.
  private static final int LONGEST_BACKLOG = 4096;

  private final SelectableChannel channel;
  private final ByteChannel bytes; // the same; null for a listener
  private final Kind kind;

  // Guards the next one. A read that finds the end waits for the write that may know better.
  private final Object writing = new Object();
  private boolean isLost;

  /**
   * Makes the channel non-blocking.
   *
   * @param channel a socket, listener or datagram channel
   * @throws IOException if it is closed
   * @throws IllegalArgumentException if it is something else
   */
  public ChannelEndpoint(SelectableChannel channel) throws IOException {
    this.channel = channel;
    if (channel instanceof SocketChannel) {
      kind = Kind.STREAM;
    } else if (channel instanceof ServerSocketChannel) {
      kind = Kind.LISTENER;
    } else if (channel instanceof DatagramChannel) {
      kind = Kind.DATAGRAM;
    } else {
      throw new IllegalArgumentException(
          "channel: is a "
              + channel.getClass().getName()
              + ", and must be a SocketChannel, ServerSocketChannel or DatagramChannel");
    }
    bytes = kind == Kind.LISTENER ? null : (ByteChannel) channel;
    BrokenPipe.learn();
    channel.configureBlocking(false);
  }

  /**
   * A new channel.
   *
   * @param kind of the channel
   * @return neither bound nor connected
   * @throws IOException if the system refuses
   */
  public static SelectableChannel newChannel(Kind kind) throws IOException {
    return switch (kind) {
      case STREAM -> SocketChannel.open();
      case LISTENER -> ServerSocketChannel.open();
      case DATAGRAM -> DatagramChannel.open();
    };
  }

  /**
   * Reads as {@link ByteChannel#read} does. A connection that is lost has no end, though: the
   * system reports the loss once, perhaps to a write, and an end of stream to every read after
   * that, so that what was cut off would look complete.
   *
   * @param buffer to read into
   * @return the number of bytes, or -1 at the end
   * @throws IOException if the system refuses, or a read or {@link #write} has reported before that
   *     the connection is lost
   */
  public final int read(ByteBuffer buffer) throws IOException {
    int moved;
    try {
      moved = bytes.read(buffer);
    } catch (ClosedChannelException e) {
      // As in write().
      throw e;
    } catch (IOException e) {
      // java.nio remembers a reset, and forgets a peer that has answered no more.
      lose();
      throw e;
    }
    if (moved < 0) {
      checkLoss();
    }
    return moved;
  }

  /** A datagram channel is not lost by an error, and java.nio says -1 for an empty datagram. */
  private void lose() {
    synchronized (writing) {
      isLost = kind == Kind.STREAM;
    }
  }

  private void checkLoss() throws SocketException {
    synchronized (writing) {
      if (isLost) {
        throw new SocketException("Connection reset");
      }
    }
  }

  /**
   * Writes as {@link ByteChannel#write} does.
   *
   * @param buffer to write
   * @return the number of bytes
   * @throws IOException if the system refuses
   */
  public final int write(ByteBuffer buffer) throws IOException {
    synchronized (writing) {
      try {
        return bytes.write(buffer);
      } catch (ClosedChannelException e) {
        // Of java.nio: another thread has ended the output, or closed the channel.
        throw e;
      } catch (IOException e) {
        if (!BrokenPipe.isMessageOf(e)) {
          lose();
        }
        throw e;
      }
    }
  }

  @Override
  public final Kind kind() {
    return kind;
  }

  @Override
  public final SelectableChannel channel() {
    return channel;
  }

  @Override
  public final void bind(SocketAddress local, int backlog) throws IOException {
    if (kind == Kind.LISTENER) {
      ((ServerSocketChannel) channel).bind(local, backlog == 0 ? LONGEST_BACKLOG : backlog);
    } else {
      network().bind(local);
    }
  }

  @Override
  public final void connectDatagram(SocketAddress remote) throws IOException {
    ((DatagramChannel) channel).connect(remote);
  }

  @Override
  public final boolean isConnected() {
    return switch (kind) {
      case STREAM -> ((SocketChannel) channel).isConnected();
      case DATAGRAM -> ((DatagramChannel) channel).isConnected();
      case LISTENER -> false;
    };
  }

  @Override
  public final SocketAddress localAddress() throws IOException {
    return network().getLocalAddress();
  }

  @Override
  public final SocketAddress remoteAddress() throws IOException {
    return switch (kind) {
      case STREAM -> ((SocketChannel) channel).getRemoteAddress();
      case DATAGRAM -> ((DatagramChannel) channel).getRemoteAddress();
      case LISTENER -> null;
    };
  }

  @Override
  public final <T> void setOption(SocketOption<T> option, T value) throws IOException {
    network().setOption(option, value);
  }

  @Override
  public final <T> T getOption(SocketOption<T> option) throws IOException {
    return network().getOption(option);
  }

  @Override
  public final Set<SocketOption<?>> supportedOptions() {
    return network().supportedOptions();
  }

  @Override
  public final void shutdownOutput() throws IOException {
    ((SocketChannel) channel).shutdownOutput();
  }

  @Override
  public final void shutdownInput() throws IOException {
    ((SocketChannel) channel).shutdownInput();
  }

  @Override
  public final void close() throws IOException {
    channel.close();
  }

  private NetworkChannel network() {
    return (NetworkChannel) channel;
  }
}
