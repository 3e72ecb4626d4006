package io.baton.nio2;

import io.baton.ChannelClosedException;
import io.baton.OpAccept;
import io.baton.OpConnect;
import io.baton.OpRead;
import io.baton.OpWrite;
import io.baton.Operation;
import io.baton.OperationTimedOutException;
import java.io.IOException;
import java.net.SocketAddress;
import java.net.SocketOption;
import java.nio.ByteBuffer;
import java.nio.channels.AlreadyConnectedException;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.CompletionHandler;
import java.nio.channels.ConnectionPendingException;
import java.nio.channels.NotYetConnectedException;
import java.nio.channels.ReadPendingException;
import java.nio.channels.WritePendingException;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.LongFunction;
import java.util.function.LongSupplier;

/** A connection of NIO.2 on a channel of Baton. */
final class BatonSocketChannel extends AsynchronousSocketChannel {
  private final Direction<Move<?, ?>> reads = new Direction<>("read", ReadPendingException::new);
  private final Direction<Move<?, ?>> writes = new Direction<>("write", WritePendingException::new);
  private final Direction<Pending<Void, ?>> connects =
      new Direction<>("connect", ConnectionPendingException::new);
  private final Move.Spare spareRead = new Move.Spare();
  private final Move.Spare spareWrite = new Move.Spare();
  private volatile boolean connected;

  /** The last read filled its buffer, so that the next one need not wait for the lane. */
  private volatile boolean mayHaveArrived = true;

  /** Why the channel is closing, or null. For the lane's thread. */
  private Throwable connectFailure;

  private final Connection socket;

  private final class Connection extends GroupSocket {
    Connection(Group group, Opener opener) throws IOException {
      super(group, opener);
    }

    @Override
    public void onReadCompleted(OpRead opRead) {
      boolean atEnd = opRead.getError() == null && opRead.getBytesCompleted() == 0;
      moved(reads, opRead, atEnd);
    }

    @Override
    public void onWriteCompleted(OpWrite opWrite) {
      // Without a buffer it is the end of output. If that failed, the next operation fails.
      if (opWrite.getBuffer() != null) {
        moved(writes, opWrite, false);
      }
    }

    @Override
    public void onConnectCompleted(OpConnect opConnect) {
      connectDone(opConnect.getError());
    }

    @Override
    void freed() {
      if (connectFailure != null) {
        connects.end().fail(connectFailure);
      }
    }
  }

  private BatonSocketChannel(Group group, GroupSocket.Opener opener, boolean connected)
      throws IOException {
    super(group.provider());
    this.connected = connected;
    socket = new Connection(group, opener);
  }

  static BatonSocketChannel open(Group group) throws IOException {
    return new BatonSocketChannel(group, group.demultiplexor()::openStream, false);
  }

  /** Takes the connection of an accept. */
  static BatonSocketChannel accepted(Group group, OpAccept opAccept) throws IOException {
    return new BatonSocketChannel(group, opAccept::open, true);
  }

  // -- connecting --------------------------------------------------------------------------------

  @Override
  public AsynchronousSocketChannel bind(SocketAddress local) throws IOException {
    if (local != null) {
      Check.address(local, "local");
    }
    socket.checkOpen();
    if (connects.isPending()) {
      throw new ConnectionPendingException();
    }
    socket.bind(local, 0);
    return this;
  }

  @Override
  public <A> void connect(
      SocketAddress remote, A attachment, CompletionHandler<Void, ? super A> handler) {
    connect(remote, new Pending<>(socket.group, attachment, handler));
  }

  @Override
  public Future<Void> connect(SocketAddress remote) {
    Pending<Void, Void> connect = new Pending<>(socket.group, this::connectCancelled);
    connect(remote, connect);
    return connect.future();
  }

  private void connect(SocketAddress remote, Pending<Void, ?> connect) {
    if (!isOpen()) {
      connect.fail(new ClosedChannelException());
      return;
    }
    Check.address(remote, "remote");
    if (connected) {
      throw new AlreadyConnectedException();
    }
    LongSupplier starter = () -> socket.channel.connect(remote);
    connects.begin(connect);
    connects.start(connect, starter);
  }

  private void connectDone(Throwable error) {
    if (error == null) {
      connected = true;
      connects.end().succeed(null);
    } else if (connects.isCancelled()) {
      connects.end().fail(error);
    } else {
      // As NIO.2 says, a failure closes the channel: the program may use its port again.
      connectFailure = error;
      close();
    }
  }

  private void connectCancelled(Pending<?, ?> connect, boolean close) {
    connects.kill();
    reads.kill();
    writes.kill();
    cancel(connect, close);
  }

  // -- reading -----------------------------------------------------------------------------------

  @Override
  public <A> void read(
      ByteBuffer dst,
      long timeout,
      TimeUnit unit,
      A attachment,
      CompletionHandler<Integer, ? super A> handler) {
    Move<Integer, A> read = move(spareRead, attachment, handler, Move.ONE_BUFFER);
    Check.writable(dst, "dst");
    read(read.into(dst), nanoseconds(timeout, unit));
  }

  @Override
  public Future<Integer> read(ByteBuffer dst) {
    Check.writable(dst, "dst");
    Move<Integer, Void> read = new Move<>(socket.group, this::readCancelled, Move.ONE_BUFFER);
    return read(read.into(dst), 0);
  }

  @Override
  public <A> void read(
      ByteBuffer[] dsts,
      int offset,
      int length,
      long timeout,
      TimeUnit unit,
      A attachment,
      CompletionHandler<Long, ? super A> handler) {
    Move<Long, A> read = move(spareRead, attachment, handler, Move.BUFFERS);
    ByteBuffer[] part = Check.part(dsts, offset, length, "dsts");
    for (int i = 0; i < length; i++) {
      Check.writable(part[i], "dsts[" + (offset + i) + "]");
    }
    read(read.into(part), nanoseconds(timeout, unit));
  }

  private <V> Future<V> read(Move<V, ?> read, long timeout) {
    if (!isOpen()) {
      read.fail(new ClosedChannelException());
      return read.future();
    }
    if (!connected) {
      throw new NotYetConnectedException();
    }
    // Before it takes the place, which it would keep if there were no memory for this.
    LongSupplier starter = timeout > 0 ? startOfRead(read, timeout) : startOfRead(read);
    reads.begin(read);
    if (reads.isShutdown() || read.lent() == null) {
      reads.end();
      read.doneAtOnce(reads.isShutdown() ? -1 : 0);
    } else {
      start(reads, read, starter);
    }
    return read.future();
  }

  private LongSupplier startOfRead(Move<?, ?> read) {
    return () -> socket.channel.read(read.lent());
  }

  private LongSupplier startOfRead(Move<?, ?> read, long timeout) {
    Duration time = Duration.ofNanos(timeout);
    return () -> socket.channel.read(read.lent(), time);
  }

  private void readCancelled(Pending<?, ?> read, boolean close) {
    reads.kill();
    cancel(read, close);
  }

  // -- writing -----------------------------------------------------------------------------------

  @Override
  public <A> void write(
      ByteBuffer src,
      long timeout,
      TimeUnit unit,
      A attachment,
      CompletionHandler<Integer, ? super A> handler) {
    Move<Integer, A> write = move(spareWrite, attachment, handler, Move.ONE_BUFFER);
    Check.notNull(src, "src");
    long time = nanoseconds(timeout, unit);
    write(write.from(src, time > 0), time);
  }

  @Override
  public Future<Integer> write(ByteBuffer src) {
    Check.notNull(src, "src");
    Move<Integer, Void> write = new Move<>(socket.group, this::writeCancelled, Move.ONE_BUFFER);
    return write(write.from(src, false), 0);
  }

  @Override
  public <A> void write(
      ByteBuffer[] srcs,
      int offset,
      int length,
      long timeout,
      TimeUnit unit,
      A attachment,
      CompletionHandler<Long, ? super A> handler) {
    Move<Long, A> write = move(spareWrite, attachment, handler, Move.BUFFERS);
    ByteBuffer[] part = Check.part(srcs, offset, length, "srcs");
    write(write.from(part), nanoseconds(timeout, unit));
  }

  private <V> Future<V> write(Move<V, ?> write, long timeout) {
    if (!isOpen()) {
      write.fail(new ClosedChannelException());
      return write.future();
    }
    if (!connected) {
      throw new NotYetConnectedException();
    }
    LongSupplier starter = timeout > 0 ? startOfWrite(write, timeout) : startOfWrite(write);
    writes.begin(write);
    if (writes.isShutdown()) {
      writes.end();
      write.fail(new ClosedChannelException());
    } else if (write.lent() == null) {
      writes.end();
      write.doneAtOnce(0);
    } else {
      start(writes, write, starter);
    }
    return write.future();
  }

  private LongSupplier startOfWrite(Move<?, ?> write) {
    return () -> socket.channel.write(write.lent());
  }

  private LongSupplier startOfWrite(Move<?, ?> write, long timeout) {
    Duration time = Duration.ofNanos(timeout);
    return () -> socket.channel.write(write.lent(), time);
  }

  private void writeCancelled(Pending<?, ?> write, boolean close) {
    writes.kill();
    cancel(write, close);
  }

  // -- both --------------------------------------------------------------------------------------

  private <V, A> Move<V, A> move(
      Move.Spare spare,
      A attachment,
      CompletionHandler<V, ? super A> handler,
      LongFunction<V> result) {
    return socket.group.handlers().isLane()
        ? spare.take(socket.group, attachment, handler, result)
        : new Move<>(socket.group, attachment, handler, result);
  }

  private static long nanoseconds(long timeout, TimeUnit unit) {
    Check.notNull(unit, "unit");
    return unit.toNanos(timeout);
  }

  private void start(Direction<Move<?, ?>> direction, Move<?, ?> move, LongSupplier starter) {
    if (!socket.group.handlers().isLane() && movedHere(direction, move)) {
      return;
    }
    try {
      direction.start(move, starter);
    } catch (RuntimeException | Error e) {
      if (!move.isBegun()) {
        throw e;
      }
      // The bytes that are on their way count, and the next write may find what this one did not.
      move.done(0, null, false);
    }
  }

  /**
   * Moves what can be moved on this thread: the way to the lane and back is two changes of threads.
   * True if that was the whole operation.
   */
  private boolean movedHere(Direction<Move<?, ?>> direction, Move<?, ?> move) {
    int bytes = 0;
    IOException error = null;
    try {
      if (direction == writes) {
        bytes = socket.channel.tryWrite(move.lent());
      } else if (mayHaveArrived) {
        bytes = socket.channel.tryRead(move.lent());
      }
    } catch (IOException e) {
      error = e;
    } catch (RuntimeException | Error e) {
      direction.end();
      throw e;
    }
    boolean isPart = direction == writes ? move.lent().hasRemaining() : bytes == 0;
    if (isPart && error == null) {
      move.begun(bytes);
      return false;
    }
    done(direction, Math.max(bytes, 0), error, bytes < 0);
    return true;
  }

  private void moved(Direction<Move<?, ?>> direction, Operation operation, boolean atEnd) {
    Throwable error = operation.getError();
    if (error instanceof OperationTimedOutException) {
      direction.kill();
    }
    done(direction, operation.getBytesCompleted(), error, atEnd);
  }

  private void done(Direction<Move<?, ?>> direction, long bytes, Throwable error, boolean atEnd) {
    Move<?, ?> move = direction.end();
    if (direction == reads) {
      mayHaveArrived = move.isFilledBy(bytes);
    }
    move.done(bytes, error, atEnd);
  }

  private void cancel(Pending<?, ?> operation, boolean close) {
    socket.channel.cancel(operation.activation());
    if (close) {
      close();
    }
  }

  // -- the socket --------------------------------------------------------------------------------

  @Override
  public AsynchronousSocketChannel shutdownInput() throws IOException {
    checkConnected();
    reads.shutdown();
    socket.channel.shutdownInput();
    return this;
  }

  @Override
  public AsynchronousSocketChannel shutdownOutput() throws IOException {
    checkConnected();
    if (!writes.isShutdown()) {
      writes.shutdown();
      try {
        socket.channel.shutdownOutput();
      } catch (ChannelClosedException e) {
        // Another thread has closed it since the check.
        throw new ClosedChannelException();
      }
    }
    return this;
  }

  private void checkConnected() throws IOException {
    socket.checkOpen();
    if (!connected) {
      throw new NotYetConnectedException();
    }
  }

  @Override
  public SocketAddress getRemoteAddress() throws IOException {
    socket.checkOpen();
    return connected ? socket.channel.getRemoteAddress() : null;
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
  public <T> AsynchronousSocketChannel setOption(SocketOption<T> name, T value) throws IOException {
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
    return socket.describe("BatonSocketChannel");
  }
}
