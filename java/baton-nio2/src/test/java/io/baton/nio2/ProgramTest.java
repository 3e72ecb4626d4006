package io.baton.nio2;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.channels.spi.AsynchronousChannelProvider;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;

/**
 * Programs of other people, with nothing changed. Maven runs each of these tests twice: as it is,
 * and with the property that chooses Baton.
 */
@Tag("program")
abstract class ProgramTest {

  @BeforeAll
  static void theProviderIsTheOneThatThisRunIsFor() {
    boolean baton = AsynchronousChannelProvider.provider() instanceof BatonProvider;
    assertEquals(System.getProperty("baton.nio2.expected"), baton ? "baton" : "jdk");
  }
}
