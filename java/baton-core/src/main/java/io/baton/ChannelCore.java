package io.baton;

import io.baton.ChannelTransfer.FileWork;
import io.baton.spi.ChannelEndpoint;
import io.baton.spi.Endpoint;
import io.baton.spi.Transfer;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.UnsupportedAddressTypeException;

/**
 * A channel as its lane sees it: the life of an operation from its start to its handler.
 *
 * <p>Any thread claims a place and hands the operation to the lane; the rest is for the lane's
 * thread. Completed transfers go into the lane's queue, and the handler is called from there, so
 * never inside a start. An operation is in one place at a time: the queue of a side, with the
 * engine (current), alone, or, if it ends without its transfer, in the lane's queue.
 */
final class ChannelCore {
  final AsynchChannel channel;
  final AsynchHandler handler;
  final Lane lane;

  /** Null for a file. */
  final Endpoint endpoint;

  /** Null for everything else. */
  final FileAccess file;

  final Admission admission;
  final Side<OpRead> reads = new Side<>(this);
  final Side<OpWrite> writes = new Side<>(this);

  // Positional file operations and timers: no order among them.
  private final OperationTable alone = new OperationTable();

  // Those in the queues of the sides, to be found by their numbers.
  private final OperationTable queued = new OperationTable();

  // Operations that were begun. Numbers have no gaps: if one has the next number, all that were
  // started before it were begun.
  private long begunCount;

  // Connects that were begun and are not done; reads wait for them, and writes are behind them.
  private int connects;
  // Why the socket can only be closed, or null.
  private Throwable connectFailure;

  volatile boolean outputEnded;
  private final AcceptRetry acceptRetry;
  // Made before it is needed, as the retry: there may be no memory for it then.
  private final OpClose close;
  private OpClose closing;
  private boolean closeStarted;

  // The lane's list of its channels.
  boolean isListed;
  ChannelCore previous;
  ChannelCore following;

  ChannelCore(
      AsynchChannel channel, AsynchHandler handler, Lane lane, Endpoint endpoint, FileAccess file) {
    this.channel = channel;
    this.handler = handler;
    this.lane = lane;
    this.endpoint = endpoint;
    this.file = file;
    admission = new Admission(lane.demultiplexor.settings);
    close = new OpClose(channel);
    acceptRetry = isListener() ? new AcceptRetry(lane, reads.transfer) : null;
  }

  // -- any thread --------------------------------------------------------------------------------

  /**
   * Claims a number for an operation and hands it to the lane. Either this throws and nothing is
   * started, or the operation completes, also if the stack ends behind the claim.
   *
   * @param timeout nanoseconds, 0 for none
   */
  long start(Operation operation, long timeout) {
    operation.hasDeadline = timeout != 0;
    if (timeout != 0) {
      operation.deadline = System.nanoTime() + timeout;
    }
    lane.requireStackToWake();
    long number = claim(sideOf(operation));
    operation.activation = number;
    try {
      if (operation.future != null) {
        operation.future.started(number);
      }
      handOver(operation);
    } catch (StackOverflowError e) {
      // No call has room here.
      synchronized (lane.brokenLock) {
        operation.broken = e;
        operation.nextBroken = lane.broken;
        lane.broken = operation;
      }
    }
    return number;
  }

  /** Without an operation: what the system can move now. */
  int tryMove(Side<?> side, ByteBuffer buffer) throws IOException {
    int end = buffer.limit();
    try {
      ByteBuffer part = ChannelTransfer.shortened(buffer);
      int bytes = side == reads ? tryRead(part) : endpoint.tryWrite(part);
      if (bytes > 0) {
        side.moved();
      }
      return bytes;
    } finally {
      buffer.limit(end);
    }
  }

  /**
   * The system reports a loss once, and an end of the stream after that. A write of the lane that
   * is not settled may be the one that it was reported to: then the lane's read tells which it is.
   * If all are settled, the endpoint knows what they found.
   */
  private int tryRead(ByteBuffer part) throws IOException {
    int bytes = endpoint.tryRead(part);
    if (bytes >= 0) {
      return bytes;
    }
    return writes.isIdle() ? endpoint.tryRead(part) : 0;
  }

  private long claim(Side<?> side) {
    if (side == null) {
      return admission.claim();
    }
    side.started(1);
    try {
      return admission.claim();
    } catch (RuntimeException | Error e) {
      side.started(-1);
      throw e;
    }
  }

  boolean cancel(long activation) {
    return isCancelledHere(activation)
        || mayBeOnItsWay() && lane.submit(requestToCancel(activation));
  }

  /** As the other one, but needs no memory: request is requestToCancel(activation). */
  boolean cancel(long activation, CancelRequest request) {
    return isCancelledHere(activation) || mayBeOnItsWay() && lane.submit(request);
  }

  CancelRequest requestToCancel(long activation) {
    return new CancelRequest(this, activation);
  }

  private boolean isCancelledHere(long activation) {
    return lane.isCurrent() && cancelHere(activation);
  }

  /** To the lane, or on the lane behind an operation of another thread, see mayBegin(). */
  private boolean mayBeOnItsWay() {
    return admission.pending() > 0 && !(lane.isCurrent() && admission.claimed() == begunCount);
  }

  /** Only the first close counts. */
  void close(CloseReason reason, Throwable cause) {
    lane.requireStackToWake();
    if (admission.close()) {
      close.reason = reason;
      close.error = cause;
      try {
        handOver(close);
      } catch (StackOverflowError e) {
        // As in start().
        synchronized (lane.brokenLock) {
          close.broken = e;
          close.nextBroken = lane.broken;
          lane.broken = close;
        }
      }
    }
  }

  private void handOver(Operation operation) {
    if (lane.isCurrent() && operation == close) {
      // Many operations may have to end, and not in the middle of the program's handler.
      lane.ready.add(operation);
    } else if (lane.isCurrent() && mayBegin(operation)) {
      begin(operation);
    } else if (!push(operation)) {
      throw new AssertionError("a lane ended before its channels were closed");
    }
  }

  private boolean push(Operation operation) {
    return file == null && operation instanceof OpRead read && read.needsInput()
        ? lane.pushRead(read, this)
        : lane.push(operation);
  }

  /**
   * Whether nothing that another thread has started before waits in the lane's queues. Otherwise
   * the operation goes behind it. A file's goes there in any case: an executor that broke off for
   * lack of stack would not tell whether it has the work.
   */
  private boolean mayBegin(Operation operation) {
    return file == null && operation.activation == begunCount + 1;
  }

  // -- the lane's thread: from the start to the engine -------------------------------------------

  void begin(Operation operation) {
    if (operation instanceof OpClose one) {
      one.begun = true;
      beginClose(one);
      return;
    }
    begunCount++;
    operation.begun = true;
    if (closing != null) {
      finish(operation, closeError());
      return;
    }
    if (operation.hasDeadline && !hasTimer(operation)) {
      return;
    }
    operation.side = sideOf(operation);
    if (operation.side != null) {
      connects += operation instanceof OpConnect ? 1 : 0;
      if (mayQueue(operation)) {
        operation.side.queue.add(operation);
        startNext(operation.side);
      }
    } else {
      startAlone(operation);
    }
  }

  private void startAlone(Operation operation) {
    boolean isTimer = operation instanceof OpTimeout;
    try {
      if (!isTimer && operation.own == null) {
        operation.own = new ChannelTransfer(this);
      }
      alone.add(operation);
    } catch (OutOfMemoryError e) {
      finish(operation, e);
      return;
    }
    if (!isTimer && !startTransfer(operation, operation.own)) {
      alone.remove(operation);
      finish(operation, operation.error);
    }
  }

  /** Starts the clock. Without memory for that, the operation ends. */
  private boolean hasTimer(Operation operation) {
    try {
      lane.timers.add(operation);
      return true;
    } catch (OutOfMemoryError e) {
      finish(operation, e);
      return false;
    }
  }

  /** Makes it known by its number if it will have to wait. Without memory for that, it ends. */
  private boolean mayQueue(Operation operation) {
    Side<?> side = operation.side;
    if (side.current == null
        && side.queue.isEmpty()
        && !(side == reads && connects > 0)
        && !isSync(operation)) {
      return true;
    }
    try {
      queued.add(operation);
      return true;
    } catch (OutOfMemoryError e) {
      finish(operation, e);
      return false;
    }
  }

  private Side<?> sideOf(Operation operation) {
    if (operation instanceof OpRead read) {
      return read.position < 0 ? reads : null;
    }
    if (operation instanceof OpWrite write) {
      return write.position < 0 ? writes : null;
    }
    return operation instanceof OpTimeout ? null : operation instanceof OpAccept ? reads : writes;
  }

  private void startNext(Side<?> side) {
    while (side.current == null && !side.queue.isEmpty() && !(side == reads && connects > 0)) {
      Operation operation = side.queue.peek();
      if (isSync(operation) && writesBefore(operation.activation)) {
        return;
      }
      side.queue.poll();
      queued.remove(operation);
      side.current = operation;
      side.starting = true;
      side.transfer.isOwed = true;
      if (!startTransfer(operation, side.transfer)) {
        finish(operation, operation.error);
        side.current = null;
      }
      side.starting = false;
    }
  }

  /** The stack ended inside the start of this operation: it goes on, or ends, from here. */
  void mend(Operation operation) {
    StackOverflowError why = operation.broken;
    operation.broken = null;
    if (!operation.begun) {
      // It may have been on its way into the inbox.
      operation.next = null;
      operation.run();
      return;
    }
    // The one that was being given to the engine need not be this one.
    mend(reads, why);
    mend(writes, why);
    Side<?> side = operation.side;
    boolean hasPlace =
        side == null
            ? alone.find(operation.activation) == operation
            : side.current == operation || side.queue.contains(operation);
    if (!operation.settled && !hasPlace) {
      finish(operation, why);
    }
    startNext(reads);
    startNext(writes);
  }

  private void mend(Side<?> side, StackOverflowError why) {
    if (side.starting) {
      side.starting = false;
      side.current.endEarly = why;
      side.transfer.breakOff(why);
    }
  }

  /** False if there is nothing for the engine to do: the operation is done. */
  private boolean startTransfer(Operation operation, ChannelTransfer transfer) {
    try {
      if (!prepareTransfer(operation, transfer)) {
        return false;
      }
    } catch (StackOverflowError e) {
      // See mend().
      throw e;
    } catch (RuntimeException | Error e) {
      // Lack of memory, or a buffer that this thread cannot read.
      operation.error = e;
      return false;
    }
    transfer.start();
    return true;
  }

  private boolean prepareTransfer(Operation operation, ChannelTransfer transfer) {
    if (connectFailure != null) {
      operation.error = new ClosedChannelException().initCause(connectFailure);
      return false;
    }
    if (operation instanceof OpRead read) {
      if (read.isSatisfied()) {
        return false;
      }
      boolean anySender =
          file == null && endpoint.kind() == Endpoint.Kind.DATAGRAM && !endpoint.isConnected();
      transfer.prepare(
          read, FileWork.READ, anySender ? Transfer.Kind.RECEIVE : Transfer.Kind.READ, null);
    } else if (operation instanceof OpWrite write) {
      if (write.what == OpWrite.What.END_OF_OUTPUT) {
        shutdownOutput(write);
        return false;
      }
      if (outputEnded) {
        operation.error = new ClosedChannelException();
        return false;
      }
      if (write.what == OpWrite.What.BYTES && !write.buffer.hasRemaining() && isLostIfEmpty()) {
        operation.error =
            new IOException(
                "java.nio sends no empty datagram on a channel with a fixed peer, and says that it"
                    + " did; send it before connectDatagram, or choose engine=native");
        return false;
      }
      transfer.prepare(
          write,
          isSync(write) ? FileWork.SYNC : FileWork.WRITE,
          write.address == null ? Transfer.Kind.WRITE : Transfer.Kind.SEND,
          write.address);
    } else if (operation instanceof OpConnect connect) {
      transfer.prepare(connect, null, Transfer.Kind.CONNECT, connect.address);
    } else {
      transfer.prepare(operation, null, Transfer.Kind.ACCEPT, null);
    }
    return true;
  }

  private boolean isLostIfEmpty() {
    return endpoint instanceof ChannelEndpoint && endpoint.isConnected();
  }

  private void shutdownOutput(OpWrite write) {
    try {
      endpoint.shutdownOutput();
      outputEnded = true;
    } catch (IOException | RuntimeException e) {
      write.error = e;
    }
  }

  private static boolean isSync(Operation operation) {
    return operation instanceof OpWrite write && write.what == OpWrite.What.SYNC;
  }

  /** Whether positional writes are in flight that were started before this number. */
  private boolean writesBefore(long activation) {
    for (int i = 0; i < alone.size(); i++) {
      if (alone.at(i) instanceof OpWrite one && one.activation < activation) {
        return true;
      }
    }
    return false;
  }

  // -- the lane's thread: from the engine to the handler -----------------------------------------

  void transferDone(ChannelTransfer transfer) {
    Operation operation = transfer.operation;
    if (operation instanceof OpClose) {
      if (transfer.error != null) {
        lane.report(transfer.error);
      }
      lane.ready.add(operation);
    } else if (operation instanceof OpAccept accept && mayComeBack(accept, transfer.error)) {
      acceptRetry.backOff(transfer.error);
    } else if (!advance(operation, transfer)) {
      done(operation);
    } else if (operation.endEarly == null) {
      transfer.start();
    } else {
      operation.error = operation.endEarly;
      done(operation);
    }
  }

  /** Lack of descriptors or memory, or a peer that left: the listener is as good as before. */
  private boolean mayComeBack(OpAccept accept, Throwable error) {
    return accept.endEarly == null
        && !lane.hasFailed()
        && (error instanceof IOException && !(error instanceof ClosedChannelException)
            || error instanceof OutOfMemoryError);
  }

  /** Adds the result of a transfer. True if the operation needs another one. */
  private boolean advance(Operation operation, ChannelTransfer transfer) {
    if (transfer.wasCancelled || transfer.error != null) {
      operation.error = transfer.wasCancelled ? operation.endEarly : why(transfer);
      return false;
    }
    try {
      if (operation instanceof OpRead read) {
        reads.moved();
        read.sender = transfer.sender;
        return read.advance(transfer.moved);
      }
      if (operation instanceof OpWrite write && write.what == OpWrite.What.BYTES) {
        writes.moved();
        write.bytes += transfer.moved;
        return write.buffer.hasRemaining();
      }
    } catch (RuntimeException | OutOfMemoryError e) {
      // The program changed the buffer while it was the library's. Or no memory for an exception.
      operation.error = e;
    }
    if (operation instanceof OpAccept accept) {
      accept.connection = transfer.connection;
    }
    return false;
  }

  private static Throwable why(ChannelTransfer transfer) {
    return transfer.error instanceof UnsupportedAddressTypeException e && transfer.address() != null
        ? Check.wrongAddress(transfer.address(), "remote", e)
        : transfer.error;
  }

  private void done(Operation operation) {
    Side<?> side = operation.side;
    if (side != null) {
      side.current = null;
    } else {
      alone.remove(operation);
    }
    if (operation instanceof OpConnect && operation.error instanceof IOException) {
      // Cancelled or late, too. Systems and java.nio differ in what they do with the socket then.
      connectFailure = operation.error;
    }
    settle(operation, operation.error);
    startNext(side != null ? side : writes);
    deliver(operation);
  }

  /** Ends an operation elsewhere than in a task of the lane's queue: its handler waits there. */
  private void finish(Operation operation, Throwable error) {
    settle(operation, error);
    (operation instanceof OpAccept ? lane.accepts : lane.ready).add(operation);
  }

  private void settle(Operation operation, Throwable error) {
    if (operation.settled) {
      return;
    }
    operation.settled = true;
    operation.error = error;
    Side<?> side = sideOf(operation);
    if (side != null) {
      side.settled();
    }
    lane.timers.remove(operation);
    queued.remove(operation);
    try {
      operation.settle();
    } catch (RuntimeException e) {
      // As in advance().
      operation.error = e;
    }
    if (operation instanceof OpConnect && operation.side != null && --connects == 0) {
      startNext(reads);
    }
  }

  /** Calls the handler. */
  void deliver(Operation operation) {
    if (operation instanceof OpClose close) {
      call(close);
      lane.remove(this);
      channel.closed();
      return;
    }
    admission.finished();
    if (operation.future == null) {
      call(operation);
    } else if (!operation.future.finish(operation)) {
      admission.notFinished();
      lane.runAgain(operation);
      return;
    }
    operation.recycle();
    closeIfIdle();
  }

  private void call(Operation operation) {
    try {
      operation.call(handler);
    } catch (Throwable e) {
      handlerFailed(e);
    }
  }

  private void handlerFailed(Throwable error) {
    lane.report(error);
    close(CloseReason.HANDLER_FAILED, error);
  }

  // -- the lane's thread: early ends -------------------------------------------------------------

  /** False if there is no such operation here, or not yet. */
  boolean cancelHere(long activation) {
    Operation operation = find(activation);
    if (operation == null || operation.endEarly != null) {
      return operation != null;
    }
    try {
      endEarly(operation, cancelError());
    } catch (StackOverflowError e) {
      // As in start(): it may have left its queue.
      synchronized (lane.brokenLock) {
        operation.broken = e;
        operation.nextBroken = lane.broken;
        lane.broken = operation;
      }
      throw e;
    }
    return true;
  }

  private Operation find(long activation) {
    for (Side<?> side = reads; side != null; side = after(side)) {
      if (side.current != null && side.current.activation == activation) {
        return side.current;
      }
    }
    Operation found = queued.find(activation);
    return found != null ? found : alone.find(activation);
  }

  private Side<?> after(Side<?> side) {
    return side == reads ? writes : null;
  }

  /** Ends an operation that is not done. If the engine has it, the engine may be faster. */
  void endEarly(Operation operation, Throwable why) {
    if (operation.endEarly != null) {
      return;
    }
    Side<?> side = operation.side;
    if (operation instanceof OpTimeout) {
      alone.remove(operation);
      finish(operation, why);
    } else if (side == null) {
      operation.endEarly = why;
      operation.own.cancel();
    } else if (side.current == operation) {
      operation.endEarly = why;
      if (operation instanceof OpAccept && acceptRetry.isWaiting()) {
        lane.timers.remove(acceptRetry);
        side.transfer.cancelled();
      } else {
        side.transfer.cancel();
      }
    } else {
      side.queue.remove(operation);
      finish(operation, why);
    }
  }

  private static Throwable cancelError() {
    try {
      return new OperationCancelledException("this operation was cancelled");
    } catch (OutOfMemoryError e) {
      return e;
    }
  }

  private static Throwable closeError() {
    try {
      return new AsynchronousCloseException();
    } catch (OutOfMemoryError e) {
      return e;
    }
  }

  private void beginClose(OpClose operation) {
    closing = operation;
    reads.setIdle(null);
    writes.setIdle(null);
    Throwable why = closeError();
    for (Side<?> side = reads; side != null; side = after(side)) {
      while (!side.queue.isEmpty()) {
        finish(side.queue.poll(), why);
      }
      if (side.current != null) {
        endEarly(side.current, why);
      }
    }
    for (int i = 0; i < alone.size(); ) {
      Operation one = alone.at(i);
      if (one != null) {
        endEarly(one, why);
      }
      // Another one may have taken the place.
      i += one == alone.at(i) ? 1 : 0;
    }
    closeIfIdle();
  }

  private void closeIfIdle() {
    if (closing == null || closeStarted || admission.pending() > 0) {
      return;
    }
    closeStarted = true;
    if (file == null && lane.hasFailed()) {
      lane.ready.add(closing);
      closeEndpoint();
      return;
    }
    reads.transfer.prepare(closing, FileWork.CLOSE, Transfer.Kind.CLOSE, null);
    reads.transfer.start();
  }

  private void closeEndpoint() {
    try {
      endpoint.close();
    } catch (IOException e) {
      lane.report(e);
    }
  }

  /** The engine is broken: it completes nothing any more. Files do not need it. */
  void engineFailed(Throwable error) {
    if (file == null) {
      reads.transfer.engineFailed(error);
      writes.transfer.engineFailed(error);
    }
    close(CloseReason.ENGINE_FAILED, error);
  }

  // -- the lane's thread: time -------------------------------------------------------------------

  /** time: nanoseconds, 0 for none. */
  void setIdle(Side<?> side, OpTimeout.Kind kind, long time) {
    if (closing == null) {
      side.setIdle(time == 0 ? null : new IdleTimer(this, side, kind, time));
    }
  }

  void timerExpired(OpTimeout operation) {
    alone.remove(operation);
    finish(operation, null);
  }

  /** Has the handler called without an operation that the program started. */
  void tellTimeout(OpTimeout.Kind kind) {
    try {
      OpTimeout operation = new OpTimeout(channel, kind);
      operation.activation = admission.claim();
      operation.begun = true;
      begunCount++;
      lane.ready.add(operation);
    } catch (ChannelClosedException | LimitReachedException e) {
      // Closing, or far from idle: nothing to report.
      return;
    }
  }

  boolean isListener() {
    return endpoint != null && endpoint.kind() == Endpoint.Kind.LISTENER;
  }

  void tellStopping() {
    if (!admission.isOpen()) {
      return;
    }
    try {
      handler.onStopping(channel);
    } catch (Throwable e) {
      handlerFailed(e);
    }
  }
}
