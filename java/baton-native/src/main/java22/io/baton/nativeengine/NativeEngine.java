package io.baton.nativeengine;

import io.baton.nativeengine.Layouts.Batch;
import io.baton.nativeengine.Layouts.Completion;
import io.baton.nativeengine.Layouts.Config;
import io.baton.nativeengine.Layouts.Kind;
import io.baton.nativeengine.Layouts.Operation;
import io.baton.nativeengine.Layouts.Option;
import io.baton.spi.Endpoint;
import io.baton.spi.Engine;
import io.baton.spi.EngineSettings;
import io.baton.spi.Transfer;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.net.PortUnreachableException;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.channels.NotYetBoundException;
import java.nio.channels.SelectableChannel;
import java.nio.channels.ServerSocketChannel;
import java.util.Arrays;

/**
 * Transfers on a proactor of the C++ library, one for each lane.
 *
 * <p>A start only queues. {@link #await} hands all that is queued to the library and takes what is
 * complete, in one native call: a turn of the lane costs one call, however many transfers it has.
 *
 * <p>A pooled read waits until there is something to read and takes its buffer then. An accept
 * waits in the same way: an accept of the library rests while there is no descriptor, and turns
 * peers away meanwhile, but here it is the caller that puts it off. After an accept that found a
 * connection the next one is tried first: of many connections that wait, each costs one call and
 * not a turn of the lane.
 *
 * <p>Every transfer in flight has a slot in a table; the number of the slot is its tag. The slot
 * keeps the buffer reachable while the kernel may touch it.
 *
 * <p>Invariant: a request with a slot either waits in the queue (its activation is 0) or is with
 * the library, which brings it back once.
 */
final class NativeEngine implements Engine {
  /** So many are handed over or taken in one call. */
  static final int BATCH = 256;

  private static final System.Logger LOG = System.getLogger("io.baton");
  private static final int SLOTS_DEFAULT = 16_384;
  private static final int SLOTS_MAX = 1 << 20;
  private static final int TEXT_SIZE = 16 << 10;

  /** In nanoseconds. */
  static final long MEMORY_PAUSE = 10_000_000;

  private final NativeCalls calls;
  private final Arena arena = Arena.ofConfined();
  private final MemorySegment operations = arena.allocate(BATCH * Operation.SIZE, Long.BYTES);
  private final MemorySegment activations = arena.allocate(BATCH * Long.BYTES, Long.BYTES);
  private final MemorySegment completions = arena.allocate(BATCH * Completion.SIZE, Long.BYTES);
  private final MemorySegment batch = arena.allocate(Batch.SIZE, Long.BYTES);
  private final MemorySegment handle = arena.allocate(Long.BYTES, Long.BYTES);
  private final Blocks blocks = new Blocks();
  private final KnownAddresses addresses = new KnownAddresses();
  private final Interruption interruption = new Interruption(this::wake);
  private final long proactor;
  private final String explanation;

  // Started and not yet with the library.
  private final RequestQueue queue = new RequestQueue();

  // There was no memory to close them. A list that needs none.
  private NativeEndpoint unclosed;

  // The library closes their descriptors if the engine fails. Another such list.
  private NativeEndpoint tied;

  private Request[] slots = new Request[64];
  private int[] freeSlots = new int[slots.length];
  private int freeCount;

  // The part of the queue that one call hands over.
  private final Request[] offered = new Request[BATCH];

  // Transfers completed since the engine was opened.
  private long completed;

  // The library had no slot for the first of the queue.
  private boolean starved;
  private boolean warned;

  // The library's engine lost what it works with: nothing can succeed any more.
  private boolean lost;

  private final Object wakeLock = new Object();
  // Guarded by wakeLock: other threads wake, and the lane closes.
  private boolean open = true;

  NativeEngine(NativeCalls calls, EngineSettings settings) throws IOException {
    this.calls = calls;
    for (int i = 0; i < slots.length; i++) {
      freeSlots[freeCount++] = i;
    }
    try {
      proactor = openProactor(settings);
    } catch (IOException | RuntimeException | Error e) {
      arena.close();
      throw e;
    }
    try {
      int error = calls.attach(proactor);
      if (error != 0) {
        throw new IOException(Errors.text(calls, error));
      }
      explanation = readExplanation();
    } catch (IOException | RuntimeException | Error e) {
      close();
      throw e;
    }
    batch.set(ValueLayout.JAVA_INT, Batch.OWN_SIZE, Batch.SIZE);
    batch.set(ValueLayout.JAVA_LONG, Batch.OPERATIONS, operations.address());
    batch.set(ValueLayout.JAVA_LONG, Batch.ACTIVATIONS, activations.address());
  }

  // -- opening -----------------------------------------------------------------------------------

  private long openProactor(EngineSettings settings) throws IOException {
    if (Thread.currentThread().isVirtual()) {
      // It would go on in another thread of the system, which the proactor does not know.
      throw new IOException(
          "its lanes need platform threads, and threadFactory makes virtual ones; leave it out, or"
              + " choose engine=nio");
    }
    try (Arena scratch = Arena.ofConfined()) {
      MemorySegment config = scratch.allocate(Config.SIZE, Long.BYTES);
      MemorySegment out = scratch.allocate(Long.BYTES, Long.BYTES);
      MemorySegment reason = scratch.allocate(1024);
      config.set(ValueLayout.JAVA_INT, Config.OWN_SIZE, Config.SIZE);
      config.set(ValueLayout.JAVA_INT, Config.COMPLETION_SIZE, Completion.SIZE);
      config.set(ValueLayout.JAVA_INT, Config.SLOTS, slotCount(settings));
      MemorySegment text = scratch.allocateFrom(configuration(settings));
      config.set(ValueLayout.JAVA_LONG, Config.TEXT, text.address());
      int error = calls.open(config.address(), out.address(), reason.address(), reason.byteSize());
      if (error != 0) {
        String why = reason.getString(0);
        throw new IOException(why.isEmpty() ? Errors.text(calls, error) : why);
      }
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /**
   * The words of the C++ library. The proactor has one lane, which the thread of this lane keeps
   * from its attachment to the end: starts go straight to the engine, without a lock, and leave
   * with the next wait, and the ring may be of the form that belongs to one thread.
   */
  static String configuration(EngineSettings settings) {
    StringBuilder text = new StringBuilder("mode=per_thread,threads=1,profile=pinned");
    String engine = settings.words().getOrDefault("native.engine", "auto");
    text.append(",engine=").append(engine);
    if (!engine.equals("auto")) {
      // Another one in its place would surprise.
      text.append(",require=").append(engine);
    } else if (!settings.words().containsKey("native.wait")) {
      // A lane hands over and takes whole batches, which a ring does in one system call.
      text.append(",prefer=io_uring");
    }
    append(text, "wait", settings);
    append(text, "interrupt", settings);
    append(text, "handles", settings);
    return text.toString();
  }

  private static void append(StringBuilder text, String word, EngineSettings settings) {
    String value = settings.words().get("native." + word);
    if (value != null) {
      text.append(',').append(word).append('=').append(value);
    }
  }

  private static int slotCount(EngineSettings settings) {
    String text = settings.words().get("native.slots");
    if (text == null) {
      return SLOTS_DEFAULT;
    }
    try {
      int slots = Integer.parseInt(text);
      if (slots >= 1 && slots <= SLOTS_MAX) {
        return slots;
      }
    } catch (NumberFormatException e) {
      // Refused below.
    }
    throw new IllegalArgumentException(
        "native.slots: '" + text + "' is not a number from 1 to " + SLOTS_MAX);
  }

  private String readExplanation() {
    try (Arena scratch = Arena.ofConfined()) {
      MemorySegment text = scratch.allocate(TEXT_SIZE);
      calls.explain(proactor, text.address(), TEXT_SIZE);
      return text.getString(0);
    }
  }

  @Override
  public String explain() {
    StringBuilder text = new StringBuilder(explanation);
    try (Arena scratch = Arena.ofConfined()) {
      MemorySegment names = scratch.allocate(TEXT_SIZE);
      calls.engines(names.address(), TEXT_SIZE);
      names.getString(0).lines().forEach(name -> text.append(whyNot(name)));
    }
    return text.toString();
  }

  /** The reason why an engine of the library is not available; nothing for an available one. */
  private String whyNot(String engine) {
    try (Arena scratch = Arena.ofConfined()) {
      MemorySegment reason = scratch.allocate(TEXT_SIZE);
      MemorySegment name = scratch.allocateFrom(engine);
      int error = calls.engineReason(name.address(), reason.address(), TEXT_SIZE);
      return error == 0
          ? ""
          : "native.engine " + engine + " is not available: " + reason.getString(0) + "\n";
    }
  }

  // -- endpoints ---------------------------------------------------------------------------------

  @Override
  public Endpoint adopt(SelectableChannel channel) {
    throw new IllegalArgumentException(
        "channel: a "
            + typeOf(channel)
            + " of java.nio keeps its descriptor to itself, so the engine native cannot use it;"
            + " call listen, connect or openStream of the Demultiplexor, and open(handler) of an"
            + " accept, instead, or choose engine=nio");
  }

  private static String typeOf(SelectableChannel channel) {
    return channel instanceof ServerSocketChannel
        ? "ServerSocketChannel"
        : channel instanceof DatagramChannel ? "DatagramChannel" : "SocketChannel";
  }

  @Override
  public Endpoint open(Endpoint.Kind kind) throws IOException {
    return NativeEndpoint.open(calls, kind);
  }

  @Override
  public void check(ByteBuffer buffer) {
    if (DirectBuffers.canBeClosed(buffer)) {
      throw new IllegalArgumentException(
          "buffer: is a view of an arena that can be closed while the kernel uses the memory; take"
              + " it from Arena.ofAuto(), Arena.global() or ByteBuffer.allocateDirect");
    }
  }

  /** Gives the descriptor to the library. False: the transfer is complete, with an error. */
  private boolean tie(NativeEndpoint endpoint, Request request) {
    if (endpoint.handle != 0) {
      return true;
    }
    int kind =
        switch (endpoint.kind()) {
          case STREAM -> Layouts.STREAM_SOCKET;
          case LISTENER -> Layouts.LISTENER;
          case DATAGRAM -> Layouts.DATAGRAM_SOCKET;
        };
    int error = adopt(endpoint, kind);
    if (error != 0) {
      fail(request, error);
      return false;
    }
    endpoint.handle = handle.get(ValueLayout.JAVA_LONG, 0);
    endpoint.tiedBehind = tied;
    if (tied != null) {
      tied.tiedBefore = endpoint;
    }
    tied = endpoint;
    return true;
  }

  private int adopt(NativeEndpoint endpoint, int kind) {
    // Other threads wait: the number may be another file's as soon as the library has closed it.
    synchronized (endpoint) {
      int error =
          calls.adopt(proactor, endpoint.descriptor(), kind, Layouts.OWNED, handle.address());
      if (error == Errors.OUT_OF_MEMORY) {
        // Then, and only then, the library has closed it.
        endpoint.lost();
      }
      return error;
    }
  }

  /** It is closing: no other thread gets at its descriptor. */
  private void untie(NativeEndpoint endpoint) {
    if (endpoint.tiedBefore == null) {
      tied = endpoint.tiedBehind;
    } else {
      endpoint.tiedBefore.tiedBehind = endpoint.tiedBehind;
    }
    if (endpoint.tiedBehind != null) {
      endpoint.tiedBehind.tiedBefore = endpoint.tiedBefore;
    }
    // As in Lane: a program that keeps this one must not keep its neighbours.
    endpoint.tiedBefore = null;
    endpoint.tiedBehind = null;
  }

  // -- starting ----------------------------------------------------------------------------------

  @Override
  public void start(Transfer transfer) {
    NativeEndpoint endpoint = (NativeEndpoint) transfer.endpoint();
    Request request = (Request) transfer.attachment();
    try {
      if (request == null) {
        request = new Request(transfer);
        transfer.attach(request);
      }
      takeSlot(request);
    } catch (OutOfMemoryError e) {
      failed(transfer, e);
      return;
    }
    try {
      if (transfer.kind() == Transfer.Kind.CLOSE) {
        startClose(endpoint, request);
      } else if (tie(endpoint, request)) {
        prepare(endpoint, request);
      }
    } catch (RuntimeException | OutOfMemoryError e) {
      failed(finish(request), e);
    }
  }

  private void failed(Transfer transfer, Throwable why) {
    if (transfer.kind() == Transfer.Kind.CLOSE && why instanceof OutOfMemoryError) {
      // The descriptor is open still.
      NativeEndpoint endpoint = (NativeEndpoint) transfer.endpoint();
      endpoint.closing = transfer;
      endpoint.following = unclosed;
      unclosed = endpoint;
    } else {
      transfer.failed(why);
    }
  }

  private void closeAgain() {
    NativeEndpoint next = unclosed;
    unclosed = null;
    while (next != null) {
      NativeEndpoint one = next;
      next = one.following;
      one.following = null;
      start(one.closing);
    }
  }

  private void prepare(NativeEndpoint endpoint, Request request) {
    Transfer transfer = request.transfer;
    endpoint.check(transfer);
    switch (transfer.kind()) {
      case READ, RECEIVE -> {
        if (endpoint.isInputShut()) {
          finish(request).completed(-1);
        } else if (transfer.pooled()) {
          waitUntilReadable(request);
        } else {
          startBytes(endpoint, request, transfer.buffer());
        }
      }
      case WRITE, SEND -> startBytes(endpoint, request, transfer.buffer());
      case ACCEPT -> {
        if (endpoint.mayHaveConnections) {
          accept(endpoint, request);
        } else {
          waitUntilReadable(request);
        }
      }
      case CONNECT -> {
        encodeAddress(endpoint, request);
        request.kind = Kind.CONNECT;
        queue.add(request);
      }
      default -> throw new AssertionError(transfer.kind());
    }
  }

  private void waitUntilReadable(Request request) {
    request.kind = Kind.WAIT_READY;
    request.activation = 0;
    queue.add(request);
  }

  private void startClose(NativeEndpoint endpoint, Request request) {
    boolean mayWait = endpoint.beginClose();
    if (endpoint.handle == 0) {
      int answer = endpoint.isLost() ? 0 : calls.closeDescriptor(endpoint.descriptor());
      if (answer == 0) {
        finish(request).completed(0);
      } else {
        fail(request, -answer);
      }
      return;
    }
    if (mayWait) {
      tellLinger(endpoint);
    }
    untie(endpoint);
    request.kind = Kind.CLOSE;
    queue.add(request);
  }

  /** With this option the library closes such a socket off this thread. */
  private void tellLinger(NativeEndpoint endpoint) {
    try (Arena scratch = Arena.ofConfined()) {
      MemorySegment value = scratch.allocate(SocketOptions.LINGER_SIZE, Integer.BYTES);
      MemorySegment length = scratch.allocateFrom(ValueLayout.JAVA_INT, SocketOptions.LINGER_SIZE);
      int answer =
          calls.getSocketOption(
              endpoint.descriptor(),
              SocketOptions.LEVEL_SOCKET,
              SocketOptions.LINGER,
              value.address(),
              length.address());
      if (answer < 0) {
        return;
      }
      MemorySegment option = scratch.allocate(Option.SIZE, Long.BYTES);
      option.set(ValueLayout.JAVA_INT, Option.OWN_SIZE, Option.SIZE);
      option.set(ValueLayout.JAVA_INT, Option.LEVEL, SocketOptions.LEVEL_SOCKET);
      option.set(ValueLayout.JAVA_INT, Option.NAME, SocketOptions.LINGER);
      option.set(ValueLayout.JAVA_INT, Option.VALUE_SIZE, SocketOptions.LINGER_SIZE);
      option.set(ValueLayout.JAVA_LONG, Option.VALUE, value.address());
      calls.setOption(proactor, endpoint.handle, option.address());
    }
  }

  private void startBytes(NativeEndpoint endpoint, Request request, ByteBuffer buffer) {
    if (buffer == null) {
      // The pool is empty, and the library starts it again.
      finish(request);
      return;
    }
    Transfer.Kind kind = request.transfer.kind();
    boolean datagram = endpoint.kind() == Endpoint.Kind.DATAGRAM;
    boolean reads = kind == Transfer.Kind.READ || kind == Transfer.Kind.RECEIVE;
    request.buffer = buffer;
    request.length = buffer.remaining();
    if (buffer.isDirect()) {
      request.data = DirectBuffers.address(buffer) + buffer.position();
    } else {
      // A longer datagram is refused by the system in this length, too.
      request.length = Math.min(request.length, Blocks.LARGEST);
      request.bytes = blocks.take(request.length);
      request.data = request.bytes.address;
      if (!reads) {
        request.bytes.bytes.put(0, buffer, buffer.position(), request.length);
      }
    }
    if (kind == Transfer.Kind.SEND) {
      encodeAddress(endpoint, request);
    } else if (kind == Transfer.Kind.RECEIVE) {
      request.address = blocks.take(Layouts.Endpoint.SIZE);
    }
    if (reads) {
      request.kind = datagram ? Kind.READ_DATAGRAM : Kind.READ_STREAM;
    } else {
      request.kind = datagram ? Kind.WRITE_DATAGRAM : Kind.WRITE_STREAM;
    }
    queue.add(request);
  }

  private void encodeAddress(NativeEndpoint endpoint, Request request) {
    var address = SocketAddresses.check(request.transfer.address(), endpoint.family());
    request.address = blocks.take(Layouts.Endpoint.SIZE);
    // The struct begins with the address.
    MemorySegment memory = request.address.memory;
    int length = addresses.encode(address, endpoint.family(), memory);
    memory.set(ValueLayout.JAVA_INT, Layouts.Endpoint.LENGTH, length);
    memory.set(ValueLayout.JAVA_INT, Layouts.Endpoint.LENGTH + Integer.BYTES, 0);
  }

  private void takeSlot(Request request) {
    if (freeCount == 0) {
      int before = slots.length;
      int[] more = new int[2 * before];
      slots = Arrays.copyOf(slots, more.length);
      freeSlots = more;
      for (int i = before; i < slots.length; i++) {
        freeSlots[freeCount++] = i;
      }
    }
    request.slot = freeSlots[--freeCount];
    request.activation = 0;
    request.cancelAsked = false;
    slots[request.slot] = request;
  }

  // -- cancelling --------------------------------------------------------------------------------

  @Override
  public void cancel(Transfer transfer) {
    Request request = (Request) transfer.attachment();
    if (request == null || request.slot < 0 || request.cancelAsked) {
      return;
    }
    if (request.activation == 0) {
      queue.remove(request);
      finish(request).cancelled();
      return;
    }
    request.cancelAsked = true;
    // That it was complete already is no error: its completion comes.
    calls.cancel(proactor, request.activation);
  }

  // -- waiting -----------------------------------------------------------------------------------

  @Override
  public void await(long nanoseconds) throws IOException {
    long before = completed;
    if (unclosed != null) {
      closeAgain();
    }
    boolean more = queue.size() > BATCH && !starved;
    try {
      exchange(more ? 0 : timeToWait(nanoseconds, before));
      while (!queue.isEmpty() && !starved) {
        // Without a wait: the first call may have taken a wake-up, which comes once.
        exchange(0);
      }
    } catch (Throwable e) {
      // The library completes everything now, and after that nothing may write to the program's
      // memory. It closes the descriptors as well, whose numbers may be other files' at once.
      for (NativeEndpoint one = tied; one != null; one = one.tiedBehind) {
        one.lost();
      }
      closeProactor();
      throw e;
    }
  }

  private long timeToWait(long nanoseconds, long before) {
    if (unclosed != null) {
      // Also behind another close that was made: a try without memory is expensive.
      return nanoseconds < 0 ? MEMORY_PAUSE : Math.min(nanoseconds, MEMORY_PAUSE);
    }
    return completed == before ? nanoseconds : 0;
  }

  private void exchange(long nanoseconds) throws IOException {
    int count = Math.min(queue.size(), BATCH);
    for (int i = 0; i < count; i++) {
      offered[i] = queue.poll();
      write(offered[i], (long) i * Operation.SIZE);
    }
    batch.set(ValueLayout.JAVA_INT, Batch.COUNT, count);
    int brought = exchangeBatch(nanoseconds);
    if (brought < 0) {
      throw new IOException(Errors.text(calls, -brought));
    }
    int taken = batch.get(ValueLayout.JAVA_INT, Batch.TAKEN);
    for (int i = count - 1; i >= 0; i--) {
      if (i < taken) {
        offered[i].activation = activations.getAtIndex(ValueLayout.JAVA_LONG, i);
      } else {
        queue.addFirst(offered[i]);
      }
      offered[i] = null;
    }
    int whyNot = batch.get(ValueLayout.JAVA_INT, Batch.WHY_NOT);
    starved = whyNot == Errors.AGAIN;
    if (starved) {
      warnOnce();
    } else if (whyNot != 0) {
      fail(queue.poll(), whyNot);
    }
    for (int i = 0; i < brought; i++) {
      deliver((long) i * Completion.SIZE);
    }
    if (lost) {
      throw new IOException(Errors.text(calls, Errors.ENGINE_LOST));
    }
  }

  /** Operations wait for each other now, and pending reads of idle connections may never end. */
  private void warnOnce() {
    if (!warned) {
      warned = true;
      try {
        LOG.log(
            System.Logger.Level.WARNING,
            "all native.slots of a lane are in use, so operations wait until others are complete;"
                + " set native.slots above the number of operations that are pending");
      } catch (RuntimeException | Error e) {
        // A log that fails, or has no memory, must not end the engine.
        return;
      }
    }
  }

  private int exchangeBatch(long nanoseconds) {
    if (nanoseconds == 0) {
      return calls.exchange(proactor, batch.address(), completions.address(), BATCH, 0);
    }
    interruption.beginWait();
    try {
      return calls.exchange(proactor, batch.address(), completions.address(), BATCH, nanoseconds);
    } finally {
      interruption.endWait();
    }
  }

  private void write(Request request, long at) {
    NativeEndpoint endpoint = (NativeEndpoint) request.transfer.endpoint();
    operations.set(ValueLayout.JAVA_INT, at + Operation.OWN_SIZE, Operation.SIZE);
    operations.set(ValueLayout.JAVA_SHORT, at + Operation.KIND, request.kind);
    operations.set(
        ValueLayout.JAVA_SHORT,
        at + Operation.FLAGS,
        request.kind == Kind.WAIT_READY ? Layouts.READABLE : 0);
    operations.set(ValueLayout.JAVA_LONG, at + Operation.HANDLE, endpoint.handle);
    operations.set(ValueLayout.JAVA_LONG, at + Operation.TAG, request.slot);
    operations.set(ValueLayout.JAVA_LONG, at + Operation.DATA, request.data);
    operations.set(ValueLayout.JAVA_LONG, at + Operation.LENGTH, request.length);
    operations.set(
        ValueLayout.JAVA_LONG,
        at + Operation.ENDPOINT,
        request.address == null ? 0 : request.address.address);
  }

  // -- completing --------------------------------------------------------------------------------

  private void deliver(long at) {
    Request request = slots[(int) completions.get(ValueLayout.JAVA_LONG, at + Completion.TAG)];
    long result = completions.get(ValueLayout.JAVA_LONG, at + Completion.RESULT);
    int error = completions.get(ValueLayout.JAVA_INT, at + Completion.ERROR);
    if (request.kind == Kind.READ_STREAM || request.kind == Kind.WRITE_STREAM) {
      ((NativeEndpoint) request.transfer.endpoint()).failed(error);
    }
    if (request.kind == Kind.WAIT_READY && error == 0 && !request.cancelAsked) {
      readable(request);
    } else if (moved(request, result)) {
      // Also when it was cancelled or failed behind these bytes: they are booked first.
      completeBytes(request, (int) result);
    } else if (error == Errors.CANCELLED && request.cancelAsked
        || request.kind == Kind.WAIT_READY && error == 0) {
      finish(request).cancelled();
    } else if (error == Errors.ENGINE_LOST) {
      // Its transfer fails with the engine. An accept would be tried again for ever.
      lost = true;
    } else if (error != 0) {
      fail(request, error);
    } else {
      complete(request, (int) result);
    }
  }

  private static boolean moved(Request request, long result) {
    return request.buffer != null && result > 0;
  }

  private void readable(Request request) {
    NativeEndpoint endpoint = (NativeEndpoint) request.transfer.endpoint();
    try {
      if (request.transfer.kind() == Transfer.Kind.ACCEPT) {
        accept(endpoint, request);
      } else {
        request.activation = 0;
        startBytes(endpoint, request, request.transfer.buffer());
      }
    } catch (RuntimeException | OutOfMemoryError e) {
      finish(request).failed(e);
    }
  }

  private void accept(NativeEndpoint listener, Request request) {
    NativeEndpoint connection = listener.forAccept();
    int answer = calls.accept(listener.descriptor());
    listener.mayHaveConnections = answer >= 0;
    if (answer >= 0) {
      connection.accepted(answer);
      finish(request).accepted(connection);
    } else if (answer == -Errors.AGAIN) {
      // There is none left, the peer has given up, or another process was faster.
      waitUntilReadable(request);
    } else if (answer == -Errors.INVALID) {
      finish(request).failed(new NotYetBoundException());
    } else {
      fail(request, -answer);
    }
  }

  private void complete(Request request, int result) {
    NativeEndpoint endpoint = (NativeEndpoint) request.transfer.endpoint();
    switch (request.kind) {
      case Kind.CONNECT -> {
        endpoint.connected(request.transfer.address());
        finish(request).completed(0);
      }
      case Kind.CLOSE -> {
        endpoint.handle = 0;
        finish(request).completed(0);
      }
      // Nothing, and no error: the peer has ended the stream.
      case Kind.READ_STREAM -> completeAtEnd(endpoint, request);
      default -> completeBytes(request, result);
    }
  }

  private void completeAtEnd(NativeEndpoint endpoint, Request request) {
    try {
      endpoint.checkLoss();
    } catch (IOException | OutOfMemoryError e) {
      finish(request).failed(e);
      return;
    }
    finish(request).completed(-1);
  }

  private void completeBytes(Request request, int moved) {
    ByteBuffer buffer = request.buffer;
    int position = buffer.position();
    boolean reads = request.kind == Kind.READ_STREAM || request.kind == Kind.READ_DATAGRAM;
    try {
      if (reads && request.bytes != null) {
        buffer.put(position, request.bytes.bytes, 0, moved);
      }
      buffer.position(position + moved);
    } catch (RuntimeException e) {
      // The program changed the buffer while it was the library's.
      finish(request).failed(e);
      return;
    }
    if (request.transfer.kind() == Transfer.Kind.RECEIVE) {
      receive(request, moved);
    } else {
      finish(request).completed(moved);
    }
  }

  private void receive(Request request, int moved) {
    InetSocketAddress sender;
    try {
      sender = addresses.decode(request.address.memory);
    } catch (OutOfMemoryError e) {
      finish(request).failed(e);
      return;
    }
    finish(request).received(moved, sender);
  }

  private void fail(Request request, int error) {
    boolean datagram = request.transfer.endpoint().kind() == Endpoint.Kind.DATAGRAM;
    Throwable why;
    try {
      why =
          datagram && error == Errors.REFUSED
              ? new PortUnreachableException(Errors.text(calls, error))
              : Errors.of(calls, error);
    } catch (OutOfMemoryError e) {
      why = e;
    }
    finish(request).failed(why);
  }

  /** Frees the request's memory; its transfer is to be completed, or is parked. */
  private Transfer finish(Request request) {
    slots[request.slot] = null;
    freeSlots[freeCount++] = request.slot;
    request.slot = -1;
    request.buffer = null;
    request.data = 0;
    request.length = 0;
    if (request.bytes != null) {
      blocks.give(request.bytes);
      request.bytes = null;
    }
    if (request.address != null) {
      blocks.give(request.address);
      request.address = null;
    }
    completed++;
    return request.transfer;
  }

  // -- waking and closing ------------------------------------------------------------------------

  @Override
  public void wake() {
    synchronized (wakeLock) {
      if (open) {
        calls.wake(proactor);
      }
    }
  }

  @Override
  public void close() {
    closeProactor();
    for (Request left : slots) {
      if (left != null) {
        // After a failure only; the transfer was completed by the library.
        finish(left);
      }
    }
    blocks.close();
    arena.close();
  }

  private void closeProactor() {
    synchronized (wakeLock) {
      if (!open) {
        return;
      }
      // It stays open if there is no memory for the call: the kernel may use the program's then.
      calls.close(proactor);
      open = false;
    }
  }

  /** Native memory that transfers hold now: for tests. */
  int blocksOut() {
    return blocks.out();
  }
}
