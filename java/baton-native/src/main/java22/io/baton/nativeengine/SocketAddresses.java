package io.baton.nativeengine;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.Inet4Address;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteOrder;
import java.nio.channels.UnsupportedAddressTypeException;

/** Addresses as Linux has them: sockaddr_in and sockaddr_in6. */
final class SocketAddresses {
  static final int FAMILY_4 = 2;
  static final int FAMILY_6 = 10;
  static final int SIZE_4 = 16;
  static final int SIZE_6 = 28;

  /** Room for both. */
  static final int SIZE_MAX = 32;

  private static final ValueLayout.OfShort PORT =
      ValueLayout.JAVA_SHORT.withOrder(ByteOrder.BIG_ENDIAN);
  private static final int PORT_AT = 2;
  private static final int BYTES_4_AT = 4;
  private static final int FLOW_AT = 4;
  private static final int BYTES_6_AT = 8;
  static final int SCOPE_AT = 24;
  private static final int MAPPED_PREFIX = 10;

  private SocketAddresses() {}

  /** Bytes of an address. */
  static int size(int family) {
    return family == FAMILY_4 ? SIZE_4 : SIZE_6;
  }

  /** The address, if a socket of this family can use it. */
  static InetSocketAddress check(SocketAddress address, int family) {
    if (address instanceof InetSocketAddress internet
        && !internet.isUnresolved()
        && (family == FAMILY_6 || internet.getAddress() instanceof Inet4Address)) {
      return internet;
    }
    throw new UnsupportedAddressTypeException();
  }

  /** Writes the address of a peer for a socket of this family, and answers its length. */
  static int encode(InetSocketAddress address, int family, MemorySegment to) {
    to.set(ValueLayout.JAVA_SHORT, 0, (short) family);
    to.set(PORT, PORT_AT, (short) address.getPort());
    InetAddress host = address.getAddress();
    byte[] bytes = host.getAddress();
    if (family == FAMILY_4) {
      MemorySegment.copy(bytes, 0, to, ValueLayout.JAVA_BYTE, BYTES_4_AT, bytes.length);
      to.set(ValueLayout.JAVA_LONG, 8, 0);
      return SIZE_4;
    }
    to.set(ValueLayout.JAVA_INT, FLOW_AT, 0);
    to.set(ValueLayout.JAVA_INT, SCOPE_AT, 0);
    if (host instanceof Inet6Address host6) {
      MemorySegment.copy(bytes, 0, to, ValueLayout.JAVA_BYTE, BYTES_6_AT, bytes.length);
      to.set(ValueLayout.JAVA_INT, SCOPE_AT, host6.getScopeId());
    } else {
      encodeMapped(bytes, to);
    }
    return SIZE_6;
  }

  /** The same for a bind: "any" of IPv4 is any of both. As a peer it is 127.0.0.1 alone. */
  static int encodeOwn(InetSocketAddress address, int family, MemorySegment to) {
    int length = encode(address, family, to);
    if (family == FAMILY_6 && address.getAddress().isAnyLocalAddress()) {
      to.set(ValueLayout.JAVA_LONG, BYTES_6_AT + 8, 0);
    }
    return length;
  }

  /** An IPv4 address for an IPv6 socket. */
  private static void encodeMapped(byte[] bytes, MemorySegment to) {
    to.set(ValueLayout.JAVA_LONG, BYTES_6_AT, 0);
    to.set(ValueLayout.JAVA_SHORT, BYTES_6_AT + 8, (short) 0);
    to.set(ValueLayout.JAVA_SHORT, BYTES_6_AT + MAPPED_PREFIX, (short) 0xffff);
    MemorySegment.copy(
        bytes, 0, to, ValueLayout.JAVA_BYTE, BYTES_6_AT + MAPPED_PREFIX + 2, bytes.length);
  }

  /** The address that the system has written, or null for no internet address. */
  static InetSocketAddress decode(MemorySegment from) {
    int family = from.get(ValueLayout.JAVA_SHORT, 0);
    if (family != FAMILY_4 && family != FAMILY_6) {
      return null;
    }
    byte[] bytes = new byte[family == FAMILY_4 ? 4 : 16];
    MemorySegment.copy(
        from,
        ValueLayout.JAVA_BYTE,
        family == FAMILY_4 ? BYTES_4_AT : BYTES_6_AT,
        bytes,
        0,
        bytes.length);
    int scope = family == FAMILY_4 ? 0 : from.get(ValueLayout.JAVA_INT, SCOPE_AT);
    try {
      // Without a scope, so that a mapped address becomes an IPv4 one again.
      InetAddress host =
          scope == 0
              ? InetAddress.getByAddress(bytes)
              : Inet6Address.getByAddress(null, bytes, scope);
      return new InetSocketAddress(host, port(from));
    } catch (UnknownHostException e) {
      throw new AssertionError("an address has 4 or 16 bytes", e);
    }
  }

  static int port(MemorySegment from) {
    return from.get(PORT, PORT_AT) & 0xffff;
  }
}
