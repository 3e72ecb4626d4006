package io.baton.nativeengine;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.BindException;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.ProtocolException;
import java.net.SocketException;
import java.nio.channels.AlreadyBoundException;
import java.nio.channels.AlreadyConnectedException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ConnectionPendingException;
import java.nio.channels.NotYetConnectedException;

/** Numbers of errors as the exceptions that {@code java.nio} has for them. */
final class Errors {
  static final int NO_ENTRY = 2;
  static final int AGAIN = 11;
  static final int OUT_OF_MEMORY = 12;
  static final int ACCESS = 13;
  static final int INVALID = 22;
  private static final int NO_NETWORK = 64;
  static final int PROTOCOL = 71;
  private static final int NO_SUCH_OPTION = 92;
  static final int NO_SUCH_FAMILY = 97;
  static final int ADDRESS_IN_USE = 98;
  static final int ADDRESS_NOT_AVAILABLE = 99;
  private static final int NETWORK_UNREACHABLE = 101;
  private static final int CONNECTION_ABORTED = 103;
  static final int CONNECTION_RESET = 104;
  static final int IS_CONNECTED = 106;
  static final int NOT_CONNECTED = 107;
  static final int TIMED_OUT = 110;
  static final int REFUSED = 111;
  private static final int HOST_DOWN = 112;
  static final int NO_ROUTE = 113;
  static final int ALREADY = 114;
  static final int CANCELLED = 125;
  static final int HANDLE_CLOSED = 10002;
  static final int ENGINE_LOST = 10022;

  private static final int TEXT_MAX = 512;

  private Errors() {}

  /** Whether a stream's connection is lost by it, not ended by its peer. As the library has it. */
  static boolean isLoss(int error) {
    return switch (error) {
      case CONNECTION_RESET,
              CONNECTION_ABORTED,
              TIMED_OUT,
              REFUSED,
              NO_ROUTE,
              NETWORK_UNREACHABLE,
              HOST_DOWN,
              NO_NETWORK,
              NO_SUCH_OPTION,
              ACCESS,
              PROTOCOL ->
          true;
      default -> false;
    };
  }

  /** The exception for an error of a transfer. */
  static Exception of(NativeCalls calls, int error) {
    return switch (error) {
      case IS_CONNECTED -> new AlreadyConnectedException();
      case ALREADY -> new ConnectionPendingException();
      case NOT_CONNECTED -> new NotYetConnectedException();
      case HANDLE_CLOSED -> new ClosedChannelException();
      default -> ofInput(calls, error);
    };
  }

  private static IOException ofInput(NativeCalls calls, int error) {
    String text = text(calls, error);
    return switch (error) {
      case REFUSED, TIMED_OUT -> new ConnectException(text);
      case ADDRESS_IN_USE, ADDRESS_NOT_AVAILABLE, ACCESS -> new BindException(text);
      case NO_ROUTE -> new NoRouteToHostException(text);
      case PROTOCOL -> new ProtocolException(text);
      default -> new SocketException(text);
    };
  }

  /** Throws what an answer of the system means, unless it means success. */
  static int check(NativeCalls calls, int answer) throws IOException {
    if (answer >= 0) {
      return answer;
    }
    Exception error = of(calls, -answer);
    if (error instanceof IOException input) {
      throw input;
    }
    throw (RuntimeException) error;
  }

  /** Refuses a bind of what is bound by the exception that {@code java.nio} has for it. */
  static int checkBind(NativeCalls calls, int answer) throws IOException {
    if (-answer == INVALID) {
      throw new AlreadyBoundException();
    }
    return check(calls, answer);
  }

  static String text(NativeCalls calls, int error) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment text = arena.allocate(TEXT_MAX);
      calls.errorText(error, text.address(), TEXT_MAX);
      return text.getString(0);
    }
  }
}
