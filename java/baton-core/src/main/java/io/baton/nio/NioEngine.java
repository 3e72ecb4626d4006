package io.baton.nio;

import io.baton.spi.ChannelEndpoint;
import io.baton.spi.Endpoint;
import io.baton.spi.Engine;
import io.baton.spi.Transfer;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.DatagramChannel;
import java.nio.channels.SelectableChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.function.Consumer;

/**
 * Transfers on a selector.
 *
 * <p>A transfer is tried before it waits, unless the last one left the socket empty: most writes
 * succeed at once, and a read that follows a short read would find nothing. A waiting transfer sets
 * its bit in the interest set of the key. The bit for reading stays set afterwards, so a server
 * that reads again and again makes no system call for it. The bit goes when the socket is readable
 * and the lane, which may have a read in its inbox, has brought none for it. The bits for writing
 * and connecting go at once, for a socket is nearly always writable.
 *
 * <p>Invariant: a side of an endpoint either has no transfer, or its transfer waits and its bit is
 * set.
 */
final class NioEngine implements Engine {

  /** In milliseconds. */
  private static final int MEMORY_PAUSE = 10;

  private static final int READING = SelectionKey.OP_READ | SelectionKey.OP_ACCEPT;

  private final Selector selector = Selector.open();
  private final Consumer<SelectionKey> ready = this::ready;
  // Closed, but the selector gives the descriptor back only in its next selection. A list that
  // needs no memory, as the next one.
  private NioEndpoint closed;
  // There was no memory to close them.
  private NioEndpoint unclosed;
  // There was input, and no read was pending.
  private NioEndpoint unread;

  NioEngine() throws IOException {}

  @Override
  public Endpoint adopt(SelectableChannel channel) throws IOException {
    return new NioEndpoint(channel);
  }

  @Override
  public Endpoint open(Endpoint.Kind kind) throws IOException {
    return new NioEndpoint(ChannelEndpoint.newChannel(kind));
  }

  @Override
  public void start(Transfer transfer) {
    NioEndpoint endpoint = (NioEndpoint) transfer.endpoint();
    try {
      start(endpoint, transfer);
    } catch (OutOfMemoryError e) {
      forget(endpoint, transfer);
      transfer.failed(e);
    }
  }

  private static void forget(NioEndpoint endpoint, Transfer transfer) {
    if (endpoint.reading == transfer) {
      endpoint.reading = null;
    } else if (endpoint.writing == transfer) {
      endpoint.writing = null;
    }
  }

  private void start(NioEndpoint endpoint, Transfer transfer) {
    switch (transfer.kind()) {
      case READ, RECEIVE, ACCEPT -> {
        endpoint.reading = transfer;
        if (endpoint.mayBeReadable) {
          tryRead(endpoint);
        }
        if (endpoint.reading != null) {
          want(endpoint, endpoint.readBit, transfer);
        }
      }
      case WRITE, SEND -> {
        endpoint.writing = transfer;
        tryWrite(endpoint);
        if (endpoint.writing != null) {
          want(endpoint, SelectionKey.OP_WRITE, transfer);
        }
      }
      case CONNECT -> connect(endpoint, transfer);
      case CLOSE -> close(endpoint, transfer);
    }
  }

  @Override
  public void cancel(Transfer transfer) {
    NioEndpoint endpoint = (NioEndpoint) transfer.endpoint();
    // Forgotten last: the stack of the caller may end inside.
    if (endpoint.reading == transfer) {
      transfer.cancelled();
      endpoint.reading = null;
    } else if (endpoint.writing == transfer) {
      drop(endpoint, SelectionKey.OP_WRITE | SelectionKey.OP_CONNECT);
      transfer.cancelled();
      endpoint.writing = null;
    }
  }

  @Override
  public void await(long nanoseconds) throws IOException {
    if (unclosed != null) {
      closeAgain();
    }
    boolean looksAgain = forgetUnread();
    if (nanoseconds == 0 || closed != null || looksAgain) {
      selector.selectNow(ready);
    } else if (unclosed != null) {
      selector.select(ready, MEMORY_PAUSE);
    } else if (nanoseconds < 0) {
      selector.select(ready);
    } else {
      selector.select(ready, (nanoseconds + 999_999) / 1_000_000);
    }
    while (closed != null) {
      NioEndpoint first = closed;
      closed = first.following;
      first.following = null;
      first.closing.completed(0);
    }
  }

  /**
   * Whether there was one that is not watched any more. The lane has to look into its inbox before
   * it waits: a thread that saw the bit has not woken it.
   */
  private boolean forgetUnread() {
    boolean any = false;
    while (unread != null) {
      NioEndpoint first = unread;
      if (first.reading == null) {
        any = true;
        drop(first, READING);
      }
      unread = first.nextUnread;
      first.nextUnread = null;
      first.isUnread = false;
    }
    return any;
  }

  @Override
  public void wake() {
    selector.wakeup();
  }

  @Override
  public void close() throws IOException {
    selector.close();
  }

  private void ready(SelectionKey key) {
    NioEndpoint endpoint = (NioEndpoint) key.attachment();
    int operations;
    try {
      operations = key.readyOps();
    } catch (CancelledKeyException e) {
      fail(endpoint);
      return;
    }
    if ((operations & READING) != 0) {
      endpoint.mayBeReadable = true;
      if (endpoint.reading != null) {
        tryRead(endpoint);
      } else if (!endpoint.isUnread) {
        endpoint.isUnread = true;
        endpoint.nextUnread = unread;
        unread = endpoint;
      }
    }
    if ((operations & SelectionKey.OP_CONNECT) != 0 && endpoint.writing != null) {
      finishConnect(endpoint);
    } else if ((operations & SelectionKey.OP_WRITE) != 0 && endpoint.writing != null) {
      tryWrite(endpoint);
    }
    if (endpoint.writing == null) {
      drop(endpoint, SelectionKey.OP_WRITE | SelectionKey.OP_CONNECT);
    }
  }

  private static void tryRead(NioEndpoint endpoint) {
    Transfer transfer = endpoint.reading;
    try {
      switch (transfer.kind()) {
        case ACCEPT -> tryAccept(endpoint, transfer);
        case RECEIVE -> tryReceive(endpoint, transfer);
        default -> tryReadStream(endpoint, transfer);
      }
    } catch (IOException | RuntimeException | OutOfMemoryError e) {
      // Memory, too: java.nio needs direct memory for heap buffers.
      endpoint.reading = null;
      transfer.failed(e);
    }
  }

  private static void tryReadStream(NioEndpoint endpoint, Transfer transfer) throws IOException {
    ByteBuffer buffer = transfer.buffer();
    if (buffer == null) {
      endpoint.reading = null;
      return;
    }
    int room = buffer.remaining();
    int bytes = endpoint.read(buffer);
    // A datagram is one read; there may be more behind it. The end of a stream stays readable.
    endpoint.mayBeReadable =
        bytes == room || bytes < 0 || bytes > 0 && endpoint.kind() == Endpoint.Kind.DATAGRAM;
    if (bytes == 0) {
      transfer.returnBuffer();
    } else {
      endpoint.reading = null;
      transfer.completed(bytes);
    }
  }

  private static void tryReceive(NioEndpoint endpoint, Transfer transfer) throws IOException {
    ByteBuffer buffer = transfer.buffer();
    if (buffer == null) {
      endpoint.reading = null;
      return;
    }
    int before = buffer.position();
    var sender = ((DatagramChannel) endpoint.channel).receive(buffer);
    endpoint.mayBeReadable = sender != null;
    if (sender == null) {
      transfer.returnBuffer();
    } else {
      endpoint.reading = null;
      transfer.received(buffer.position() - before, sender);
    }
  }

  private static void tryAccept(NioEndpoint endpoint, Transfer transfer) throws IOException {
    NioEndpoint connection = endpoint.tryAccept();
    endpoint.mayBeReadable = connection != null;
    if (connection != null) {
      endpoint.reading = null;
      transfer.accepted(connection);
    }
  }

  private static void tryWrite(NioEndpoint endpoint) {
    Transfer transfer = endpoint.writing;
    try {
      ByteBuffer buffer = transfer.buffer();
      int bytes =
          transfer.kind() == Transfer.Kind.SEND
              ? ((DatagramChannel) endpoint.channel).send(buffer, transfer.address())
              : endpoint.write(buffer);
      // Java has one answer for an empty datagram that was sent and one that was not.
      if (bytes == 0 && buffer.hasRemaining()) {
        return;
      }
      endpoint.writing = null;
      transfer.completed(bytes);
    } catch (IOException | RuntimeException | OutOfMemoryError e) {
      endpoint.writing = null;
      transfer.failed(e);
    }
  }

  private void connect(NioEndpoint endpoint, Transfer transfer) {
    try {
      if (((SocketChannel) endpoint.channel).connect(transfer.address())) {
        transfer.completed(0);
      } else {
        endpoint.writing = transfer;
        want(endpoint, SelectionKey.OP_CONNECT, transfer);
      }
    } catch (IOException | RuntimeException e) {
      transfer.failed(e);
    }
  }

  private static void finishConnect(NioEndpoint endpoint) {
    Transfer transfer = endpoint.writing;
    try {
      if (((SocketChannel) endpoint.channel).finishConnect()) {
        endpoint.writing = null;
        transfer.completed(0);
      }
    } catch (IOException | RuntimeException | OutOfMemoryError e) {
      endpoint.writing = null;
      transfer.failed(e);
    }
  }

  private void close(NioEndpoint endpoint, Transfer transfer) {
    try {
      if (endpoint.key != null) {
        endpoint.key.cancel();
      }
      endpoint.close();
    } catch (IOException e) {
      transfer.failed(e);
      return;
    } catch (OutOfMemoryError e) {
      // The descriptor is open still.
      endpoint.closing = transfer;
      endpoint.following = unclosed;
      unclosed = endpoint;
      return;
    }
    if (endpoint.key == null) {
      transfer.completed(0);
    } else {
      endpoint.closing = transfer;
      endpoint.following = closed;
      closed = endpoint;
    }
  }

  private void closeAgain() {
    NioEndpoint next = unclosed;
    unclosed = null;
    while (next != null) {
      NioEndpoint one = next;
      next = one.following;
      one.following = null;
      close(one, one.closing);
    }
  }

  private void want(NioEndpoint endpoint, int bit, Transfer transfer) {
    if ((endpoint.interest & bit) != 0) {
      return;
    }
    try {
      int interest = endpoint.interest | bit;
      if (endpoint.key == null) {
        endpoint.key = endpoint.channel.register(selector, interest, endpoint);
      } else {
        endpoint.key.interestOps(interest);
      }
      endpoint.interest = interest;
    } catch (ClosedChannelException | RuntimeException e) {
      forget(endpoint, transfer);
      transfer.failed(e);
    }
  }

  private static void drop(NioEndpoint endpoint, int bits) {
    int interest = endpoint.interest & ~bits;
    if (interest != endpoint.interest) {
      endpoint.interest = interest;
      try {
        endpoint.key.interestOps(interest);
      } catch (CancelledKeyException e) {
        // The program closed the channel directly, although it is the library's.
      }
    }
  }

  // The program closed the channel directly.
  private static void fail(NioEndpoint endpoint) {
    Transfer reading = endpoint.reading;
    Transfer writing = endpoint.writing;
    endpoint.reading = null;
    endpoint.writing = null;
    if (reading != null) {
      reading.failed(new ClosedChannelException());
    }
    if (writing != null) {
      writing.failed(new ClosedChannelException());
    }
  }
}
