package io.baton.nativeengine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The tables answer the same as a new computation, after any earlier queries. */
class KnownAddressesTest {
  private static final int[] FAMILIES = {SocketAddresses.FAMILY_4, SocketAddresses.FAMILY_6};

  private final KnownAddresses known = new KnownAddresses();

  private static List<InetSocketAddress> addresses() throws Exception {
    List<InetSocketAddress> all = new ArrayList<>();
    for (int i = 0; i < 2 * KnownAddresses.SIZE; i++) {
      byte[] host4 = {10, 0, (byte) (i >> 8), (byte) i};
      all.add(new InetSocketAddress(InetAddress.getByAddress(host4), 1 + i % 60_000));
      byte[] host6 = new byte[16];
      host6[0] = (byte) 0xfe;
      host6[1] = (byte) 0x80;
      host6[15] = (byte) (i / 8);
      // Equal in the eyes of Java, but for the scope.
      all.add(new InetSocketAddress(Inet6Address.getByAddress(null, host6, i % 8), 7));
    }
    all.add(new InetSocketAddress(0));
    return all;
  }

  private static byte[] bytes(MemorySegment memory, int length) {
    return memory.asSlice(0, length).toArray(ValueLayout.JAVA_BYTE);
  }

  @Test
  void encodesAsWithoutATable() throws Exception {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment expected = arena.allocate(SocketAddresses.SIZE_MAX, 8);
      MemorySegment found = arena.allocate(SocketAddresses.SIZE_MAX, 8);
      for (int round = 0; round < 2; round++) {
        for (InetSocketAddress address : addresses()) {
          for (int family : FAMILIES) {
            if (family == SocketAddresses.FAMILY_4
                && address.getAddress() instanceof Inet6Address) {
              continue;
            }
            int length = SocketAddresses.encode(address, family, expected);
            for (int again = 0; again < 2; again++) {
              found.fill((byte) 0x55);
              assertEquals(length, known.encode(address, family, found));
              assertEquals(
                  Arrays.toString(bytes(expected, length)),
                  Arrays.toString(bytes(found, length)),
                  address::toString);
            }
          }
        }
      }
    }
  }

  @Test
  void decodesAsWithoutATable() throws Exception {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment memory = arena.allocate(SocketAddresses.SIZE_MAX, 8);
      for (int round = 0; round < 2; round++) {
        for (InetSocketAddress address : addresses()) {
          // The bytes after an address are arbitrary.
          memory.fill((byte) round);
          SocketAddresses.encode(address, SocketAddresses.FAMILY_6, memory);
          InetSocketAddress expected = SocketAddresses.decode(memory);
          InetSocketAddress found = known.decode(memory);
          assertEquals(expected, found);
          assertEquals(expected.toString(), found.toString());
          memory.set(ValueLayout.JAVA_INT, SocketAddresses.SIZE_6, ~round);
          assertSame(found, known.decode(memory));
        }
      }
    }
  }

  @Test
  void aSenderWithoutAnAddressIsNone() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment memory = arena.allocate(SocketAddresses.SIZE_MAX, 8);
      assertNull(known.decode(memory));
      assertNull(known.decode(memory));
    }
  }
}
