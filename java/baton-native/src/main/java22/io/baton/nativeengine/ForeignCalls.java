package io.baton.nativeengine;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;

/**
 * The calls as they are. None is {@code critical}: a thread inside such a call reaches no
 * safepoint, and exchange waits.
 */
final class ForeignCalls implements NativeCalls {
  static final int SOCK_NONBLOCK = 0x800;
  static final int SOCK_CLOSE_ON_EXEC = 0x80000;
  private static final int MESSAGE_DONT_WAIT = 0x40;
  private static final int MESSAGE_NO_SIGNAL = 0x4000;

  private static final Linker LINKER = Linker.nativeLinker();
  private static final SymbolLookup BATON = Library.load();
  private static final Linker.Option ERRNO = Linker.Option.captureCallState("errno");
  private static final MemoryLayout STATE = Linker.Option.captureStateLayout();
  private static final VarHandle ERROR_NUMBER =
      STATE.varHandle(MemoryLayout.PathElement.groupElement("errno"));

  private static final MethodHandle OPEN =
      baton("open", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
  private static final MethodHandle CLOSE = baton("close", FunctionDescriptor.ofVoid(JAVA_LONG));
  private static final MethodHandle ATTACH =
      baton("attach", FunctionDescriptor.of(JAVA_INT, JAVA_LONG));
  private static final MethodHandle EXCHANGE =
      baton(
          "exchange",
          FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG));
  private static final MethodHandle WAKE = baton("wake", FunctionDescriptor.ofVoid(JAVA_LONG));
  private static final MethodHandle ADOPT =
      baton(
          "adopt",
          FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_LONG));
  private static final MethodHandle CANCEL =
      baton("cancel", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG));
  private static final MethodHandle SET_OPTION =
      baton("set_option", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
  private static final MethodHandle EXPLAIN =
      baton("explain", FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));
  private static final MethodHandle ENGINES =
      baton("engines", FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_LONG));
  private static final MethodHandle ENGINE_REASON =
      baton("engine_reason", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));
  private static final MethodHandle ERROR_TEXT =
      baton("error_text", FunctionDescriptor.of(JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG));

  private static final FunctionDescriptor WITH_NAME =
      FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_LONG);
  private static final FunctionDescriptor WITH_ADDRESS =
      FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_INT);
  private static final FunctionDescriptor WITH_NUMBER =
      FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT);
  private static final FunctionDescriptor OF_BYTES =
      FunctionDescriptor.of(JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_INT);
  private static final MethodHandle RECEIVE = system("recv", OF_BYTES);
  private static final MethodHandle SEND = system("send", OF_BYTES);
  private static final MethodHandle SOCKET =
      system("socket", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT));
  private static final MethodHandle BIND = system("bind", WITH_ADDRESS);
  private static final MethodHandle LISTEN = system("listen", WITH_NUMBER);
  private static final MethodHandle ACCEPT =
      system("accept4", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_INT));
  private static final MethodHandle CONNECT = system("connect", WITH_ADDRESS);
  private static final MethodHandle OWN_NAME = system("getsockname", WITH_NAME);
  private static final MethodHandle PEER_NAME = system("getpeername", WITH_NAME);
  private static final MethodHandle SET_SOCKET_OPTION =
      system(
          "setsockopt",
          FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_INT));
  private static final MethodHandle GET_SOCKET_OPTION =
      system(
          "getsockopt",
          FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_LONG));
  private static final MethodHandle SHUTDOWN = system("shutdown", WITH_NUMBER);
  private static final MethodHandle CLOSE_DESCRIPTOR =
      system("close", FunctionDescriptor.of(JAVA_INT, JAVA_INT));

  /**
   * Finds all functions now.
   *
   * @throws ExceptionInInitializerError caused by an {@link UnavailableException}: one is missing
   */
  static void link() {
    // Initialising the class does it.
  }

  private static MethodHandle baton(String name, FunctionDescriptor type) {
    MemorySegment function =
        BATON
            .find("baton_" + name)
            .orElseThrow(
                () ->
                    new UnavailableException(
                        "libbaton has no function baton_"
                            + name
                            + "; take it and this jar from one release of Baton"));
    return LINKER.downcallHandle(function, type);
  }

  private static MethodHandle system(String name, FunctionDescriptor type) {
    MemorySegment function =
        LINKER
            .defaultLookup()
            .find(name)
            .orElseThrow(() -> new UnavailableException("the system has no function " + name));
    return LINKER.downcallHandle(function, type, ERRNO);
  }

  private static AssertionError impossible(Throwable thrown) {
    if (thrown instanceof VirtualMachineError error) {
      // No stack or no heap for the call: it was not made.
      throw error;
    }
    return new AssertionError("a native function cannot throw", thrown);
  }

  // More than after which the JVM makes code of its own for a handle that is called.
  private static final int PREPARING_CALLS = 256;

  private static boolean prepared;

  /**
   * Makes the calls that a lane cannot do without, and that its end needs: the JVM needs memory for
   * the first ones, and later there may be none. They change nothing here, but that the next wait
   * of the proactor is cut short.
   */
  private static synchronized void prepare(ForeignCalls calls, long proactor) {
    for (int i = 0; i < PREPARING_CALLS && !prepared; i++) {
      calls.exchange(proactor, 0, 0, 0, 0);
      calls.wake(proactor);
      calls.cancel(proactor, 0);
      calls.close(0);
    }
    prepared = true;
  }

  /** A call of the system, with room for its errno. */
  private interface Call {
    int with(MemorySegment state) throws Throwable;
  }

  // Not for the messages of a lane: it allocates.
  private static int answer(Call call) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment state = arena.allocate(STATE);
      int result = call.with(state);
      return result >= 0 ? result : -(int) ERROR_NUMBER.get(state, 0L);
    } catch (Throwable e) {
      throw impossible(e);
    }
  }

  @Override
  public int open(long config, long out, long reason, long reasonSize) {
    try {
      return (int) OPEN.invokeExact(config, out, reason, reasonSize);
    } catch (Throwable e) {
      throw impossible(e);
    }
  }

  @Override
  public void close(long proactor) {
    try {
      CLOSE.invokeExact(proactor);
    } catch (Throwable e) {
      throw impossible(e);
    }
  }

  @Override
  public int attach(long proactor) {
    int error;
    try {
      error = (int) ATTACH.invokeExact(proactor);
    } catch (Throwable e) {
      throw impossible(e);
    }
    if (error == 0) {
      prepare(this, proactor);
    }
    return error;
  }

  @Override
  public int exchange(long proactor, long batch, long completions, int most, long nanoseconds) {
    try {
      return (int) EXCHANGE.invokeExact(proactor, batch, completions, most, nanoseconds);
    } catch (Throwable e) {
      throw impossible(e);
    }
  }

  @Override
  public void wake(long proactor) {
    try {
      WAKE.invokeExact(proactor);
    } catch (Throwable e) {
      throw impossible(e);
    }
  }

  @Override
  public int adopt(long proactor, int descriptor, int kind, int ownership, long out) {
    try {
      return (int) ADOPT.invokeExact(proactor, descriptor, kind, ownership, out);
    } catch (Throwable e) {
      throw impossible(e);
    }
  }

  @Override
  public int cancel(long proactor, long activation) {
    try {
      return (int) CANCEL.invokeExact(proactor, activation);
    } catch (Throwable e) {
      throw impossible(e);
    }
  }

  @Override
  public int setOption(long proactor, long handle, long option) {
    try {
      return (int) SET_OPTION.invokeExact(proactor, handle, option);
    } catch (Throwable e) {
      throw impossible(e);
    }
  }

  @Override
  public long explain(long proactor, long text, long size) {
    try {
      return (long) EXPLAIN.invokeExact(proactor, text, size);
    } catch (Throwable e) {
      throw impossible(e);
    }
  }

  @Override
  public long engines(long text, long size) {
    try {
      return (long) ENGINES.invokeExact(text, size);
    } catch (Throwable e) {
      throw impossible(e);
    }
  }

  @Override
  public int engineReason(long engine, long reason, long size) {
    try {
      return (int) ENGINE_REASON.invokeExact(engine, reason, size);
    } catch (Throwable e) {
      throw impossible(e);
    }
  }

  @Override
  public long errorText(int error, long text, long size) {
    try {
      return (long) ERROR_TEXT.invokeExact(error, text, size);
    } catch (Throwable e) {
      throw impossible(e);
    }
  }

  @Override
  public int socket(int family, int type) {
    return answer(state -> (int) SOCKET.invokeExact(state, family, type, 0));
  }

  @Override
  public int bind(int descriptor, long address, int length) {
    return answer(state -> (int) BIND.invokeExact(state, descriptor, address, length));
  }

  @Override
  public int listen(int descriptor, int backlog) {
    return answer(state -> (int) LISTEN.invokeExact(state, descriptor, backlog));
  }

  @Override
  public int accept(int descriptor) {
    return answer(
        state ->
            (int)
                ACCEPT.invokeExact(state, descriptor, 0L, 0L, SOCK_NONBLOCK | SOCK_CLOSE_ON_EXEC));
  }

  @Override
  public int receive(int descriptor, long address, int length) {
    return answer(
        state ->
            (int)
                (long)
                    RECEIVE.invokeExact(
                        state, descriptor, address, (long) length, MESSAGE_DONT_WAIT));
  }

  @Override
  public int send(int descriptor, long address, int length) {
    return answer(
        state ->
            (int)
                (long)
                    SEND.invokeExact(
                        state,
                        descriptor,
                        address,
                        (long) length,
                        MESSAGE_DONT_WAIT | MESSAGE_NO_SIGNAL));
  }

  @Override
  public int connect(int descriptor, long address, int length) {
    return answer(state -> (int) CONNECT.invokeExact(state, descriptor, address, length));
  }

  @Override
  public int ownName(int descriptor, long address, long length) {
    return answer(state -> (int) OWN_NAME.invokeExact(state, descriptor, address, length));
  }

  @Override
  public int peerName(int descriptor, long address, long length) {
    return answer(state -> (int) PEER_NAME.invokeExact(state, descriptor, address, length));
  }

  @Override
  public int setSocketOption(int descriptor, int level, int name, long value, int length) {
    return answer(
        state ->
            (int) SET_SOCKET_OPTION.invokeExact(state, descriptor, level, name, value, length));
  }

  @Override
  public int getSocketOption(int descriptor, int level, int name, long value, long length) {
    return answer(
        state ->
            (int) GET_SOCKET_OPTION.invokeExact(state, descriptor, level, name, value, length));
  }

  @Override
  public int shutdown(int descriptor, int how) {
    return answer(state -> (int) SHUTDOWN.invokeExact(state, descriptor, how));
  }

  @Override
  public int closeDescriptor(int descriptor) {
    return answer(state -> (int) CLOSE_DESCRIPTOR.invokeExact(state, descriptor));
  }
}
