package io.baton.nativeengine;

import io.baton.spi.Endpoint;
import io.baton.spi.Transfer;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.ref.Reference;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.SocketOption;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.AlreadyConnectedException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NotYetConnectedException;
import java.nio.channels.SelectableChannel;
import java.util.Set;

/**
 * A socket: its descriptor, and, once an engine has started it, its handle there.
 *
 * <p><b>Threads:</b> the lock of the object keeps a close from taking the descriptor away from a
 * call that another thread is in. The handle is the lane's alone.
 */
final class NativeEndpoint implements Endpoint {
  // Linux shortens it to net.core.somaxconn. A short one makes bursts of connections wait for
  // seconds.
  private static final int LONGEST_BACKLOG = 4096;
  private static final int SHUT_READ = 0;
  private static final int SHUT_WRITE = 1;
  private static final int SOCK_STREAM = 1;
  private static final int SOCK_DATAGRAM = 2;

  // As the JDK asks it.
  private static final boolean ONLY_4 = Boolean.getBoolean("java.net.preferIPv4Stack");

  /** For the lane: 0 while no engine has started it, and after its close. */
  long handle;

  /** For the lane: the last accept found a connection, so the next one may, too. */
  boolean mayHaveConnections;

  /** For the lane: the engine's list of those that are to be closed again, and the transfer. */
  NativeEndpoint following;

  Transfer closing;

  /** For the lane: the engine's list of those whose descriptors the library has. */
  NativeEndpoint tiedBefore;

  NativeEndpoint tiedBehind;

  private final NativeCalls calls;
  private final Kind kind;
  private final int family;
  private int descriptor;
  private volatile boolean connected;

  private volatile boolean inputShut;

  private volatile boolean connectionLost;

  // A reset takes a stream's from the system, and then programs want to log it.
  private volatile InetSocketAddress peer;

  // Guarded by the lock.
  private boolean closed;
  private boolean lost;
  private boolean lingers;

  private NativeEndpoint(NativeCalls calls, Kind kind, int family, int descriptor) {
    this.calls = calls;
    this.kind = kind;
    this.family = family;
    this.descriptor = descriptor;
  }

  static NativeEndpoint open(NativeCalls calls, Kind kind) throws IOException {
    int type =
        (kind == Kind.DATAGRAM ? SOCK_DATAGRAM : SOCK_STREAM)
            | ForeignCalls.SOCK_NONBLOCK
            | ForeignCalls.SOCK_CLOSE_ON_EXEC;
    int answer = ONLY_4 ? -Errors.NO_SUCH_FAMILY : calls.socket(SocketAddresses.FAMILY_6, type);
    int family = SocketAddresses.FAMILY_6;
    if (answer == -Errors.NO_SUCH_FAMILY) {
      family = SocketAddresses.FAMILY_4;
      answer = calls.socket(family, type);
    }
    int descriptor = Errors.check(calls, answer);
    try {
      NativeEndpoint endpoint = new NativeEndpoint(calls, kind, family, descriptor);
      endpoint.setDefaults();
      return endpoint;
    } catch (IOException | RuntimeException | Error e) {
      calls.closeDescriptor(descriptor);
      throw e;
    }
  }

  /** For the next connection, before there is one: the memory is got first. */
  NativeEndpoint forAccept() {
    return new NativeEndpoint(calls, Kind.STREAM, family, -1);
  }

  /** An accept has brought this connection. */
  void accepted(int connection) {
    descriptor = connection;
    peer = askPeer();
    connected = true;
  }

  private void setDefaults() throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      if (family == SocketAddresses.FAMILY_6) {
        // IPv4 as well; the default is a setting of the whole system.
        setNumber(arena, SocketOptions.LEVEL_6, SocketOptions.ONLY_6, 0);
      }
      if (kind == Kind.LISTENER) {
        setNumber(arena, SocketOptions.LEVEL_SOCKET, SocketOptions.REUSE_ADDRESS, 1);
      }
    }
  }

  private void setNumber(Arena arena, int level, int name, int number) throws IOException {
    MemorySegment value = arena.allocateFrom(ValueLayout.JAVA_INT, number);
    Errors.check(
        calls, calls.setSocketOption(descriptor, level, name, value.address(), Integer.BYTES));
  }

  // -- for the engine ----------------------------------------------------------------------------

  int descriptor() {
    return descriptor;
  }

  int family() {
    return family;
  }

  /** Refuses what the system permits, or answers otherwise than java.nio. The lane. */
  void check(Transfer transfer) {
    switch (transfer.kind()) {
      case CONNECT -> refuse(connected);
      case SEND -> refuse(connected && !transfer.address().equals(peer));
      case READ, WRITE -> {
        if (!connected) {
          throw new NotYetConnectedException();
        }
      }
      default -> {}
    }
  }

  private static void refuse(boolean wrong) {
    if (wrong) {
      throw new AlreadyConnectedException();
    }
  }

  /** Linux would go on to bring the bytes that come. */
  boolean isInputShut() {
    return inputShut;
  }

  /** It is connected to this address, whose name of the host the program wants to know again. */
  void connected(SocketAddress named) {
    InetSocketAddress to = checked(named);
    // A wildcard stands for an address of this machine.
    InetSocketAddress asked = to.getAddress().isAnyLocalAddress() ? askPeer() : null;
    peer = asked == null ? to : asked;
    connected = true;
  }

  /** Null if it has been reset already, or if there is no memory for the address. */
  private InetSocketAddress askPeer() {
    try {
      return ask(calls::peerName);
    } catch (IOException | RuntimeException | OutOfMemoryError e) {
      return null;
    }
  }

  /** No other thread gets at the descriptor from now on. Answers whether the close may wait. */
  synchronized boolean beginClose() {
    closed = true;
    return lingers;
  }

  /** The library has closed the descriptor, or will: no other thread gets at it from now on. */
  synchronized void lost() {
    closed = true;
    lost = true;
  }

  synchronized boolean isLost() {
    return lost;
  }

  // -- Endpoint ----------------------------------------------------------------------------------

  @Override
  public Kind kind() {
    return kind;
  }

  @Override
  public SelectableChannel channel() {
    return null;
  }

  @Override
  public synchronized void bind(SocketAddress local, int backlog) throws IOException {
    requireOpen();
    InetSocketAddress address = local == null ? new InetSocketAddress(0) : checked(local);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment name = arena.allocate(SocketAddresses.SIZE_MAX, Long.BYTES);
      int length = SocketAddresses.encodeOwn(address, family, name);
      Errors.checkBind(calls, calls.bind(descriptor, name.address(), length));
    }
    if (kind == Kind.LISTENER) {
      Errors.check(calls, calls.listen(descriptor, backlog == 0 ? LONGEST_BACKLOG : backlog));
    }
  }

  @Override
  public synchronized void connectDatagram(SocketAddress remote) throws IOException {
    requireOpen();
    if (connected) {
      throw new AlreadyConnectedException();
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment name = arena.allocate(SocketAddresses.SIZE_MAX, Long.BYTES);
      int length = SocketAddresses.encode(checked(remote), family, name);
      Errors.check(calls, calls.connect(descriptor, name.address(), length));
    }
    connected(remote);
  }

  @Override
  public boolean isConnected() {
    return connected;
  }

  @Override
  public synchronized SocketAddress localAddress() throws IOException {
    requireOpen();
    InetSocketAddress address = ask(calls::ownName);
    return address == null || address.getPort() == 0 ? null : address;
  }

  @Override
  public synchronized SocketAddress remoteAddress() throws IOException {
    requireOpen();
    return peer;
  }

  /** getsockname or getpeername. */
  private interface Ask {
    int name(int descriptor, long address, long length);
  }

  private InetSocketAddress ask(Ask ask) throws IOException {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment address = arena.allocate(SocketAddresses.SIZE_MAX, Long.BYTES);
      MemorySegment length = arena.allocateFrom(ValueLayout.JAVA_INT, SocketAddresses.SIZE_MAX);
      Errors.check(calls, ask.name(descriptor, address.address(), length.address()));
      return SocketAddresses.decode(address);
    }
  }

  @Override
  public synchronized <T> void setOption(SocketOption<T> option, T value) throws IOException {
    requireOpen();
    int number = SocketOptions.number(kind, option, value);
    Errors.check(
        calls,
        SocketOptions.set(calls, descriptor, family == SocketAddresses.FAMILY_6, option, number));
    if (option == StandardSocketOptions.SO_LINGER) {
      lingers = number > 0;
    }
  }

  @Override
  @SuppressWarnings("unchecked")
  public synchronized <T> T getOption(SocketOption<T> option) throws IOException {
    requireOpen();
    return (T)
        SocketOptions.get(calls, descriptor, family == SocketAddresses.FAMILY_6, kind, option);
  }

  @Override
  public Set<SocketOption<?>> supportedOptions() {
    return SocketOptions.supported(kind);
  }

  @Override
  public synchronized NativeEndpoint tryAccept() throws IOException {
    requireOpen();
    NativeEndpoint connection = forAccept();
    int answer = calls.accept(descriptor);
    if (answer == -Errors.AGAIN) {
      return null;
    }
    connection.accepted(Errors.check(calls, answer));
    return connection;
  }

  @Override
  public synchronized int tryRead(ByteBuffer buffer) throws IOException {
    requireOpen();
    if (inputShut) {
      return -1;
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment bytes = memory(arena, buffer);
      int answer = calls.receive(descriptor, bytes.address(), (int) bytes.byteSize());
      if (answer == -Errors.AGAIN) {
        return 0;
      }
      failed(-answer);
      int moved = Errors.check(calls, answer);
      if (moved == 0) {
        checkLoss();
        return -1;
      }
      if (!buffer.isDirect()) {
        buffer.put(buffer.position(), bytes.asByteBuffer(), 0, moved);
      }
      buffer.position(buffer.position() + moved);
      return moved;
    } finally {
      Reference.reachabilityFence(buffer);
    }
  }

  @Override
  public synchronized int tryWrite(ByteBuffer buffer) throws IOException {
    requireOpen();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment bytes = memory(arena, buffer);
      if (!buffer.isDirect()) {
        bytes.asByteBuffer().put(0, buffer, buffer.position(), (int) bytes.byteSize());
      }
      int answer = calls.send(descriptor, bytes.address(), (int) bytes.byteSize());
      if (answer == -Errors.AGAIN) {
        return 0;
      }
      failed(-answer);
      int moved = Errors.check(calls, answer);
      buffer.position(buffer.position() + moved);
      return moved;
    } finally {
      Reference.reachabilityFence(buffer);
    }
  }

  /** The memory of a direct buffer, or a piece for the bytes of another one. */
  private static MemorySegment memory(Arena arena, ByteBuffer buffer) {
    return buffer.isDirect()
        ? MemorySegment.ofBuffer(buffer)
        : arena.allocate(Math.min(buffer.remaining(), Blocks.LARGEST));
  }

  /** A read or a write of the stream, by the lane or by another thread, has got this error. */
  void failed(int error) {
    if (Errors.isLoss(error)) {
      connectionLost = true;
    }
  }

  /**
   * The system reports a loss once, and an end of the stream after that. The lock waits for a write
   * of another thread, which may be the one that it was reported to.
   */
  synchronized void checkLoss() throws IOException {
    if (connectionLost) {
      Errors.check(calls, -Errors.CONNECTION_RESET);
    }
  }

  @Override
  public void shutdownOutput() throws IOException {
    shutdown(SHUT_WRITE);
  }

  @Override
  public void shutdownInput() throws IOException {
    shutdown(SHUT_READ);
    inputShut = true;
  }

  private synchronized void shutdown(int how) throws IOException {
    requireOpen();
    if (!connected) {
      throw new NotYetConnectedException();
    }
    int answer = calls.shutdown(descriptor, how);
    // A peer that has reset the connection has ended both halves.
    if (answer != -Errors.NOT_CONNECTED) {
      Errors.check(calls, answer);
    }
  }

  @Override
  public void close() throws IOException {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
    }
    // With a handle only after a failure of the engine, which has closed the descriptor.
    if (handle == 0) {
      Errors.check(calls, calls.closeDescriptor(descriptor));
    }
  }

  private InetSocketAddress checked(SocketAddress address) {
    return SocketAddresses.check(address, family);
  }

  private void requireOpen() throws ClosedChannelException {
    if (closed) {
      throw new ClosedChannelException();
    }
  }
}
