package io.baton.nio2;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.OpClose;
import io.baton.StoppedException;
import java.io.IOException;
import java.net.SocketAddress;
import java.net.SocketOption;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ShutdownChannelGroupException;
import java.nio.channels.UnsupportedAddressTypeException;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;

/** The common part of both kinds of channels: a socket of a group, from open to closed. */
abstract class GroupSocket implements AsynchHandler {

  /** Makes the channel, with this as its handler. */
  interface Opener {
    AsynchChannel open(AsynchHandler handler) throws IOException;
  }

  final Group group;
  final AsynchChannel channel;
  private final AtomicBoolean open = new AtomicBoolean(true);
  private volatile boolean closed;

  GroupSocket(Group group, Opener opener) throws IOException {
    this.group = group;
    group.enterNew();
    try {
      channel = opener.open(this);
    } catch (StoppedException e) {
      group.leave();
      throw (RuntimeException) new ShutdownChannelGroupException().initCause(e);
    } catch (IOException | RuntimeException | Error e) {
      group.leave();
      throw e;
    }
    try {
      group.opened(this);
    } catch (OutOfMemoryError e) {
      // The program does not get it, so nobody else would close it.
      channel.close();
      throw e;
    }
  }

  final boolean isOpen() {
    return open.get();
  }

  final void checkOpen() throws ClosedChannelException {
    if (!isOpen()) {
      throw new ClosedChannelException();
    }
  }

  /** Whether the descriptor is free again. */
  final boolean isClosed() {
    return closed;
  }

  /** Ends pending operations by an AsynchronousCloseException, and waits for the descriptor. */
  final void close() {
    // After an engine failed it is closed already, and its last operation may be the handler's.
    boolean closes = open.getAndSet(false) && channel.isOpen();
    if (closes) {
      channel.close();
    }
    group.awaitClosed(this, closes);
  }

  @Override
  public final void onClosed(OpClose opClose) {
    // The engine may have failed; then the program has not called close().
    open.set(false);
    closed = true;
    try {
      freed();
    } finally {
      group.closed(this);
    }
  }

  /** The descriptor is free, and the group has not let go of this socket. The lane's thread. */
  abstract void freed();

  final void bind(SocketAddress local, int backlog) throws IOException {
    try {
      channel.bind(local, backlog);
    } catch (IllegalArgumentException e) {
      if (e.getCause() instanceof UnsupportedAddressTypeException type) {
        throw Check.noFamily(type);
      }
      throw e;
    }
  }

  final SocketAddress localAddress() throws IOException {
    checkOpen();
    return channel.getLocalAddress();
  }

  final <T> void setOption(SocketOption<T> option, T value) throws IOException {
    checkOption(option);
    channel.setOption(option, value);
  }

  final <T> T getOption(SocketOption<T> option) throws IOException {
    checkOption(option);
    return channel.getOption(option);
  }

  private void checkOption(SocketOption<?> option) throws IOException {
    Check.notNull(option, "name");
    if (!supportedOptions().contains(option)) {
      throw new UnsupportedOperationException(
          "name: the option " + option.name() + " is none of this channel's supportedOptions()");
    }
    checkOpen();
  }

  final Set<SocketOption<?>> supportedOptions() {
    return channel.supportedOptions();
  }

  final String describe(String type) {
    try {
      return type + "[local " + localAddress() + ", remote " + channel.getRemoteAddress() + "]";
    } catch (IOException e) {
      return type + "[closed]";
    }
  }
}
