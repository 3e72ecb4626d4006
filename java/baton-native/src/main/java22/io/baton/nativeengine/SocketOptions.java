package io.baton.nativeengine;

import static java.net.StandardSocketOptions.IP_MULTICAST_IF;
import static java.net.StandardSocketOptions.IP_MULTICAST_LOOP;
import static java.net.StandardSocketOptions.IP_MULTICAST_TTL;
import static java.net.StandardSocketOptions.IP_TOS;
import static java.net.StandardSocketOptions.SO_BROADCAST;
import static java.net.StandardSocketOptions.SO_KEEPALIVE;
import static java.net.StandardSocketOptions.SO_LINGER;
import static java.net.StandardSocketOptions.SO_RCVBUF;
import static java.net.StandardSocketOptions.SO_REUSEADDR;
import static java.net.StandardSocketOptions.SO_REUSEPORT;
import static java.net.StandardSocketOptions.SO_SNDBUF;
import static java.net.StandardSocketOptions.TCP_NODELAY;

import io.baton.spi.Endpoint;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.net.SocketOption;
import java.util.EnumMap;
import java.util.Map;
import java.util.Set;
import jdk.net.ExtendedSocketOptions;

/** Options of sockets: the JDK's names, Linux's numbers. */
final class SocketOptions {
  static final int LEVEL_SOCKET = 1;
  static final int LEVEL_6 = 41;
  static final int REUSE_ADDRESS = 2;
  static final int LINGER = 13;
  static final int ONLY_6 = 26;

  /** A pair of numbers, the switch and the seconds. */
  static final int LINGER_SIZE = 8;

  private static final int LEVEL_4 = 0;
  private static final int LEVEL_TCP = 6;
  private static final int NONE = -1;

  /**
   * Where an option is. A socket for IPv6 carries IPv4 as well, so an option of the network level
   * is set for both, and asked for at IPv6.
   *
   * @param most the largest number that it may have
   */
  private record Place(int level, int name, int name6, long least, long most) {}

  private static final Map<SocketOption<?>, Place> PLACES =
      Map.ofEntries(
          socket(SO_SNDBUF, 7, 0),
          socket(SO_RCVBUF, 8, 0),
          socket(SO_KEEPALIVE, 9, 0),
          socket(SO_REUSEADDR, REUSE_ADDRESS, 0),
          socket(SO_REUSEPORT, 15, 0),
          socket(SO_BROADCAST, 6, 0),
          // A negative number switches it off.
          socket(SO_LINGER, LINGER, Integer.MIN_VALUE),
          tcp(TCP_NODELAY, 1),
          tcp(ExtendedSocketOptions.TCP_KEEPIDLE, 4),
          tcp(ExtendedSocketOptions.TCP_KEEPINTERVAL, 5),
          tcp(ExtendedSocketOptions.TCP_KEEPCOUNT, 6),
          tcp(ExtendedSocketOptions.TCP_QUICKACK, 12),
          Map.entry(IP_TOS, new Place(LEVEL_4, 1, 67, 0, 255)),
          Map.entry(IP_MULTICAST_TTL, new Place(LEVEL_4, 33, 18, 0, 255)),
          Map.entry(IP_MULTICAST_LOOP, new Place(LEVEL_4, 34, 19, 0, 1)),
          Map.entry(IP_MULTICAST_IF, new Place(LEVEL_4, 32, 17, 0, Integer.MAX_VALUE)));

  private static final Map<Endpoint.Kind, Set<SocketOption<?>>> SUPPORTED =
      new EnumMap<>(
          Map.of(
              Endpoint.Kind.STREAM,
              Set.of(
                  SO_SNDBUF,
                  SO_RCVBUF,
                  SO_KEEPALIVE,
                  SO_REUSEADDR,
                  SO_REUSEPORT,
                  SO_LINGER,
                  TCP_NODELAY,
                  IP_TOS,
                  ExtendedSocketOptions.TCP_KEEPIDLE,
                  ExtendedSocketOptions.TCP_KEEPINTERVAL,
                  ExtendedSocketOptions.TCP_KEEPCOUNT,
                  ExtendedSocketOptions.TCP_QUICKACK),
              Endpoint.Kind.LISTENER,
              Set.of(
                  SO_RCVBUF,
                  SO_REUSEADDR,
                  SO_REUSEPORT,
                  ExtendedSocketOptions.TCP_KEEPIDLE,
                  ExtendedSocketOptions.TCP_KEEPINTERVAL,
                  ExtendedSocketOptions.TCP_KEEPCOUNT,
                  ExtendedSocketOptions.TCP_QUICKACK),
              Endpoint.Kind.DATAGRAM,
              Set.of(
                  SO_SNDBUF,
                  SO_RCVBUF,
                  SO_REUSEADDR,
                  SO_REUSEPORT,
                  SO_BROADCAST,
                  IP_TOS,
                  IP_MULTICAST_TTL,
                  IP_MULTICAST_LOOP,
                  IP_MULTICAST_IF)));

  private SocketOptions() {}

  private static Map.Entry<SocketOption<?>, Place> socket(
      SocketOption<?> option, int name, int least) {
    return Map.entry(option, new Place(LEVEL_SOCKET, name, NONE, least, Integer.MAX_VALUE));
  }

  private static Map.Entry<SocketOption<?>, Place> tcp(SocketOption<?> option, int name) {
    return Map.entry(option, new Place(LEVEL_TCP, name, NONE, 0, Integer.MAX_VALUE));
  }

  static Set<SocketOption<?>> supported(Endpoint.Kind kind) {
    return SUPPORTED.get(kind);
  }

  private static Place place(Endpoint.Kind kind, SocketOption<?> option) {
    if (!SUPPORTED.get(kind).contains(option)) {
      throw new UnsupportedOperationException(
          "option: " + option.name() + " is none of a " + kind.name().toLowerCase());
    }
    return PLACES.get(option);
  }

  /** The argument of setsockopt for this value. The interface is its index. */
  static int number(Endpoint.Kind kind, SocketOption<?> option, Object value) {
    Place place = place(kind, option);
    long number = NONE;
    if (value instanceof Boolean on) {
      number = on ? 1 : 0;
    } else if (value instanceof Integer given) {
      number = given;
    } else if (value instanceof NetworkInterface network) {
      number = network.getIndex();
    }
    if (!option.type().isInstance(value) || number < place.least || number > place.most) {
      throw new IllegalArgumentException(
          "value: " + value + " is none that the option " + option.name() + " can have");
    }
    return (int) number;
  }

  /** Sets an option, and answers as the system does. */
  static int set(
      NativeCalls calls, int descriptor, boolean for6, SocketOption<?> option, int number) {
    Place place = PLACES.get(option);
    try (Arena arena = Arena.ofConfined()) {
      if (option == SO_LINGER) {
        MemorySegment linger = linger(arena, number);
        return calls.setSocketOption(
            descriptor, place.level, place.name, linger.address(), LINGER_SIZE);
      }
      MemorySegment value = arena.allocateFrom(ValueLayout.JAVA_INT, number);
      if (for6 && place.name6 != NONE) {
        int answer =
            calls.setSocketOption(descriptor, LEVEL_6, place.name6, value.address(), Integer.BYTES);
        if (answer < 0) {
          return answer;
        }
      }
      if (option == IP_MULTICAST_IF) {
        // struct ip_mreqn: two addresses, and the index.
        MemorySegment request = arena.allocateFrom(ValueLayout.JAVA_INT, 0, 0, number);
        return calls.setSocketOption(
            descriptor, place.level, place.name, request.address(), 3 * Integer.BYTES);
      }
      return calls.setSocketOption(
          descriptor, place.level, place.name, value.address(), Integer.BYTES);
    }
  }

  static MemorySegment linger(Arena arena, int seconds) {
    return arena.allocateFrom(ValueLayout.JAVA_INT, seconds < 0 ? 0 : 1, Math.max(seconds, 0));
  }

  /** Asks for an option; the value as the option defines it. */
  static Object get(
      NativeCalls calls, int descriptor, boolean for6, Endpoint.Kind kind, SocketOption<?> option)
      throws java.io.IOException {
    Place place = place(kind, option);
    boolean at6 = for6 && place.name6 != NONE;
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment value = arena.allocate(3 * Integer.BYTES, Integer.BYTES);
      int room = option == SO_LINGER ? LINGER_SIZE : Integer.BYTES;
      MemorySegment length = arena.allocateFrom(ValueLayout.JAVA_INT, room);
      // Without IPv6 the index of the interface is the third number.
      boolean third = option == IP_MULTICAST_IF && !at6;
      if (third) {
        length.set(ValueLayout.JAVA_INT, 0, 3 * Integer.BYTES);
      }
      Errors.check(
          calls,
          calls.getSocketOption(
              descriptor,
              at6 ? LEVEL_6 : place.level,
              at6 ? place.name6 : place.name,
              value.address(),
              length.address()));
      int first = value.getAtIndex(ValueLayout.JAVA_INT, third ? 2 : 0);
      return value(option, first, value.getAtIndex(ValueLayout.JAVA_INT, 1));
    }
  }

  private static Object value(SocketOption<?> option, int first, int second)
      throws SocketException {
    if (option == SO_LINGER) {
      return first == 0 ? -1 : second;
    }
    if (option == SO_SNDBUF || option == SO_RCVBUF) {
      // Linux doubles the value, for its own overhead.
      return first / 2;
    }
    if (option == IP_MULTICAST_IF) {
      return first == 0 ? null : NetworkInterface.getByIndex(first);
    }
    return option.type() == Boolean.class ? (Object) (first != 0) : (Object) first;
  }
}
