package io.baton.nativeengine;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Tells views of arenas that can be closed: their memory may be gone while the kernel writes to it.
 *
 * <p>The JDK has no question for it. So the classes of scopes are learnt from one example of each
 * kind. A JDK that had one class for both would have every buffer pass.
 */
final class BufferScopes {
  private static final Set<Class<?>> CLOSEABLE = closeable();

  private BufferScopes() {}

  private static Set<Class<?>> closeable() {
    try (Arena shared = Arena.ofShared();
        Arena confined = Arena.ofConfined()) {
      Set<Class<?>> lasting =
          Stream.of(
                  Arena.global().scope(),
                  Arena.ofAuto().scope(),
                  MemorySegment.ofBuffer(ByteBuffer.allocateDirect(1)).scope())
              .map(Object::getClass)
              .collect(Collectors.toSet());
      return Stream.of(shared.scope(), confined.scope())
          .<Class<?>>map(Object::getClass)
          .filter(one -> !lasting.contains(one))
          .collect(Collectors.toUnmodifiableSet());
    }
  }

  static boolean canBeClosed(ByteBuffer buffer) {
    return buffer.isDirect()
        && CLOSEABLE.contains(MemorySegment.ofBuffer(buffer).scope().getClass());
  }
}
