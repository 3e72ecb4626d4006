package io.baton;

import io.baton.spi.Endpoint;
import io.baton.spi.Transfer;
import java.net.SocketAddress;
import java.nio.ByteBuffer;

/** A transfer that a channel gives to an engine. Completing it queues it for the lane. */
final class ChannelTransfer extends Task implements Transfer {
  /** The operation of a file; the kind of an engine's transfer is null then. */
  enum FileWork {
    READ,
    WRITE,
    SYNC,
    CLOSE
  }

  // java.nio copies all of a heap buffer before each attempt to write it, and takes as much direct
  // memory for a read. So much is shown to the engine at a time.
  private static final int HEAP_CHUNK = 256 << 10;

  final ChannelCore core;
  Operation operation;

  /** Its operation waits for it, and it is not complete. */
  boolean isOwed;

  /** Waits for a block of the pool. */
  boolean parked;

  FileWork fileWork;

  // Written by the lane, read by a worker that has not begun yet.
  private volatile boolean skip;

  /** In nanoseconds, before a file that has moved nothing is asked again. */
  long pause;

  int moved;
  SocketAddress sender;
  Endpoint connection;
  Throwable error;
  boolean wasCancelled;

  // The buffer whose limit is lower than the program's while the engine has it, or null.
  private ByteBuffer lowered;
  private int fullLimit;

  private Kind kind;
  private SocketAddress address;
  private Object attachment;

  ChannelTransfer(ChannelCore core) {
    this.core = core;
  }

  /** work: for a file; kind: for an engine. */
  void prepare(Operation owner, FileWork work, Kind what, SocketAddress where) {
    operation = owner;
    fileWork = work;
    kind = what;
    address = where;
  }

  void start() {
    pause = 0;
    moved = 0;
    sender = null;
    connection = null;
    error = null;
    wasCancelled = false;
    skip = false;
    isOwed = true;
    core.lane.start(this);
  }

  /** Asks for an early end. Without effect if it is complete and only not delivered yet. */
  void cancel() {
    if (parked) {
      core.lane.pool.unpark(this);
      cancelled();
    } else if (core.file != null) {
      skip = true;
    } else if (isOwed) {
      core.lane.cancel(this);
    }
  }

  /** Completes it in place of a broken engine. */
  void engineFailed(Throwable why) {
    if (isOwed && !parked) {
      failed(why);
    }
  }

  /** The stack ended inside its start: completes it, unless it is complete. */
  void breakOff(StackOverflowError why) {
    if (isOwed) {
      // The engine may have it, or not.
      cancel();
    }
    if (isOwed) {
      failed(why);
    }
  }

  /** A worker carries it out for a file and returns it to the lane, or to the workers. */
  void work() {
    try {
      if (skip) {
        wasCancelled = true;
      } else if (!core.file.perform(this)) {
        return;
      }
    } catch (Throwable e) {
      // Errors, too: java.nio needs direct memory for heap buffers, and there may be none.
      error = e;
    }
    restoreLimit();
    core.lane.submit(this);
  }

  @Override
  void run() {
    core.transferDone(this);
  }

  @Override
  public Kind kind() {
    return kind;
  }

  @Override
  public Endpoint endpoint() {
    return core.endpoint;
  }

  @Override
  public ByteBuffer buffer() {
    if (operation instanceof OpRead read) {
      return read.pooled ? block(read) : shown(withRoom(read.buffer));
    }
    return shown(((OpWrite) operation).buffer);
  }

  private ByteBuffer block(OpRead read) {
    if (read.buffer == null) {
      PooledBuffer block = core.lane.pool.take();
      if (block == null) {
        core.lane.pool.park(this);
        return null;
      }
      read.block = block;
      read.buffer = block.take();
    }
    return read.buffer;
  }

  /** A read without room would never take what makes the socket readable. */
  private static ByteBuffer withRoom(ByteBuffer buffer) {
    if (!buffer.hasRemaining()) {
      throw new IllegalStateException(
          "buffer: has no room any more: its position or limit was changed while the read was"
              + " pending; leave it alone until the handler is called");
    }
    return buffer;
  }

  private ByteBuffer shown(ByteBuffer buffer) {
    int end = buffer.limit();
    ByteBuffer part = shortened(buffer);
    if (part.limit() < end) {
      lowered = buffer;
      fullLimit = end;
    }
    return part;
  }

  /** Lowers the limit of a long heap buffer. */
  static ByteBuffer shortened(ByteBuffer buffer) {
    return buffer.isDirect() || buffer.remaining() <= HEAP_CHUNK
        ? buffer
        : buffer.limit(buffer.position() + HEAP_CHUNK);
  }

  private void restoreLimit() {
    if (lowered != null) {
      lowered.limit(fullLimit);
      lowered = null;
    }
  }

  @Override
  public void returnBuffer() {
    ((OpRead) operation).returnBlock();
  }

  @Override
  public boolean pooled() {
    return operation instanceof OpRead read && read.pooled;
  }

  @Override
  public SocketAddress address() {
    return address;
  }

  @Override
  public void completed(int bytes) {
    moved = bytes;
    restoreLimit();
    (kind == Kind.ACCEPT ? core.lane.accepts : core.lane.ready).add(this);
    isOwed = false;
  }

  @Override
  public void received(int bytes, SocketAddress from) {
    sender = from;
    completed(bytes);
  }

  @Override
  public void accepted(Endpoint accepted) {
    connection = accepted;
    completed(0);
  }

  @Override
  public void failed(Throwable why) {
    error = why;
    completed(0);
  }

  @Override
  public void cancelled() {
    wasCancelled = true;
    completed(0);
  }

  @Override
  public Object attachment() {
    return attachment;
  }

  @Override
  public void attach(Object object) {
    attachment = object;
  }
}
