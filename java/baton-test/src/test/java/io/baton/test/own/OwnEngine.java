package io.baton.test.own;

import io.baton.spi.ChannelEndpoint;
import io.baton.spi.Endpoint;
import io.baton.spi.Engine;
import io.baton.spi.Transfer;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.channels.SelectableChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * The simplest engine that keeps the contract: it tries every pending transfer again and again, and
 * sleeps a little in between. It shares nothing with the engine nio but java.nio itself.
 */
final class OwnEngine implements Engine {
  private final List<Transfer> pending = new ArrayList<>();
  private final Semaphore wakes = new Semaphore(0);
  private final long lookNanoseconds;
  private boolean completedSome;

  OwnEngine(long lookNanoseconds) {
    this.lookNanoseconds = lookNanoseconds;
  }

  @Override
  public Endpoint adopt(SelectableChannel channel) throws IOException {
    return new ChannelEndpoint(channel);
  }

  @Override
  public Endpoint open(Endpoint.Kind kind) throws IOException {
    return new ChannelEndpoint(ChannelEndpoint.newChannel(kind));
  }

  @Override
  public void start(Transfer transfer) {
    if (!completes(transfer, true)) {
      pending.add(transfer);
    }
  }

  @Override
  public void cancel(Transfer transfer) {
    if (pending.remove(transfer)) {
      completedSome = true;
      transfer.cancelled();
    }
  }

  @Override
  public void await(long nanoseconds) throws IOException {
    long begin = System.nanoTime();
    completedSome = false;
    look();
    while (!completedSome && (nanoseconds < 0 || System.nanoTime() - begin < nanoseconds)) {
      try {
        if (wakes.tryAcquire(lookNanoseconds, TimeUnit.NANOSECONDS)) {
          return;
        }
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return;
      }
      look();
    }
  }

  @Override
  public void wake() {
    wakes.release();
  }

  @Override
  public void close() {}

  private void look() {
    pending.removeIf(transfer -> completes(transfer, false));
  }

  /** Tries once. True if the transfer is complete, or waits for a block of the pool. */
  private boolean completes(Transfer transfer, boolean first) {
    try {
      boolean done = attempt(transfer, first);
      completedSome |= done;
      return done;
    } catch (IOException | RuntimeException e) {
      completedSome = true;
      transfer.failed(e);
      return true;
    }
  }

  private static boolean attempt(Transfer transfer, boolean first) throws IOException {
    ChannelEndpoint endpoint = (ChannelEndpoint) transfer.endpoint();
    SelectableChannel channel = endpoint.channel();
    switch (transfer.kind()) {
      case ACCEPT -> {
        SocketChannel accepted = ((ServerSocketChannel) channel).accept();
        if (accepted == null) {
          return false;
        }
        transfer.accepted(new ChannelEndpoint(accepted));
      }
      case CONNECT -> {
        SocketChannel socket = (SocketChannel) channel;
        if (!(first ? socket.connect(transfer.address()) : socket.finishConnect())) {
          return false;
        }
        transfer.completed(0);
      }
      case CLOSE -> {
        channel.close();
        transfer.completed(0);
      }
      default -> {
        return attemptBytes(transfer, endpoint);
      }
    }
    return true;
  }

  private static boolean attemptBytes(Transfer transfer, ChannelEndpoint endpoint)
      throws IOException {
    ByteBuffer buffer = transfer.buffer();
    if (buffer == null) {
      return true;
    }
    int before = buffer.position();
    boolean mayBeEmpty = !buffer.hasRemaining();
    int moved;
    switch (transfer.kind()) {
      case RECEIVE -> {
        var sender = ((DatagramChannel) endpoint.channel()).receive(buffer);
        if (sender == null) {
          transfer.returnBuffer();
          return false;
        }
        transfer.received(buffer.position() - before, sender);
        return true;
      }
      case SEND -> moved = ((DatagramChannel) endpoint.channel()).send(buffer, transfer.address());
      case READ -> moved = endpoint.read(buffer);
      default -> moved = endpoint.write(buffer);
    }
    if (moved == 0 && !mayBeEmpty) {
      if (transfer.kind() == Transfer.Kind.READ) {
        transfer.returnBuffer();
      }
      return false;
    }
    transfer.completed(moved);
    return true;
  }
}
