package io.baton.nio2;

import io.baton.OpAccept;
import java.io.IOException;
import java.net.SocketAddress;
import java.net.SocketOption;
import java.nio.channels.AcceptPendingException;
import java.nio.channels.AsynchronousServerSocketChannel;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.CompletionHandler;
import java.nio.channels.NotYetBoundException;
import java.nio.channels.ShutdownChannelGroupException;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/** A listener of NIO.2 on a channel of Baton. */
final class BatonServerSocketChannel extends AsynchronousServerSocketChannel {
  private final Direction<Pending<AsynchronousSocketChannel, ?>> accepts =
      new Direction<>("accept", AcceptPendingException::new);
  private final Listener socket;
  private volatile boolean bound;

  /** Of an accept that waits for the close, or null. For the lane's thread. */
  private Throwable closeError;

  private final class Listener extends GroupSocket {
    Listener(Group group) throws IOException {
      super(group, group.demultiplexor()::openListener);
    }

    @Override
    public void onAcceptCompleted(OpAccept opAccept) {
      if (opAccept.getError() != null && !channel.isOpen()) {
        closeError = opAccept.getError();
      } else {
        accepted(accepts.end(), opAccept);
      }
    }

    @Override
    void freed() {
      if (closeError != null) {
        // Now, for the program may listen at the port again.
        accepts.end().fail(closeError);
      }
    }
  }

  private BatonServerSocketChannel(Group group) throws IOException {
    super(group.provider());
    socket = new Listener(group);
  }

  static BatonServerSocketChannel open(Group group) throws IOException {
    return new BatonServerSocketChannel(group);
  }

  @Override
  public AsynchronousServerSocketChannel bind(SocketAddress local, int backlog) throws IOException {
    if (local != null) {
      Check.address(local, "local");
    }
    socket.checkOpen();
    socket.bind(local, Math.max(0, backlog));
    bound = true;
    return this;
  }

  @Override
  public <A> void accept(
      A attachment, CompletionHandler<AsynchronousSocketChannel, ? super A> handler) {
    accept(new Accept<>(socket.group, attachment, handler));
  }

  @Override
  public Future<AsynchronousSocketChannel> accept() {
    Pending<AsynchronousSocketChannel, Void> accept = new Pending<>(socket.group, this::cancelled);
    accept(accept);
    return accept.future();
  }

  private void accept(Pending<AsynchronousSocketChannel, ?> accept) {
    if (!isOpen()) {
      accept.fail(new ClosedChannelException());
      return;
    }
    if (!bound) {
      throw new NotYetBoundException();
    }
    LongSupplier starter = socket.channel::accept;
    Consumer<OpAccept> taker = opAccept -> accepted(accepts.end(), opAccept);
    accepts.begin(accept);
    // The way to the lane and back would take a turn of two threads for each connection, and where
    // all of them are busy, each turn is as long as a time slice of the system.
    if (socket.group.handlers().isLane() || !tryAccept(accept, taker)) {
      accepts.start(accept, starter);
    }
  }

  private boolean tryAccept(
      Pending<AsynchronousSocketChannel, ?> accept, Consumer<OpAccept> taker) {
    try {
      return socket.channel.tryAccept(taker);
    } catch (OutOfMemoryError e) {
      // Otherwise a handler has thrown it, which may have started the next accept.
      if (accepts.isPending(accept)) {
        return false;
      }
      throw e;
    }
  }

  private void accepted(Pending<AsynchronousSocketChannel, ?> accept, OpAccept opAccept) {
    if (opAccept.getError() != null) {
      accept.fail(opAccept.getError());
      return;
    }
    BatonSocketChannel connection;
    try {
      connection = BatonSocketChannel.accepted(socket.group, opAccept);
    } catch (ShutdownChannelGroupException e) {
      accept.fail(new IOException("the group was shut down, so the connection is closed", e));
      return;
    } catch (IOException | RuntimeException | OutOfMemoryError e) {
      accept.fail(e);
      return;
    }
    if (!accept.succeed(connection)) {
      connection.close();
    }
  }

  private void cancelled(Pending<?, ?> accept, boolean close) {
    accepts.kill();
    socket.channel.cancel(accept.activation());
    if (close) {
      close();
    }
  }

  @Override
  public boolean isOpen() {
    return socket.isOpen();
  }

  @Override
  public void close() {
    socket.close();
  }

  @Override
  public SocketAddress getLocalAddress() throws IOException {
    return socket.localAddress();
  }

  @Override
  public <T> AsynchronousServerSocketChannel setOption(SocketOption<T> name, T value)
      throws IOException {
    socket.setOption(name, value);
    return this;
  }

  @Override
  public <T> T getOption(SocketOption<T> name) throws IOException {
    return socket.getOption(name);
  }

  @Override
  public Set<SocketOption<?>> supportedOptions() {
    return socket.supportedOptions();
  }

  @Override
  public String toString() {
    return socket.describe("BatonServerSocketChannel");
  }
}
