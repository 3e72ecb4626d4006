package io.baton;

import io.baton.spi.Endpoint;
import java.io.IOException;
import java.net.SocketAddress;
import java.net.SocketOption;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.SelectableChannel;
import java.nio.channels.UnsupportedAddressTypeException;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * A connection, a listener, a datagram socket or a file whose operations complete by a handler.
 *
 * <p><b>Threads:</b> every method may be called by any thread, and from inside handlers. The
 * channel belongs to one lane of its Demultiplexor for its whole life, and that lane calls the
 * handler, one method at a time. No handler is called inside a start.
 *
 * <p><b>Ownership:</b> the channel that the constructor is given is the library's, and so is a
 * buffer from the start of its operation until the handler is called for it, also after {@link
 * #cancel} and {@link #close}.
 *
 * <p><b>Order:</b> reads and writes of a stream are done in the order of their starts, one of each
 * direction at a time, and independently of each other. Datagrams keep their boundaries. File
 * operations with a position have no order.
 *
 * <p><b>Starts</b> return a number for {@link #cancel}. They throw, and start nothing, only for
 * what is decided at once: a bad argument, an operation that this kind of channel does not have
 * ({@link UnsupportedOperationException}), a closed channel ({@link ChannelClosedException}), a
 * limit ({@link LimitReachedException}). All other errors are in {@link Operation#getError}.
 *
 * <p>Deadlines: an operation that is not done in time completes with {@link
 * OperationTimedOutException}. Bytes that it has read are in its buffer, and lost to the next read.
 */
public final class AsynchChannel implements AutoCloseable {
  final ChannelCore core;
  private final Demultiplexor demultiplexor;
  // Guarded by this.
  private CompletableFuture<Void> closed;
  private boolean isClosed;

  /**
   * Takes over a socket, a listener or a datagram channel of {@code java.nio}.
   *
   * @param demultiplexor whose threads will call the handler
   * @param handler called for every completion
   * @param channel made non-blocking; the library closes it
   * @throws IOException if it is closed
   * @throws IllegalArgumentException if the engine cannot use it; the message says what to do
   * @throws StoppedException if the Demultiplexor stops; the channel is the caller's then
   */
  public AsynchChannel(
      Demultiplexor demultiplexor, AsynchHandler handler, SelectableChannel channel)
      throws IOException {
    this(demultiplexor, handler, adopt(demultiplexor, handler, channel));
  }

  /**
   * Takes over a file. Blocking work is done by threads of the Demultiplexor that are not lanes.
   *
   * @param demultiplexor whose threads will call the handler
   * @param handler called for every completion
   * @param channel the library closes it
   * @throws StoppedException if the Demultiplexor stops; the channel is the caller's then
   */
  public AsynchChannel(Demultiplexor demultiplexor, AsynchHandler handler, FileChannel channel) {
    Check.notNull(demultiplexor, "demultiplexor");
    Check.notNull(handler, "handler");
    Check.notNull(channel, "channel");
    this.demultiplexor = demultiplexor;
    FileAccess file = new FileAccess(channel, demultiplexor.fileWorkers());
    core = new ChannelCore(this, handler, demultiplexor.nextLane(), null, file);
    demultiplexor.register(core);
  }

  AsynchChannel(Demultiplexor demultiplexor, AsynchHandler handler, Endpoint endpoint) {
    this.demultiplexor = demultiplexor;
    core = new ChannelCore(this, handler, demultiplexor.nextLane(), endpoint, null);
    demultiplexor.register(core);
  }

  private static Endpoint adopt(
      Demultiplexor demultiplexor, AsynchHandler handler, SelectableChannel channel)
      throws IOException {
    Check.notNull(demultiplexor, "demultiplexor");
    Check.notNull(handler, "handler");
    Check.notNull(channel, "channel");
    return demultiplexor.engineForCalls().adopt(channel);
  }

  // -- reading -----------------------------------------------------------------------------------

  /**
   * Reads the available bytes, at least one: {@link AsynchHandler#onReadCompleted}. 0 bytes without
   * an error are the end of the stream or file. A datagram is one read; what does not fit is lost.
   *
   * @param buffer filled from its position up to its limit; given to the handler ready to be taken
   *     from
   * @return number of the operation
   */
  public long read(ByteBuffer buffer) {
    Check.writable(buffer, "buffer");
    return startRead(buffer, OpRead.Until.SOMETHING, null, -1, 0, null);
  }

  /**
   * {@link #read(ByteBuffer)} with a deadline.
   *
   * @param buffer to read into
   * @param timeout positive
   * @return number of the operation
   */
  public long read(ByteBuffer buffer, Duration timeout) {
    Check.writable(buffer, "buffer");
    long time = Check.positive(timeout, "timeout");
    return startRead(buffer, OpRead.Until.SOMETHING, null, -1, time, null);
  }

  /**
   * Reads at a position of a file, at least one byte unless it is beyond the end.
   *
   * @param buffer to read into
   * @param position in the file, 0 or more
   * @return number of the operation
   */
  public long read(ByteBuffer buffer, long position) {
    checkReadAt(buffer, position);
    return startRead(buffer, OpRead.Until.SOMETHING, null, position, 0, null);
  }

  /**
   * Reads until the buffer is full. If the stream ends before, the error is an {@link
   * java.io.EOFException}.
   *
   * @param buffer filled from its position up to its limit
   * @return number of the operation
   */
  public long readExactly(ByteBuffer buffer) {
    Check.writable(buffer, "buffer");
    return startRead(buffer, OpRead.Until.FULL, null, -1, 0, null);
  }

  /**
   * {@link #readExactly(ByteBuffer)} with a deadline.
   *
   * @param buffer to fill
   * @param timeout positive
   * @return number of the operation
   */
  public long readExactly(ByteBuffer buffer, Duration timeout) {
    Check.writable(buffer, "buffer");
    long time = Check.positive(timeout, "timeout");
    return startRead(buffer, OpRead.Until.FULL, null, -1, time, null);
  }

  /**
   * Reads until the delimiter is in the buffer; {@link OpRead#getDelimiterEnd} says where it ends.
   * Behind it there may be more: take the line out, {@code compact()} the buffer, and read again. A
   * full buffer without it is a {@link DelimiterNotFoundException}, an early end of the stream an
   * {@link java.io.EOFException}.
   *
   * @param buffer bytes before its position are data already, and are searched, too
   * @param delimiter one byte or more
   * @return number of the operation
   */
  public long readUntil(ByteBuffer buffer, byte[] delimiter) {
    checkUntil(buffer, delimiter);
    return startRead(buffer, OpRead.Until.DELIMITER, delimiter.clone(), -1, 0, null);
  }

  /**
   * {@link #readUntil(ByteBuffer, byte[])} with a deadline.
   *
   * @param buffer to read into
   * @param delimiter one byte or more
   * @param timeout positive
   * @return number of the operation
   */
  public long readUntil(ByteBuffer buffer, byte[] delimiter, Duration timeout) {
    checkUntil(buffer, delimiter);
    long time = Check.positive(timeout, "timeout");
    return startRead(buffer, OpRead.Until.DELIMITER, delimiter.clone(), -1, time, null);
  }

  /**
   * Reads into a block of the lane's pool that is taken only when data is there, so that an idle
   * channel holds no memory. When all blocks are in use the read waits for one. The block goes back
   * when the handler returns, unless the handler calls {@link OpRead#takePooled}.
   *
   * @return number of the operation
   */
  public long readPooled() {
    checkPooled();
    return startRead(null, OpRead.Until.SOMETHING, null, -1, 0, null);
  }

  /**
   * {@link #readPooled()} with a deadline.
   *
   * @param timeout positive
   * @return number of the operation
   */
  public long readPooled(Duration timeout) {
    long time = Check.positive(timeout, "timeout");
    checkPooled();
    return startRead(null, OpRead.Until.SOMETHING, null, -1, time, null);
  }

  /**
   * Reads what has arrived at a stream already, on the calling thread. A read of a thread that is
   * no lane has to wait for the channel's lane, which may be busy; this does not.
   *
   * @param buffer filled from its position on, which moves behind the last byte; not flipped
   * @return number of bytes; -1 at the end of the stream; 0 if nothing was done: nothing has
   *     arrived, reads are pending, the stream is not connected or closed, it has ended while a
   *     write was pending, or the engine leaves reads to its lanes. Then start {@link
   *     #read(ByteBuffer)}, which tells or waits.
   * @throws IOException if the stream is broken
   */
  public int tryRead(ByteBuffer buffer) throws IOException {
    Check.writable(buffer, "buffer");
    need(is(Endpoint.Kind.STREAM), "tryRead", "a stream");
    checkForEngine(buffer);
    return mayTry(core.reads) ? core.tryMove(core.reads, buffer) : 0;
  }

  // -- writing -----------------------------------------------------------------------------------

  /**
   * Writes a whole buffer: {@link AsynchHandler#onWriteCompleted}. Behind other writes it waits its
   * turn; the queue has a bound in bytes and one in operations.
   *
   * @param buffer written from its position up to its limit; may be empty for an empty datagram
   * @return number of the operation
   */
  public long write(ByteBuffer buffer) {
    checkWrite(buffer);
    return startWrite(buffer, null, null, -1, 0, null);
  }

  /**
   * {@link #write(ByteBuffer)} with a deadline.
   *
   * @param buffer to write
   * @param timeout positive
   * @return number of the operation
   */
  public long write(ByteBuffer buffer, Duration timeout) {
    checkWrite(buffer);
    return startWrite(buffer, null, null, -1, Check.positive(timeout, "timeout"), null);
  }

  /**
   * Writes at a position of a file. Linux appends to a file that is opened for appending, whatever
   * the position.
   *
   * @param buffer to write
   * @param position in the file, 0 or more
   * @return number of the operation
   */
  public long write(ByteBuffer buffer, long position) {
    checkWriteAt(buffer, position);
    return startWrite(buffer, null, null, position, 0, null);
  }

  /**
   * Sends one datagram.
   *
   * @param buffer may be empty, for an empty datagram
   * @param remote where to
   * @return number of the operation
   */
  public long write(ByteBuffer buffer, SocketAddress remote) {
    checkWriteTo(buffer, remote);
    return startWrite(buffer, null, remote, -1, 0, null);
  }

  /**
   * Writes a block of a pool, and gives it back to its pool when the write completes.
   *
   * @param block the library's from now on; the caller's if this throws
   * @return number of the operation
   */
  public long write(PooledBuffer block) {
    return startWrite(block, null);
  }

  /**
   * Writes what a stream takes now, on the calling thread; see {@link #tryRead}. Another thread
   * that writes at the same time may write between these bytes and the rest.
   *
   * @param buffer written from its position on, which moves behind the last byte
   * @return number of bytes, perhaps not all of them; 0 if nothing was done: the stream takes none
   *     now, writes are pending, the stream is not connected or closed, or the engine leaves writes
   *     to its lanes. Start {@link #write(ByteBuffer)} for the rest, which tells or waits.
   * @throws IOException if the stream is broken
   */
  public int tryWrite(ByteBuffer buffer) throws IOException {
    Check.readable(buffer, "buffer");
    need(is(Endpoint.Kind.STREAM), "tryWrite", "a stream");
    checkForEngine(buffer);
    return mayTry(core.writes) && !core.outputEnded ? core.tryMove(core.writes, buffer) : 0;
  }

  /**
   * Ends the sending half of a stream, after the writes that were started before. Completes by
   * {@link AsynchHandler#onWriteCompleted} without a buffer.
   *
   * @return number of the operation
   */
  public long shutdownOutput() {
    return startShutdownOutput(null);
  }

  /**
   * Writes a file's data to the device, after all writes that were started before. Completes by
   * {@link AsynchHandler#onWriteCompleted} without a buffer.
   *
   * @return number of the operation
   */
  public long sync() {
    return startSync(null);
  }

  // -- connections -------------------------------------------------------------------------------

  /**
   * Waits for a connection: {@link AsynchHandler#onAcceptCompleted}. Lack of descriptors or memory
   * does not end it: it is tried again until it succeeds.
   *
   * @return number of the operation
   */
  public long accept() {
    return startAccept(null);
  }

  /**
   * Takes a connection that waits already, on the calling thread. An accept of a thread that is no
   * lane has to wait for the lane of the listener, which may be busy; this does not.
   *
   * @param taker is called inside, with what {@link AsynchHandler#onAcceptCompleted} would get; a
   *     connection that it does not take is closed
   * @return false if nothing was done: no connection waits, accepts are pending, the channel is
   *     closed, or the system refuses. Then start {@link #accept}, which tells or waits.
   */
  public boolean tryAccept(Consumer<OpAccept> taker) {
    Check.notNull(taker, "taker");
    need(is(Endpoint.Kind.LISTENER), "tryAccept", "a listener");
    if (!isOpen() || core.admission.pending() > 0) {
      return false;
    }
    OpAccept accept = new OpAccept(this);
    try {
      accept.connection = core.endpoint.tryAccept();
    } catch (IOException | RuntimeException e) {
      // The accept that follows gets it, too, or makes up for it.
      return false;
    }
    if (accept.connection == null) {
      return false;
    }
    try {
      taker.accept(accept);
    } finally {
      accept.recycle();
    }
    return true;
  }

  /**
   * Connects a stream: {@link AsynchHandler#onConnectCompleted}. Reads and writes may be started at
   * once; they wait for it. A channel whose connect has failed, was cancelled or was late can only
   * be closed: its operations fail by a {@link java.nio.channels.ClosedChannelException}.
   *
   * @param remote the peer's address
   * @return number of the operation
   */
  public long connect(SocketAddress remote) {
    return startConnect(remote, 0, null);
  }

  /**
   * {@link #connect(SocketAddress)} with a deadline.
   *
   * @param remote the peer's address
   * @param timeout positive
   * @return number of the operation
   */
  public long connect(SocketAddress remote, Duration timeout) {
    return startConnect(remote, Check.positive(timeout, "timeout"), null);
  }

  // -- time, cancellation, end -------------------------------------------------------------------

  /**
   * Calls {@link AsynchHandler#onTimeout} after a while, once. {@link #cancel} ends it early; it
   * then completes with an error.
   *
   * @param delay 0 or more
   * @return number of the operation
   */
  public long startTimer(Duration delay) {
    return startTimer(delay, null);
  }

  /**
   * Calls {@link AsynchHandler#onTimeout} whenever nothing was read for a while, counted from now
   * and from the last byte. Waiting for the program to read counts as idle, too. Without effect on
   * a closed channel.
   *
   * @param time 0 for never, which is the default
   */
  public void setReadIdleTimeout(Duration time) {
    setIdle(core.reads, OpTimeout.Kind.READ_IDLE, Check.notNegative(time, "time"));
  }

  /**
   * Calls {@link AsynchHandler#onTimeout} whenever nothing was written for a while. Without effect
   * on a closed channel.
   *
   * @param time 0 for never, which is the default
   */
  public void setWriteIdleTimeout(Duration time) {
    setIdle(core.writes, OpTimeout.Kind.WRITE_IDLE, Check.notNegative(time, "time"));
  }

  /**
   * Runs something on the channel's lane, so never beside its handler.
   *
   * @param action its exceptions go to the Demultiplexor's exception handler
   * @throws StoppedException if the lane ends or has ended
   */
  public void post(Runnable action) {
    Check.notNull(action, "action");
    if (!core.lane.submit(action)) {
      throw Demultiplexor.stopped("post");
    }
  }

  /**
   * Asks for an early end of an operation. It completes once in any case, and only its completion
   * shows whether this came in time: then its error is an {@link OperationCancelledException}.
   *
   * @param activation the number that the start returned
   * @return true: requested; false: nothing of that number is pending. True may also mean that it
   *     was already complete: on other threads than the lane's, and on the lane's while a start of
   *     another thread has not reached it.
   */
  public boolean cancel(long activation) {
    return core.cancel(activation);
  }

  /**
   * Refuses new operations, ends the pending ones by {@link
   * java.nio.channels.AsynchronousCloseException}, closes the socket or file, and calls {@link
   * AsynchHandler#onClosed} last. Does not wait. Only the first close counts.
   */
  @Override
  public void close() {
    core.close(CloseReason.REQUESTED, null);
  }

  /**
   * Whether operations may be started.
   *
   * @return false from the first close on
   */
  public boolean isOpen() {
    return core.admission.isOpen();
  }

  /**
   * Bytes of writes that are started and not complete, for programs that slow down before the bound
   * refuses a write.
   *
   * @return as of now
   */
  public long getQueuedBytes() {
    return core.admission.queuedBytes();
  }

  /**
   * The same operations with futures.
   *
   * @return a new view of this channel
   */
  public AsynchFutures futures() {
    return new AsynchFutures(this);
  }

  /**
   * The demultiplexor whose threads serve this channel.
   *
   * @return never null
   */
  public Demultiplexor getDemultiplexor() {
    return demultiplexor;
  }

  // -- the socket --------------------------------------------------------------------------------

  /**
   * Binds the socket. A listener begins to listen.
   *
   * @param local null: any address and a free port
   * @throws IOException if the system refuses
   */
  public void bind(SocketAddress local) throws IOException {
    bind(local, 0);
  }

  /**
   * Binds the socket. A listener begins to listen.
   *
   * @param local null: any address and a free port
   * @param backlog connections that may wait for an accept; 0: as many as the system allows
   * @throws IOException if the system refuses
   */
  public void bind(SocketAddress local, int backlog) throws IOException {
    if (local != null) {
      Check.address(local, "local");
    }
    Check.inRange(backlog, 0, Integer.MAX_VALUE, "backlog");
    try {
      socket("bind").bind(local, backlog);
    } catch (UnsupportedAddressTypeException e) {
      throw Check.wrongAddress(local, "local", e);
    }
  }

  /**
   * Fixes the peer of a datagram channel. Do so before the first read.
   *
   * @param remote the only address to send to and receive from
   * @throws IOException if the system refuses
   */
  public void connectDatagram(SocketAddress remote) throws IOException {
    Check.address(remote, "remote");
    need(is(Endpoint.Kind.DATAGRAM), "connectDatagram", "a datagram channel");
    try {
      core.endpoint.connectDatagram(remote);
    } catch (UnsupportedAddressTypeException e) {
      throw Check.wrongAddress(remote, "remote", e);
    }
  }

  /**
   * Refuses later bytes of the peer; reads return the end of the stream.
   *
   * @throws IOException if the system refuses
   */
  public void shutdownInput() throws IOException {
    need(is(Endpoint.Kind.STREAM), "shutdownInput", "a stream");
    core.endpoint.shutdownInput();
  }

  /**
   * The local address.
   *
   * @return null if not bound
   * @throws IOException if closed
   */
  public SocketAddress getLocalAddress() throws IOException {
    return socket("getLocalAddress").localAddress();
  }

  /**
   * The peer's address. That of a connect has the name of the host that the program gave it.
   *
   * @return null if not connected
   * @throws IOException if closed
   */
  public SocketAddress getRemoteAddress() throws IOException {
    return socket("getRemoteAddress").remoteAddress();
  }

  /**
   * Sets an option of the socket.
   *
   * @param <T> type of the value
   * @param option one of {@link #supportedOptions}
   * @param value as the option defines it
   * @throws IOException if the system refuses
   */
  public <T> void setOption(SocketOption<T> option, T value) throws IOException {
    Check.notNull(option, "option");
    socket("setOption").setOption(option, value);
  }

  /**
   * Reads an option of the socket.
   *
   * @param <T> type of the value
   * @param option one of {@link #supportedOptions}
   * @return its value
   * @throws IOException if the system refuses
   */
  public <T> T getOption(SocketOption<T> option) throws IOException {
    Check.notNull(option, "option");
    return socket("getOption").getOption(option);
  }

  /**
   * The options of this socket.
   *
   * @return not modifiable
   */
  public Set<SocketOption<?>> supportedOptions() {
    return socket("supportedOptions").supportedOptions();
  }

  // -- inside ------------------------------------------------------------------------------------

  void checkUntil(ByteBuffer buffer, byte[] delimiter) {
    Check.notReadOnly(buffer, "buffer");
    Check.notNull(delimiter, "delimiter");
    if (delimiter.length == 0) {
      throw new IllegalArgumentException("delimiter: is empty");
    }
    if (buffer.limit() == 0) {
      throw new IllegalArgumentException("buffer: has no room to read into: its limit is 0");
    }
    need(is(Endpoint.Kind.STREAM) || core.file != null, "readUntil", "a stream or a file");
  }

  void checkReadAt(ByteBuffer buffer, long position) {
    Check.writable(buffer, "buffer");
    Check.inRange(position, 0, Long.MAX_VALUE, "position");
    need(core.file != null, "read at a position", "a file");
  }

  void checkWriteAt(ByteBuffer buffer, long position) {
    Check.readable(buffer, "buffer");
    Check.inRange(position, 0, Long.MAX_VALUE, "position");
    need(core.file != null, "write at a position", "a file");
  }

  void checkReceive(ByteBuffer buffer) {
    Check.writable(buffer, "buffer");
    need(is(Endpoint.Kind.DATAGRAM), "receive", "a datagram channel");
  }

  void checkWrite(ByteBuffer buffer) {
    if (is(Endpoint.Kind.DATAGRAM)) {
      Check.notNull(buffer, "buffer");
    } else {
      Check.readable(buffer, "buffer");
    }
  }

  void checkWriteTo(ByteBuffer buffer, SocketAddress remote) {
    Check.notNull(buffer, "buffer");
    Check.address(remote, "remote");
    need(is(Endpoint.Kind.DATAGRAM), "write to an address", "a datagram channel");
  }

  void checkPooled() {
    need(core.file == null, "readPooled", "a socket");
  }

  long startRead(
      ByteBuffer buffer,
      OpRead.Until until,
      byte[] delimiter,
      long position,
      long timeout,
      OperationFuture<?> future) {
    need(!is(Endpoint.Kind.LISTENER), "read", "a stream, a datagram channel or a file");
    if (buffer != null) {
      checkForEngine(buffer);
    }
    OpRead read = core.reads.cache.take(core.lane.isCurrent());
    if (read == null) {
      read = new OpRead(this);
      read.startedOutside = !core.lane.isCurrent();
    }
    read.buffer = buffer;
    read.begin = buffer == null ? 0 : buffer.position();
    read.pooled = buffer == null;
    read.until = until;
    read.delimiter = delimiter;
    read.position = position;
    read.future = future;
    return core.start(read, timeout);
  }

  long startWrite(
      ByteBuffer buffer,
      PooledBuffer block,
      SocketAddress address,
      long position,
      long timeout,
      OperationFuture<?> future) {
    need(!is(Endpoint.Kind.LISTENER), "write", "a stream, a datagram channel or a file");
    checkForEngine(buffer);
    long bytes = buffer.remaining();
    OpWrite write = newWrite(OpWrite.What.BYTES);
    write.buffer = buffer;
    write.block = block;
    write.address = address;
    write.position = position;
    write.charge = bytes;
    write.future = future;
    core.admission.claimBytes(bytes);
    try {
      return core.start(write, timeout);
    } catch (RuntimeException | Error e) {
      // No call: the stack may be at its end.
      synchronized (core.admission) {
        core.admission.unclaimedBytes += bytes;
      }
      throw e;
    }
  }

  long startWrite(PooledBuffer block, OperationFuture<?> future) {
    Check.notNull(block, "block");
    block.lend();
    try {
      Check.readable(block.getBuffer(), "block");
      return startWrite(block.getBuffer(), block, null, -1, 0, future);
    } catch (RuntimeException | Error e) {
      block.takeBack();
      throw e;
    }
  }

  long startShutdownOutput(OperationFuture<?> future) {
    need(is(Endpoint.Kind.STREAM), "shutdownOutput", "a stream");
    return startWithoutBuffer(OpWrite.What.END_OF_OUTPUT, future);
  }

  long startSync(OperationFuture<?> future) {
    need(core.file != null, "sync", "a file");
    return startWithoutBuffer(OpWrite.What.SYNC, future);
  }

  private long startWithoutBuffer(OpWrite.What what, OperationFuture<?> future) {
    OpWrite write = newWrite(what);
    write.future = future;
    return core.start(write, 0);
  }

  long startTimer(Duration delay, OperationFuture<?> future) {
    // Nanosecond 0 would mean that there is no deadline.
    long time = Math.max(1, Check.notNegative(delay, "delay"));
    OpTimeout timer = new OpTimeout(this, OpTimeout.Kind.TIMER);
    timer.future = future;
    return core.start(timer, time);
  }

  private OpWrite newWrite(OpWrite.What what) {
    OpWrite write = core.writes.cache.take(core.lane.isCurrent());
    if (write == null) {
      write = new OpWrite(this);
      write.startedOutside = !core.lane.isCurrent();
    }
    write.what = what;
    return write;
  }

  long startAccept(OperationFuture<?> future) {
    need(is(Endpoint.Kind.LISTENER), "accept", "a listener");
    OpAccept accept = new OpAccept(this);
    accept.future = future;
    return core.start(accept, 0);
  }

  long startConnect(SocketAddress remote, long timeout, OperationFuture<?> future) {
    Check.address(remote, "remote");
    need(is(Endpoint.Kind.STREAM), "connect", "a stream");
    OpConnect connect = new OpConnect(this);
    connect.address = remote;
    connect.future = future;
    return core.start(connect, timeout);
  }

  /** Complete when the channel is closed. */
  synchronized CompletableFuture<Void> closedFuture() {
    if (closed == null) {
      closed = new CompletableFuture<>();
      if (isClosed) {
        closed.complete(null);
      }
    }
    return closed;
  }

  /** The future that a program has asked for, or null. */
  private synchronized CompletableFuture<Void> markClosed() {
    isClosed = true;
    return closed;
  }

  /** The last handler has returned. */
  void closed() {
    CompletableFuture<Void> asked = markClosed();
    try {
      if (asked != null) {
        asked.complete(null);
      }
    } finally {
      demultiplexor.channelClosed();
    }
  }

  private void setIdle(Side<?> side, OpTimeout.Kind kind, long time) {
    if (core.lane.isCurrent()) {
      core.setIdle(side, kind, time);
    } else {
      core.lane.submit(() -> core.setIdle(side, kind, time));
    }
  }

  private boolean mayTry(Side<?> side) {
    return isOpen() && side.isIdle() && core.endpoint.isConnected();
  }

  boolean is(Endpoint.Kind kind) {
    return core.endpoint != null && core.endpoint.kind() == kind;
  }

  private void checkForEngine(ByteBuffer buffer) {
    if (core.endpoint != null) {
      core.lane.engine().check(buffer);
    }
  }

  private Endpoint socket(String what) {
    need(core.endpoint != null, what, "a socket");
    return core.endpoint;
  }

  private void need(boolean has, String what, String kinds) {
    if (!has) {
      String own = core.endpoint == null ? "file" : core.endpoint.kind().name().toLowerCase();
      throw new UnsupportedOperationException(
          what + " needs " + kinds + ", and this channel is a " + own);
    }
  }
}
