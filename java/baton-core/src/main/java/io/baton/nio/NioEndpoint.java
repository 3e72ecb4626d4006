package io.baton.nio;

import io.baton.spi.ChannelEndpoint;
import io.baton.spi.Transfer;
import java.io.IOException;
import java.nio.channels.SelectableChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

/** A channel with the engine's state for it. For the lane's thread. */
final class NioEndpoint extends ChannelEndpoint {
  final SelectableChannel channel;
  final int readBit;

  SelectionKey key;
  int interest;
  Transfer reading;
  Transfer writing;
  boolean mayBeReadable = true;

  // The engine's list of those that are being closed.
  Transfer closing;
  NioEndpoint following;

  NioEndpoint(SelectableChannel channel) throws IOException {
    super(channel);
    this.channel = channel;
    readBit = kind() == Kind.LISTENER ? SelectionKey.OP_ACCEPT : SelectionKey.OP_READ;
  }

  @Override
  public NioEndpoint tryAccept() throws IOException {
    SocketChannel connection = ((ServerSocketChannel) channel).accept();
    return connection == null ? null : new NioEndpoint(connection);
  }
}
