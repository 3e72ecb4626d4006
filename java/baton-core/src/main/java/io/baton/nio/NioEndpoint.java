package io.baton.nio;

import io.baton.spi.ChannelEndpoint;
import io.baton.spi.Transfer;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectableChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

/** A channel with the engine's state for it, which is for the lane's thread. */
final class NioEndpoint extends ChannelEndpoint {
  final SelectableChannel channel;
  final int readBit;

  SelectionKey key;
  volatile int interest;
  Transfer reading;
  Transfer writing;
  boolean mayBeReadable = true;

  // The engine's list of those that are being closed.
  Transfer closing;
  NioEndpoint following;

  // The engine's list of those that had input and no read.
  boolean isUnread;
  NioEndpoint nextUnread;

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

  @Override
  public boolean wakesOnInput() {
    return (interest & readBit) != 0 && channel.isOpen();
  }

  @Override
  public int tryRead(ByteBuffer buffer) throws IOException {
    return read(buffer);
  }

  @Override
  public int tryWrite(ByteBuffer buffer) throws IOException {
    return write(buffer);
  }
}
