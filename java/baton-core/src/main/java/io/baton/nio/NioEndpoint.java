package io.baton.nio;

import io.baton.spi.Endpoint;
import io.baton.spi.Transfer;
import java.io.IOException;
import java.net.SocketAddress;
import java.net.SocketOption;
import java.nio.channels.ByteChannel;
import java.nio.channels.DatagramChannel;
import java.nio.channels.NetworkChannel;
import java.nio.channels.SelectableChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.Set;

/** A channel of {@code java.nio} and what the engine remembers of it. */
final class NioEndpoint implements Endpoint {

  final SelectableChannel channel;
  final ByteChannel bytes; // the same channel; null for a listener
  final int readBit;
  private final Kind kind;

  // Used by the lane's thread only.
  SelectionKey key;
  int interest;
  Transfer reading;
  Transfer writing;
  boolean mayBeReadable = true;

  NioEndpoint(SelectableChannel channel) throws IOException {
    this.channel = channel;
    if (channel instanceof SocketChannel) {
      kind = Kind.STREAM;
    } else if (channel instanceof ServerSocketChannel) {
      kind = Kind.LISTENER;
    } else if (channel instanceof DatagramChannel) {
      kind = Kind.DATAGRAM;
    } else {
      throw new IllegalArgumentException(
          "channel: the engine nio takes a SocketChannel, ServerSocketChannel or DatagramChannel,"
              + " not a "
              + channel.getClass().getName());
    }
    bytes = kind == Kind.LISTENER ? null : (ByteChannel) channel;
    readBit = kind == Kind.LISTENER ? SelectionKey.OP_ACCEPT : SelectionKey.OP_READ;
    channel.configureBlocking(false);
  }

  @Override
  public Kind kind() {
    return kind;
  }

  @Override
  public SelectableChannel channel() {
    return channel;
  }

  @Override
  public void bind(SocketAddress local, int backlog) throws IOException {
    if (kind == Kind.LISTENER) {
      ((ServerSocketChannel) channel).bind(local, backlog);
    } else {
      network().bind(local);
    }
  }

  @Override
  public void connectDatagram(SocketAddress remote) throws IOException {
    ((DatagramChannel) channel).connect(remote);
  }

  @Override
  public boolean isConnected() {
    return switch (kind) {
      case STREAM -> ((SocketChannel) channel).isConnected();
      case DATAGRAM -> ((DatagramChannel) channel).isConnected();
      case LISTENER -> false;
    };
  }

  @Override
  public SocketAddress localAddress() throws IOException {
    return network().getLocalAddress();
  }

  @Override
  public SocketAddress remoteAddress() throws IOException {
    return switch (kind) {
      case STREAM -> ((SocketChannel) channel).getRemoteAddress();
      case DATAGRAM -> ((DatagramChannel) channel).getRemoteAddress();
      case LISTENER -> null;
    };
  }

  @Override
  public <T> void setOption(SocketOption<T> option, T value) throws IOException {
    network().setOption(option, value);
  }

  @Override
  public <T> T getOption(SocketOption<T> option) throws IOException {
    return network().getOption(option);
  }

  @Override
  public Set<SocketOption<?>> supportedOptions() {
    return network().supportedOptions();
  }

  @Override
  public void shutdownOutput() throws IOException {
    ((SocketChannel) channel).shutdownOutput();
  }

  @Override
  public void shutdownInput() throws IOException {
    ((SocketChannel) channel).shutdownInput();
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }

  private NetworkChannel network() {
    return (NetworkChannel) channel;
  }
}
