package io.baton.nio2;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.BindException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.SocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.AcceptPendingException;
import java.nio.channels.AlreadyBoundException;
import java.nio.channels.AlreadyConnectedException;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.AsynchronousServerSocketChannel;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.CompletionHandler;
import java.nio.channels.ConnectionPendingException;
import java.nio.channels.NotYetBoundException;
import java.nio.channels.NotYetConnectedException;
import java.nio.channels.UnresolvedAddressException;
import java.nio.channels.UnsupportedAddressTypeException;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

/** Binding, connecting, accepting, options. */
abstract class ConnectContract extends Nio2Contract {

  ConnectContract(Maker maker) {
    super(maker);
  }

  @Test
  void thePeerKeepsTheNameThatTheProgramGaveIt() throws Exception {
    AsynchronousServerSocketChannel listener = listen(null);
    int port = ((InetSocketAddress) listener.getLocalAddress()).getPort();
    InetAddress host = InetAddress.getByAddress("server.example", new byte[] {127, 0, 0, 1});
    AsynchronousSocketChannel near = open(null);
    get(near.connect(new InetSocketAddress(host, port)));
    InetSocketAddress peer = (InetSocketAddress) near.getRemoteAddress();
    assertEquals("server.example", peer.getHostString());
    assertEquals(listener.getLocalAddress(), peer);
  }

  @Test
  void bothEndsKnowTheirAddresses() throws IOException {
    AsynchronousServerSocketChannel listener = listen(null);
    Completion<AsynchronousSocketChannel> accepted = new Completion<>();
    listener.accept("attached", accepted);
    AsynchronousSocketChannel near = open(null);
    assertNull(near.getLocalAddress());
    assertNull(near.getRemoteAddress());
    Completion<Void> connected = new Completion<>();
    near.connect(listener.getLocalAddress(), 42, connected);
    assertNull(connected.await("connect"));
    AsynchronousSocketChannel far = closeLater(accepted.await("accept"));
    assertEquals("attached", accepted.attachment);
    assertEquals(42, connected.attachment);
    assertEquals(near.getLocalAddress(), far.getRemoteAddress());
    assertEquals(near.getRemoteAddress(), far.getLocalAddress());
    for (SocketAddress address : List.of(near.getLocalAddress(), near.getRemoteAddress())) {
      String port = ":" + ((InetSocketAddress) address).getPort();
      assertTrue(near.toString().contains(port) && far.toString().contains(port), port);
    }
    assertTrue(near.isOpen() && far.isOpen());
    assertSame(provider, near.provider());
    assertSame(provider, far.provider());
    assertSame(provider, listener.provider());
  }

  @Test
  void aRefusedConnectClosesTheChannel() throws IOException {
    InetSocketAddress nobody;
    try (ServerSocket socket = new ServerSocket()) {
      socket.bind(ANY_PORT);
      nobody = (InetSocketAddress) socket.getLocalSocketAddress();
    }
    AsynchronousSocketChannel channel = open(null);
    Completion<Void> connected = new Completion<>();
    channel.connect(nobody, null, connected);
    assertInstanceOf(ConnectException.class, connected.awaitFailure("connect"));
    assertFalse(channel.isOpen());
    assertInstanceOf(ConnectException.class, failure(open(null).connect(nobody)));
  }

  @Test
  void aRefusedConnectHasFreedItsPort() throws Exception {
    InetSocketAddress nobody;
    try (ServerSocket socket = new ServerSocket()) {
      socket.bind(ANY_PORT);
      nobody = (InetSocketAddress) socket.getLocalSocketAddress();
    }
    for (AsynchronousChannelGroup group : Arrays.asList(null, fixed(1), fixed(2))) {
      // By its number: a port that the system chose is free again as soon as the connect fails.
      SocketAddress port;
      try (AsynchronousSocketChannel first = open(group)) {
        port = first.bind(ANY_PORT).getLocalAddress();
      }
      AsynchronousSocketChannel channel = open(group).bind(port);
      CompletableFuture<SocketAddress> again = new CompletableFuture<>();
      channel.connect(
          nobody,
          null,
          new CompletionHandler<Void, Object>() {
            @Override
            public void completed(Void result, Object attachment) {
              again.completeExceptionally(new AssertionError("nobody was there"));
            }

            @Override
            public void failed(Throwable error, Object attachment) {
              try (AsynchronousSocketChannel next = open(group)) {
                again.complete(next.bind(port).getLocalAddress());
              } catch (IOException e) {
                again.completeExceptionally(e);
              }
            }
          });
      assertEquals(port, get(again));
    }
  }

  @Test
  void anAcceptThatEndsByACloseHasFreedItsPort() throws Exception {
    for (AsynchronousChannelGroup group : Arrays.asList(null, fixed(1), fixed(2))) {
      for (int i = 0; i < 100; i++) {
        AsynchronousServerSocketChannel closed = listen(group);
        Future<AsynchronousSocketChannel> accept = closed.accept();
        closed.close();
        assertTrue(accept.isDone());
      }
      AsynchronousServerSocketChannel listener = listen(group);
      SocketAddress port = listener.getLocalAddress();
      CompletableFuture<SocketAddress> again = new CompletableFuture<>();
      listener.accept(
          null,
          new CompletionHandler<AsynchronousSocketChannel, Object>() {
            @Override
            public void completed(AsynchronousSocketChannel connection, Object attachment) {
              again.completeExceptionally(new AssertionError("nobody has connected"));
            }

            @Override
            public void failed(Throwable error, Object attachment) {
              try (var next = provider.openAsynchronousServerSocketChannel(group)) {
                again.complete(next.bind(port).getLocalAddress());
              } catch (IOException e) {
                again.completeExceptionally(e);
              }
            }
          });
      listener.close();
      assertEquals(port, get(again));
    }
  }

  @Test
  void aConnectionConnectsOnce() throws IOException {
    Pair pair = pair(null);
    SocketAddress address = pair.far().getLocalAddress();
    assertThrows(AlreadyConnectedException.class, () -> pair.near().connect(address));
    assertThrows(AlreadyConnectedException.class, () -> pair.far().connect(address));
    assertThrows(AlreadyBoundException.class, () -> pair.near().bind(ANY_PORT));
  }

  @Test
  void whileAConnectIsPendingNothingElseStarts() throws IOException {
    AsynchronousSocketChannel channel = open(null);
    Completion<Void> connected = new Completion<>();
    InetSocketAddress address = new FullListener().address();
    channel.connect(address, null, connected);
    assertThrows(ConnectionPendingException.class, () -> channel.connect(address));
    assertThrows(ConnectionPendingException.class, () -> channel.bind(ANY_PORT));
    ByteBuffer buffer = ByteBuffer.allocate(1);
    assertThrows(NotYetConnectedException.class, () -> channel.read(buffer));
    assertThrows(NotYetConnectedException.class, () -> channel.write(buffer));
    channel.close();
    assertInstanceOf(AsynchronousCloseException.class, connected.awaitFailure("connect"));
  }

  @Test
  void aConnectCanBeCancelled() throws IOException {
    AsynchronousSocketChannel channel = open(null);
    InetSocketAddress address = new FullListener().address();
    Future<Void> connect = channel.connect(address);
    assertFalse(connect.isDone());
    assertTrue(connect.cancel(false));
    assertThrows(CancellationException.class, connect::get);
    assertTrue(channel.isOpen());
    assertThrows(IllegalStateException.class, () -> channel.connect(address));
    Future<Void> other = open(null).connect(address);
    assertTrue(other.cancel(true));
    assertTrue(other.isCancelled());
  }

  @Test
  void badAddressesAreRefusedAtOnce() throws IOException {
    AsynchronousSocketChannel channel = open(null);
    SocketAddress unresolved = InetSocketAddress.createUnresolved("nowhere.invalid", 1);
    SocketAddress strange = new SocketAddress() {};
    assertThrows(UnresolvedAddressException.class, () -> channel.connect(unresolved));
    assertThrows(UnresolvedAddressException.class, () -> channel.bind(unresolved));
    assertThrows(UnsupportedAddressTypeException.class, () -> channel.connect(strange));
    assertThrows(UnsupportedAddressTypeException.class, () -> channel.bind(strange));
    assertThrows(NullPointerException.class, () -> channel.connect(null));
    assertThrows(NullPointerException.class, () -> channel.connect(ANY_PORT, null, null));
    AsynchronousServerSocketChannel listener =
        closeLater(provider.openAsynchronousServerSocketChannel(null));
    assertThrows(UnresolvedAddressException.class, () -> listener.bind(unresolved));
    assertThrows(UnsupportedAddressTypeException.class, () -> listener.bind(strange));
    assertTrue(channel.isOpen() && listener.isOpen());
  }

  @Test
  void bindingHappensOnceAndToFreePorts() throws IOException {
    AsynchronousServerSocketChannel listener =
        closeLater(provider.openAsynchronousServerSocketChannel(null));
    assertNull(listener.getLocalAddress());
    assertThrows(NotYetBoundException.class, listener::accept);
    listener.bind(null, -1);
    assertNotNull(listener.getLocalAddress());
    assertThrows(AlreadyBoundException.class, () -> listener.bind(ANY_PORT));
    SocketAddress taken = listen(null).getLocalAddress();
    AsynchronousServerSocketChannel second =
        closeLater(provider.openAsynchronousServerSocketChannel(null));
    assertThrows(BindException.class, () -> second.bind(taken));
    AsynchronousSocketChannel client = open(null).bind(ANY_PORT);
    assertNotNull(client.getLocalAddress());
    assertThrows(AlreadyBoundException.class, () -> client.bind(ANY_PORT));
  }

  @Test
  void aPortIsFreeAgainAfterClose() throws IOException {
    AsynchronousServerSocketChannel listener = listen(null);
    SocketAddress address = listener.getLocalAddress();
    for (int i = 0; i < 50; i++) {
      listener.accept();
      listener.close();
      listener = closeLater(provider.openAsynchronousServerSocketChannel(null)).bind(address);
    }
  }

  @Test
  void oneAcceptIsPendingAtATime() throws IOException {
    AsynchronousServerSocketChannel listener = listen(null);
    Completion<AsynchronousSocketChannel> accepted = new Completion<>();
    listener.accept(null, accepted);
    assertThrows(AcceptPendingException.class, listener::accept);
    assertThrows(NullPointerException.class, () -> listener.accept(null, null));
    listener.close();
    assertInstanceOf(AsynchronousCloseException.class, accepted.awaitFailure("accept"));
    assertFalse(listener.isOpen());
    assertInstanceOf(ClosedChannelException.class, failure(listener.accept()));
    Completion<AsynchronousSocketChannel> late = new Completion<>();
    listener.accept(null, late);
    assertInstanceOf(ClosedChannelException.class, late.awaitFailure("accept"));
  }

  @Test
  void anAcceptCanBeCancelled() throws IOException {
    AsynchronousServerSocketChannel listener = listen(null);
    Future<AsynchronousSocketChannel> accept = listener.accept();
    assertTrue(accept.cancel(false));
    assertFalse(accept.cancel(false));
    assertTrue(accept.isCancelled() && accept.isDone() && listener.isOpen());
    assertThrows(CancellationException.class, accept::get);
    assertThrows(RuntimeException.class, listener::accept);
    AsynchronousServerSocketChannel other = listen(null);
    assertTrue(other.accept().cancel(true));
    assertFalse(other.isOpen());
  }

  @Test
  void aListenerAcceptsAgainAndAgain() throws IOException {
    AsynchronousServerSocketChannel listener = listen(null);
    for (int i = 0; i < 100; i++) {
      AsynchronousSocketChannel near = provider.openAsynchronousSocketChannel(null);
      Future<Void> connect = near.connect(listener.getLocalAddress());
      AsynchronousSocketChannel far = get(listener.accept());
      get(connect);
      assertEquals(near.getLocalAddress(), far.getRemoteAddress());
      near.close();
      far.close();
    }
  }

  @Test
  void optionsAreThoseOfTheSocket() throws IOException {
    AsynchronousSocketChannel channel = open(null);
    assertTrue(channel.supportedOptions().contains(StandardSocketOptions.TCP_NODELAY));
    assertTrue(channel.supportedOptions().contains(StandardSocketOptions.SO_KEEPALIVE));
    assertSame(channel, channel.setOption(StandardSocketOptions.TCP_NODELAY, true));
    assertTrue(channel.getOption(StandardSocketOptions.TCP_NODELAY));
    assertFalse(channel.getOption(StandardSocketOptions.SO_KEEPALIVE));
    assertTrue(
        channel
                .setOption(StandardSocketOptions.SO_RCVBUF, 64 * 1024)
                .getOption(StandardSocketOptions.SO_RCVBUF)
            >= 64 * 1024);
    assertThrows(
        IllegalArgumentException.class,
        () -> channel.setOption(StandardSocketOptions.SO_SNDBUF, -1));
    assertThrows(
        UnsupportedOperationException.class,
        () -> channel.setOption(StandardSocketOptions.IP_MULTICAST_LOOP, true));
    assertThrows(NullPointerException.class, () -> channel.getOption(null));
    AsynchronousServerSocketChannel listener = listen(null);
    assertTrue(listener.supportedOptions().contains(StandardSocketOptions.SO_REUSEADDR));
    listener.setOption(StandardSocketOptions.SO_RCVBUF, 64 * 1024);
    assertThrows(
        UnsupportedOperationException.class,
        () -> listener.getOption(StandardSocketOptions.TCP_NODELAY));
  }

  @Test
  void aClosedChannelSaysSo() throws IOException {
    AsynchronousSocketChannel channel = pair(null).near();
    channel.close();
    channel.close();
    assertFalse(channel.isOpen());
    assertThrows(ClosedChannelException.class, channel::getLocalAddress);
    assertThrows(ClosedChannelException.class, channel::getRemoteAddress);
    assertThrows(
        ClosedChannelException.class, () -> channel.getOption(StandardSocketOptions.TCP_NODELAY));
    assertThrows(ClosedChannelException.class, channel::shutdownInput);
    assertThrows(ClosedChannelException.class, channel::shutdownOutput);
    assertThrows(ClosedChannelException.class, () -> channel.bind(ANY_PORT));
    assertInstanceOf(ClosedChannelException.class, failure(channel.connect(ANY_PORT)));
    assertTrue(channel.toString().contains("closed"), channel.toString());
  }
}
